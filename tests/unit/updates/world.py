"""Two small ISOs as far as packs know them, who makes a pack, and who applies it."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from buildchain.medium import block_list
from buildchain.signatures.signing import Signer
from buildchain.updates import make
from buildchain.updates.make import Wish
from buildchain.updates.recipe import SECTOR

EPOCH = 1700000000
PORTION = 128 << 10
SHELLS = (("dash",), ("bash", "--posix"))
OLD, NEW = "2.9.0", "2.9.1"


def sectors(seed: int, count: int) -> bytes:
    """Return sectors that cannot be compressed."""
    return random.Random(seed).randbytes(count * SECTOR)


def image(version: str, *parts: bytes) -> bytes:
    """Return an ISO: descriptors (32 sectors), then what is in it."""
    first = bytearray(32 * SECTOR)
    first[32808:32840] = f"Demo {version}".encode().ljust(32)
    first[40000:40064] = hashlib.sha512(b"".join(parts)).digest()
    return bytes(first) + b"".join(parts)


PAGE = b"what is told to people who read\n" * 64
KEPT = [sectors(number, 40) for number in range(4)]
BEFORE = image(OLD, PAGE * 30, KEPT[0], KEPT[1], sectors(9, 50), KEPT[2], KEPT[3])
# Moved by sectors, one changed, text that compresses; the end is within a portion.
AFTER = image(
    NEW, PAGE * 37, KEPT[0], sectors(10, 44), KEPT[2], bytes(9 * SECTOR), KEPT[1], KEPT[3][:-SECTOR]
)


class World:
    """Who makes releases and packs.

    :ivar old: an ISO with its signed lists, as ``new``.
    """

    def __init__(self, folder: Path, signer: Signer) -> None:
        self.folder, self.signer = folder, signer
        self.key = signer.export(folder / "keys", "demo")[0]
        self.old = self.release("old", BEFORE, OLD)
        self.new = self.release("new", AFTER, NEW)
        self.pack = self.make("demo.update", self.old, self.new)

    def release(self, name: str, content: bytes, version: str) -> Path:
        """Write an ISO and what is beside it."""
        folder = self.folder / name
        folder.mkdir()
        file, sums = folder / f"demo-{version}.iso", folder / "SHA256SUM"
        file.write_bytes(content)
        text = block_list.text(file, f"Demo {version}", block=SECTOR, portion=PORTION)
        blocks = block_list.path_of(file)
        blocks.write_text(text)
        sums.write_text(f"{hashlib.sha256(content).hexdigest()}  {file.name}\n")
        for listed in (blocks, sums):
            self.sign(listed)
        return file

    def sign(self, file: Path) -> None:
        self.signer.sign(file, file.with_name(f"{file.name}.sig"), epoch=EPOCH)

    def make(self, name: str, old: Path, new: Path, floor: str = "") -> Path:
        """Write a pack."""
        file = self.folder / name
        base, target = (make.read(path, [self.key]) for path in (old, new))
        make.write(
            base, target, file, Wish(floor, 4), keyrings=[self.key], signer=self.signer, epoch=EPOCH
        )
        return file


class Site:
    """Who has the old ISO, the pack and the key, and runs the script."""

    def __init__(self, folder: Path, world: World, script: Path) -> None:
        self.folder, self.world, self.script = folder, world, script
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True)
        self.base = Path(shutil.copy(world.old, folder / "here.iso"))
        self.pack = Path(shutil.copy(world.pack, folder))
        self.output = folder / "out"
        self.result = self.output / f"demo-{NEW}.iso"

    def run(
        self,
        *more: str | Path,
        shell: Iterable[str] = SHELLS[0],
        environment: dict[str, str] | None = None,
        output: Path | None = None,
    ) -> tuple[int, str]:
        """Return how a run ended, and what it said."""
        words = ["--key", self.world.key, "--from", self.base, *more]
        return self.call(
            *words, self.pack, output or self.output, shell=shell, environment=environment
        )

    def call(
        self,
        *words: str | Path,
        shell: Iterable[str] = SHELLS[0],
        environment: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Return how a run with nothing but these words ended, and what it said."""
        done = subprocess.run(
            [*shell, self.script, *words],
            env={**(environment or os.environ), "TMPDIR": str(self.scratch)},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            start_new_session=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr
