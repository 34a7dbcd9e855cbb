"""A small signed ISO with its list of blocks, what happens to copies of it, and ``verify.sh``."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from buildchain.medium import block_list

BLOCK, PORTION = 2048, 32 * 2048
# Not a multiple of a block.
SIZE = 75 * BLOCK + 700
VOLUME = "Demo 2.9.0"
SHELLS = (("dash",), ("bash", "--posix"))
# What a fake `dd` knows about its call; `real` is the program.
FAKE_DD = """\
#!/bin/sh
real={real} state={state}
for word; do
    case $word in
    if=*) input=${{word#if=}} ;;
    skip=*) skip=${{word#skip=}} ;;
    count=*) count=${{word#count=}} ;;
    of=*) output=${{word#of=}} ;;
    esac
done
{lines}
exec "$real" "$@"
"""
# Ends the whole run, as a power cut does, at some call; a write gets as far as some bytes.
KILL = """\
echo >>$state/calls
if [ "$(wc -l <$state/calls)" -eq {call} ]; then
    [ "${{output:-}}" != /dev/fd/4 ] || head -c {torn} | "$real" "$@"
    kill -9 0
fi"""
# One byte of a file that cannot be read, as a bad sector: what is before it is.
UNREADABLE = """\
if [ "${{input:-}}" = {file} ] && [ $((skip)) -le {at} ] && [ $((skip + count)) -gt {at} ]; then
    "$real" "$@" count=$(({at} - skip))
    exit 1
fi"""


def image(seed: int, volume: str = VOLUME) -> bytes:
    """Return the bytes of an ISO, as far as the script knows one; some blocks are zeros."""
    content = bytearray(random.Random(seed).randbytes(SIZE))
    for block in (0, 1, 40, 41, 42):
        content[block * BLOCK : (block + 1) * BLOCK] = bytes(BLOCK)
    content[-3000:] = bytes(3000)
    content[32808:32840] = volume.encode().ljust(32)
    return bytes(content)


WHOLE = image(1)


def blocks(content: bytes) -> list[bytes]:
    """Return the blocks that an ISO should have, cut where it ends; missing ones are empty."""
    return [content[start : min(start + BLOCK, SIZE)] for start in range(0, SIZE, BLOCK)]


@dataclasses.dataclass(frozen=True)
class Damage:
    """Something that happens to a copy; places are bytes, or blocks where two are swapped."""

    kind: str
    at: int
    length: int
    other: int = 0

    def do(self, content: bytes) -> bytes:
        """Return what is left of a copy."""
        at, end = self.at, self.at + self.length
        changed = bytearray(content)
        if self.kind == "bit" and at < len(content):
            changed[at] ^= 1 << self.length % 8
        elif self.kind == "zeros":
            changed[at:end] = bytes(len(content[at:end]))
        elif self.kind == "garbage":
            changed[at:end] = random.Random(at).randbytes(len(content[at:end]))
        elif self.kind == "truncated":
            del changed[at:]
        elif self.kind == "longer":
            changed += random.Random(at).randbytes(self.length)
        elif self.kind == "swapped":
            other = self.other + self.length
            one, two = content[at:end], content[self.other : other]
            if end <= self.other and len(one) == len(two):
                changed[at:end], changed[self.other : other] = two, one
        return bytes(changed)


class Home:
    """A key, and what it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gnupg = folder, folder / "gnupg"
        self.gnupg.mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-gen-key", "Demo", "ed25519", "sign", "never")
        self.key = folder / "key.gpg"
        self._gpg("--output", self.key, "--export")

    def _gpg(self, *words: str | Path) -> None:
        argv = ["gpg", "--homedir", self.gnupg, "--batch", "--quiet", *words]
        subprocess.run(argv, check=True, capture_output=True)

    def sign(self, file: Path) -> None:
        self._gpg("--yes", "--output", f"{file}.sig", "--detach-sign", file)

    def list_of(self, content: bytes, file: Path, volume: str = VOLUME) -> Path:
        """Write a signed list of blocks of some bytes."""
        (self.folder / "whole").write_bytes(content)
        text = block_list.text(self.folder / "whole", volume, block=BLOCK, portion=PORTION)
        file.write_text(text)
        self.sign(file)
        return file

    def close(self) -> None:
        subprocess.run(["gpgconf", "--homedir", self.gnupg, "--kill", "all"], check=True)


class Copies:
    """Copies of an ISO in a folder, and the script."""

    def __init__(self, folder: Path, home: Home, script: Path) -> None:
        self.folder, self.home, self.script = folder, home, script
        self.target, self.source = folder / "demo.iso", folder / "other.iso"
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.source.write_bytes(WHOLE)
        self.blocks = home.folder / "iso.blocks"

    def repair(
        self,
        *more: str | Path,
        shell: tuple[str, ...] = SHELLS[0],
        environment: dict[str, str] | None = None,
        plain: bool = False,
    ) -> tuple[int, str]:
        """Return how a run ended, and what it said.

        :param plain: nothing but the key is given, besides what is said.
        """
        usual = [] if plain else ["--repair", "--blocks", self.blocks, "--from", self.source]
        target = [] if plain else [self.target]
        argv = [*shell, self.script, "--key", self.home.key, *usual, *more, *target]
        done = subprocess.run(
            argv,
            env={**(environment or os.environ), "TMPDIR": str(self.scratch)},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            start_new_session=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr


def fake_dd(folder: Path, lines: str) -> dict[str, str]:
    """Return an environment whose ``dd`` does something first."""
    folder.mkdir(exist_ok=True)
    (folder / "calls").unlink(missing_ok=True)
    program = folder / "dd"
    program.write_text(FAKE_DD.format(real=shutil.which("dd"), state=folder, lines=lines))
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def require_root() -> None:
    """Skip (in CI: fail) where this user may not make devices."""
    if os.getuid() != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("root makes devices")
