"""How much longer our RPM repositories take than createrepo_c alone.

Usage: ``python -m tests.bench.createrepo [--packages 500] [--rounds 5]``. Contestants take turns,
so that a busy machine slows all of them; medians are compared. Signing, which createrepo_c does
not do, is shown apart.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from buildchain.actions import repositories
from buildchain.actions.signing import Signer
from buildchain.tools import repository
from tests.integration import el_mirror, stub_rpms
from tests.integration.conftest import run
from tests.integration.el_mirror import EPOCH
from tests.integration.stub_rpms import Stub

REQUIRES = ("/bin/sh", "glibc", "systemd")
TARGET = 1.2  # times createrepo_c alone, without signing


class NoSigner(Signer):
    """Leaves everything unsigned."""

    def sign(self, file: pathlib.Path, output: pathlib.Path, **_: object) -> pathlib.Path:
        return output

    def sign_rpms(self, rpms: Sequence[pathlib.Path], **_: object) -> None:
        pass


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100, help="KiB in each package")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, el_mirror.key(pathlib.Path(scratch)) as key:
        names = [f"package-{number:03}" for number in range(options.packages)]
        stubs = [Stub(name, requires=REQUIRES, size=options.size << 10) for name in names]
        packages = stub_rpms.build(pathlib.Path(scratch) / "packages", stubs)
        return compare(pathlib.Path(scratch), packages, key.signer, options.rounds)


def compare(
    scratch: pathlib.Path, packages: Sequence[pathlib.Path], signer: Signer, rounds: int
) -> int:
    """Time, print, and return 0 when the target is met."""
    alone = scratch / "alone"
    shutil.copytree(scratch / "packages", alone)
    nobody = NoSigner(signer.home, signer.fingerprint, is_development=True)

    def bare(argv: Sequence[str | pathlib.Path]) -> None:
        shutil.rmtree(alone / "repodata", ignore_errors=True)
        run(*argv)

    def ours(folders: Sequence[str], who: Signer) -> None:
        repositories.make_rpm_repositories(
            [scratch / name for name in folders], packages, who, epoch=EPOCH
        )

    contestants: dict[str, Callable[[], None]] = {
        "createrepo_c alone, our options": lambda: bare(
            repository.argv_for_createrepo(alone, epoch=EPOCH)
        ),
        "createrepo_c alone, its defaults": lambda: bare(["createrepo_c", "--quiet", alone]),
        "ours, unsigned, one release": lambda: ours(["el8"], nobody),
        "ours, unsigned, two releases": lambda: ours(["el8", "el9"], nobody),
        "ours, signed, two releases": lambda: ours(["el8", "el9"], signer),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, action in contestants.items():
            times[name].append(seconds(action))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    base = medians["createrepo_c alone, our options"]
    size = sum(package.stat().st_size for package in packages) >> 20
    print(f"{len(packages)} packages, {size} MiB, median of {rounds} rounds")
    for name, median in medians.items():
        spread = f"{min(times[name]):.2f} to {max(times[name]):.2f}"
        print(f"{name:34}{median:8.2f} s  x {median / base:5.2f}   ({spread})")
    ratio = medians["ours, unsigned, one release"] / base
    print(f"ratio {ratio:.2f}, target {TARGET}")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
