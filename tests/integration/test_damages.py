"""The real ISO, damaged at random: what is wrong is named in bytes, mended, and equal again."""

from __future__ import annotations

import mmap
import os
import pathlib
import random
import re
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.integration.conftest import ROOT, require, run

pytestmark = pytest.mark.integration

BLOCK = 64 << 10
SECTORS = (512, 2048, 4096)
DAMAGES = 10  # of a copy
NAMED = re.compile(r"^damaged    bytes (\d+) to (\d+)$", re.MULTILINE)


def bit(copy: mmap.mmap, chance: random.Random) -> None:
    copy[chance.randrange(len(copy))] ^= 1 << chance.randrange(8)


def sectors(copy: mmap.mmap, chance: random.Random) -> None:
    """A few in a row have zeros or garbage."""
    length = chance.choice(SECTORS) * chance.randint(1, 100)
    at = chance.randrange(0, len(copy) - length, 512)
    copy[at : at + length] = chance.choice([bytes(length), chance.randbytes(length)])


def swapped(copy: mmap.mmap, chance: random.Random) -> None:
    length = chance.randint(1, 1 << 20)
    first, second = sorted(chance.randrange(len(copy) - length) for _ in range(2))
    length = min(length, second - first)
    one, two = copy[first : first + length], copy[second : second + length]
    copy[first : first + length], copy[second : second + length] = two, one


KINDS: tuple[Callable[[mmap.mmap, random.Random], None], ...] = (bit, sectors, swapped)


def damage(file: pathlib.Path, chance: random.Random) -> None:
    """Damage a copy in ten ways, of which each is there at least once; the last one cuts it."""
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as copy:
        for do in (*KINDS, *chance.choices(KINDS, k=DAMAGES - len(KINDS) - 1)):
            do(copy, chance)
    os.truncate(file, file.stat().st_size - chance.randint(1, 1 << 20))


def differing(one: pathlib.Path, other: pathlib.Path) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks that a copy has not, first and last byte."""
    first, size = -1, one.stat().st_size
    with one.open("rb") as wanted, other.open("rb") as found:
        for at in range(0, size, BLOCK):
            is_wrong = wanted.read(BLOCK) != found.read(BLOCK)
            if is_wrong and first < 0:
                first = at
            elif not is_wrong and first >= 0:
                yield first, at - 1
                first = -1
    if first >= 0:
        yield first, size - 1


@pytest.mark.parametrize("copies", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_random_damages(iso: pathlib.Path, tmp_path: pathlib.Path, copies: int) -> None:
    """Ten of each copy, a hundred in the soak; the other copy has them elsewhere."""
    require("gpgv", "sha256sum")
    target, other = tmp_path / "copy.iso", tmp_path / "other.iso"
    key = iso.parent / "keys/metalk8s.gpg"
    argv = ("sh", ROOT / "salt/scripts/verify.sh", "--key", key, "--blocks", f"{iso}.blocks")
    for seed in range(copies):
        chance = random.Random(seed)
        for file in (target, other):
            shutil.copyfile(iso, file)
            damage(file, chance)
        wanted = list(differing(iso, target))
        said = run(*argv, "--repair", "--from", other, "--from", iso, target)
        assert [(int(a), int(b)) for a, b in NAMED.findall(said)] == wanted, seed
        assert "copy.iso is what was signed" in said
        run("cmp", iso, target)
