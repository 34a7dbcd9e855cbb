"""What verifying the ISO's tree costs beside ``openssl dgst -sha256`` over the same files.

Usage: ``python -m tests.bench.verify [--rounds 9]``, after ``./doit.sh iso``. Both read the tree
from the page cache with one process on each processor and take turns; of each round its own ratio,
the median counts. ``sha256sum``, which verify.sh falls back to without openssl, is shown apart.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import statistics
import subprocess
import sys

from tests.bench.verdict import at_most, seconds

TARGET = 1.15  # times openssl, on as many processors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    build = pathlib.Path(os.environ["METALK8S_BUILD_ROOT"])
    tree, key = build / "root", build / "keys" / "metalk8s.gpg"
    jobs = os.cpu_count() or 1
    # The big ones first, as whoever wants to be quick would do it.
    files = "find . -type f -printf '%s\\t%p\\0' | sort -z -rn | cut -z -f 2-"
    each = f"{files} | xargs -0 -n 8 -P {jobs}"
    contestants = {
        "openssl dgst -sha256": ["sh", "-c", f"{each} openssl dgst -sha256 -r"],
        "verify.sh": ["sh", str(tree / "verify.sh"), "--key", str(key), "--quiet", str(tree)],
        "sha256sum": ["sh", "-c", f"{each} sha256sum"],
    }
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.rounds + 1):
        for name, argv in contestants.items():
            run = functools.partial(
                subprocess.run, argv, cwd=tree, stdout=subprocess.DEVNULL, check=True
            )
            taken[name].append(seconds(run))
    ratios = {}
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    print(f"{size >> 20} MiB, {jobs} at a time, medians of {options.rounds} rounds")
    for name, times in taken.items():
        # The first round fills the page cache.
        pairs = zip(times[1:], taken["openssl dgst -sha256"][1:], strict=True)
        ratios[name] = statistics.median(own / peer for own, peer in pairs)
        print(f"{name:24}{statistics.median(times[1:]):8.2f} s  x {ratios[name]:5.2f}")
    return 0 if at_most("verify.sh / openssl", ratios["verify.sh"], TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
