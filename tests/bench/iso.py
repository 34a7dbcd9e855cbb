"""What the ISO and its digest cost beside ``genisoimage`` and ``openssl dgst`` on the same tree.

Usage: ``python -m tests.bench.iso [--rounds 9]``, after ``./doit.sh iso``. Ours also compares the
image with the tree. Contestants take turns; of each round its own ratio, the median counts.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from buildchain.core import receipt
from buildchain.medium import iso
from buildchain.medium.iso import Medium
from buildchain.project.model import Version
from tests.bench.verdict import at_most, seconds

TARGET = 1.25  # times genisoimage and openssl
EPOCH = 1793491200  # seconds since 1970
FLAGS = ("-quiet", "-R", "-J", "-joliet-long", "-l", "-V", "BENCH", "-uid", "0", "-gid", "0",
         "-iso-level", "3")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    tree = pathlib.Path(os.environ["METALK8S_BUILD_ROOT"]) / "root"
    with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
        return compare(tree, pathlib.Path(scratch), options.rounds)


def compare(tree: pathlib.Path, scratch: pathlib.Path, rounds: int) -> int:
    """Time, print, and return 0 when the target is met."""
    medium = Medium("BENCH", Version(1, 0, 0, ""), tree, scratch / "ours.iso")
    peer = scratch / "peer.iso"

    def ours() -> None:
        iso.build(medium, "xorrisofs", "BENCH", EPOCH)
        receipt.sha256(medium.image)

    def theirs() -> None:
        subprocess.run(["genisoimage", *FLAGS, "-o", peer, tree], check=True)
        subprocess.run(["openssl", "dgst", "-sha256", peer], stdout=subprocess.DEVNULL, check=True)

    def written() -> None:
        peer.unlink(missing_ok=True)
        medium.image.unlink(missing_ok=True)

    pairs = []
    for _ in range(rounds + 1):
        # Replacing a file of this size costs a second or so, of which neither is to blame.
        written()
        pairs.append((seconds(theirs), seconds(ours)))
    # The first round fills the page cache.
    ratio = statistics.median(own / other for other, own in pairs[1:])
    medians = [statistics.median(taken) for taken in zip(*pairs[1:], strict=True)]
    print(f"{medium.image.stat().st_size >> 20} MiB, medians of {rounds} rounds")
    for name, median in zip(("genisoimage, openssl dgst", "ours"), medians, strict=True):
        print(f"{name:28}{median:8.2f} s")
    return 0 if at_most("ISO and digest / genisoimage and openssl", ratio, TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
