"""How much longer our RPM repositories take than createrepo_c alone.

Usage: ``python -m tests.bench.createrepo [--packages 500] [--rounds 15]``. Contestants take turns,
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
from collections.abc import Callable, Sequence

from buildchain.redhat import rpm_repository
from buildchain.redhat.rpm_repository import argv_for_createrepo
from buildchain.signatures.signing import Signer
from tests.bench.verdict import at_most, seconds
from tests.integration import el_mirror, stub_rpms
from tests.integration.conftest import run
from tests.integration.el_mirror import EPOCH
from tests.integration.stub_rpms import Stub

REQUIRES = ("/bin/sh", "glibc", "systemd")
PEER, OURS = "createrepo_c alone, its defaults", "ours, two releases"
TARGET = 1.2  # times createrepo_c alone, for both releases


class NoSigner(Signer):
    """Leaves everything unsigned."""

    def sign(self, file: pathlib.Path, output: pathlib.Path, **_: object) -> pathlib.Path:
        return output

    def sign_rpms(self, rpms: Sequence[pathlib.Path], **_: object) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
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

    def sign() -> None:
        rpm_repository.sign_copies(scratch / "signed", packages, signer, epoch=EPOCH)

    def ours(*folders: str) -> None:
        rpm_repository.make_rpm_repositories(
            [scratch / name for name in folders], packages, nobody, epoch=EPOCH
        )

    contestants: dict[str, Callable[[], None]] = {
        PEER: lambda: bare(["createrepo_c", "--quiet", alone]),
        "createrepo_c alone, our options": lambda: bare(argv_for_createrepo(alone, epoch=EPOCH)),
        "ours, one release": lambda: ours("el8"),
        OURS: lambda: ours("el8", "el9"),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, action in contestants.items():
            times[name].append(seconds(action))
    signing = seconds(sign)
    size = sum(package.stat().st_size for package in packages) >> 20
    print(f"{len(packages)} packages, {size} MiB, medians of {rounds} rounds")
    for name, taken in times.items():
        # Of each round its own ratio: what slows one contestant slows its neighbours.
        ratio = statistics.median(t / base for t, base in zip(taken, times[PEER], strict=True))
        spread = f"{min(taken):.2f} to {max(taken):.2f}"
        print(f"{name:34}{statistics.median(taken):8.2f} s  x {ratio:5.2f}   ({spread})")
    print(f"{'signing every package, apart':34}{signing:8.2f} s")
    return 0 if at_most("repositories / createrepo_c alone", ratio, TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
