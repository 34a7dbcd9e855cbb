"""What an update pack costs beside ``zstd --patch-from``, ``xdelta3`` and a copy of everything.

Usage: ``python -m tests.bench.update [--rounds 3] [--base NAME=ISO …]``, after ``./doit.sh iso``.
The new ISO is the one that was built. Old ones are made of its tree, unless given: ``docs``
has other pages, ``patch`` other packages and images of Kubernetes, which have nothing in common
with the new ones. Contestants take turns; all end with what they wrote on the disk. Memory is that
of the largest process.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.medium import block_list, iso
from buildchain.medium.iso import CHECKSUMS, checksum_lines
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from buildchain.updates import make
from tests.bench.verdict import at_most, seconds

SCRIPT = pathlib.Path(__file__).parents[2] / "salt/scripts/apply-update.sh"
SHARES = {"docs": 0.01, "patch": 0.10}  # of the ISO
SLOWER = 3.0  # times cp
MEMORY = 128.0  # MiB
EPOCH = 1700000000  # seconds since 1970
WINDOW = 29  # of zstd: the whole old ISO


@dataclass
class Cost:
    """What somebody needs: bytes, seconds, MiB, seconds of processors; ``make``: who makes it."""

    size: int = 0
    make: float = 0
    apply: float = 0
    memory: float = 0
    busy: float = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--base", action="append", default=[])
    options = parser.parse_args()
    image = pathlib.Path(os.environ["METALK8S_ISO"])
    with tempfile.TemporaryDirectory(dir=image.parent) as name:
        scratch = pathlib.Path(name)
        given = dict(base.split("=", 1) for base in options.base)
        bases = {name: pathlib.Path(path) for name, path in given.items()} or {
            kind: old_iso(kind, image.parent / "root", scratch) for kind in SHARES
        }
        layout = Layout(scratch, scratch / "build", scratch / "cache", "bench")
        with signing.signer(layout, "") as signer:
            new = listed(image, scratch / "new", signer)
            verdicts = [
                compare(kind, listed(path, scratch / kind, signer), new, signer, options.rounds)
                for kind, path in bases.items()
            ]
    return 0 if all(verdicts) else 1


def old_iso(kind: str, tree: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path:
    """Write an ISO of which some files are others."""
    root, output = scratch / f"tree-{kind}", scratch / f"{kind}.iso"
    subprocess.run(["cp", "-al", tree, root], check=True)
    names = Counter(file.name for file in root.glob("images/*/*/*"))
    # The layer of the base is in each image.
    for file in sorted(file for file in root.rglob("*") if file.is_file()):
        if not is_other(kind, file) or (kind == "patch" and names[file.name] > 1):
            continue
        content = file.read_bytes() + b"\nbefore\n"
        if kind == "patch":
            content = random.Random(str(file)).randbytes(len(content))
        # The link only, not what others have of it.
        file.unlink()
        file.write_bytes(content)
    argv = iso.argv_for_iso(
        "xorrisofs", root, output, volume_id="BENCH 1.0.0", epoch=EPOCH, reproducible=True
    )
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(root)
    return output


def is_other(kind: str, file: pathlib.Path) -> bool:
    if file.name in ("MANIFEST", "MANIFEST.sig", "SHA256SUM", "SHA256SUM.sig", "product.txt"):
        return True
    if kind == "docs":
        return file.suffix in (".md", ".html", ".js")
    if file.name.startswith(("kubelet", "kubectl", "kubeadm")):
        return True
    return file.parts[-3].startswith("kube-")


def listed(image: pathlib.Path, folder: pathlib.Path, signer: Signer) -> pathlib.Path:
    """Return a link to an ISO with lists beside it that a key of ours has signed."""
    folder.mkdir()
    file = folder / "bench.iso"
    subprocess.run(["cp", "--reflink=auto", image, file], check=True)
    blocks, sums = block_list.path_of(file), folder / CHECKSUMS
    blocks.write_text(block_list.text(file, "BENCH 1.0.0"))
    sums.write_text(checksum_lines({file.name: receipt.sha256(file)}))
    for path in (blocks, sums):
        signer.sign(path, path.with_name(f"{path.name}.sig"), epoch=EPOCH)
    return file


def compare(kind: str, old: pathlib.Path, new: pathlib.Path, signer: Signer, rounds: int) -> bool:
    """Measure, print, and tell whether the targets are met."""
    key = signer.export(old.parent, "key")[0]
    output, pack = old.parent / "made.iso", old.parent / "pack"
    costs = {"cp": Cost(new.stat().st_size), "update pack": Cost()}

    def ours() -> None:
        base, target = (make.read(path, [key]) for path in (old, new))
        make.write(base, target, pack, make.Wish(), keyrings=[key], signer=signer, epoch=EPOCH)

    costs["update pack"].make = seconds(ours)
    commands: dict[str, Sequence[str | pathlib.Path]] = {
        "cp": ["cp", new, output],
        "update pack": ["sh", SCRIPT, "-q", "-k", key, "-f", old, pack, old.parent / "made"],
    }
    costs["update pack"].size = pack.stat().st_size
    for name, wanted, argv, back in peers(old, new, output):
        if shutil.which(wanted) is None:
            print(f"{name} is not installed: not compared")
            continue
        delta = old.parent / wanted
        costs[name] = Cost()
        costs[name].make = seconds(lambda argv=argv: subprocess.run(argv, check=True))  # type: ignore[misc]
        costs[name].size = delta.stat().st_size
        commands[name] = back
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            output.unlink(missing_ok=True)
            shutil.rmtree(old.parent / "made", ignore_errors=True)
            taken[name].append(measured(argv, output))
    for name, runs in taken.items():
        costs[name].apply = statistics.median(run[0] for run in runs)
        costs[name].memory = max(run[1] for run in runs)
        costs[name].busy = statistics.median(run[2] for run in runs)
    ratio = statistics.median(
        one[0] / two[0] for one, two in zip(taken["update pack"], taken["cp"], strict=True)
    )
    return told(kind, costs, ratio, rounds)


def peers(
    old: pathlib.Path, new: pathlib.Path, output: pathlib.Path
) -> list[tuple[str, str, list[str | pathlib.Path], list[str | pathlib.Path]]]:
    """Return name, program, how it makes a delta (a file called as the program), and back."""
    zstd, xdelta = old.parent / "zstd", old.parent / "xdelta3"
    window = f"--long={WINDOW}"
    return [
        (
            "zstd --patch-from", "zstd",
            ["zstd", "-q", "-f", "-3", "-T1", window, "--patch-from", old, new, "-o", zstd],
            ["zstd", "-q", "-f", "-d", window, "--patch-from", old, zstd, "-o", output],
        ),
        (
            "xdelta3", "xdelta3",
            ["xdelta3", "-f", "-1", "-B", str(1 << WINDOW), "-e", "-s", old, new, xdelta],
            ["xdelta3", "-f", "-d", "-B", str(1 << WINDOW), "-s", old, xdelta, output],
        ),
    ]  # fmt: skip


# A process counts the memory of the one that it was forked from, so a small one starts it.
STARTER = (
    "import os, sys, time; began = time.perf_counter(); "
    "child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ); "
    "_, status, usage = os.wait4(child, 0); "
    "print(time.perf_counter() - began, usage.ru_maxrss / 1024, "
    "usage.ru_utime + usage.ru_stime); "
    "sys.exit(os.waitstatus_to_exitcode(status))"
)


def measured(argv: Sequence[str | pathlib.Path], output: pathlib.Path) -> tuple[float, ...]:
    """Run something until what it wrote is on the disk; return seconds, MiB, seconds of CPU."""
    command = [sys.executable, "-I", "-S", "-c", STARTER, *argv]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    elapsed, memory, busy = map(float, done.stdout.split())
    if output.exists():
        elapsed += seconds(lambda: subprocess.run(["sync", output], check=True))
    return elapsed, memory, busy


def told(kind: str, costs: dict[str, Cost], ratio: float, rounds: int) -> bool:
    whole = costs["cp"].size
    print(f"{kind}: {whole >> 20} MiB, medians of {rounds} rounds")
    print(f"{'':20}{'carried':>12}{'':>9}{'made':>10}{'applied':>10}{'CPU':>10}{'memory':>12}")
    for name, cost in costs.items():
        share = cost.size / whole
        print(
            f"{name:20}{cost.size / (1 << 20):8.1f} MiB{share:8.2%}{cost.make:8.1f} s"
            f"{cost.apply:8.1f} s{cost.busy:8.1f} s{cost.memory:8.0f} MiB"
        )
    ours = costs["update pack"]
    return all(
        [
            at_most("pack / ISO", ours.size / whole, SHARES.get(kind, 1)),
            at_most("apply / cp", ratio, SLOWER),
            at_most("memory, MiB", ours.memory, MEMORY),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
