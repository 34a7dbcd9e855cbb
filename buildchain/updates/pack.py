"""An update pack: a file that, with the ISO it starts from, is another ISO byte for byte.

On disk, in this order::

    metalk8s-update 1 <bytes of the manifest> <bytes of its signature>   64 bytes with the line feed
    the manifest
    its signature: of the line that sha256sum prints for update.manifest
    data: the lists that are beside the new ISO, then what each portion has and the old one has not

The manifest: facts (``#name=value``), a line for each list, and for each portion of the new ISO a
line with what comes of it from the data, followed by what it consists of, in its order::

    #name=metalk8s.iso
    #from=2.4.0                   versions; nobody may go below the floor
    #to=2.4.1
    #floor=2.4.0
    #base=<SHA-256>               of the ISO it starts from
    #base-size=480339968          all sizes in bytes
    #target=<SHA-256>             of the new one
    #size=480350208
    #portion=8388608
    #data=<SHA-256>               of the data
    #data-size=9000000
    F <SHA-256> <bytes> <name>
    P <bytes stored> <bytes unpacked> raw|gzip
    B <first byte> <bytes>        of the old ISO
    L <bytes>                     the next ones of what was unpacked

``salt/scripts/apply-update.sh`` reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from buildchain.updates.recipe import Piece

SUFFIX = ".update"
MAGIC = "metalk8s-update 1"
HEAD = 64  # bytes
MANIFEST = "update.manifest"  # name that is signed
LARGEST = 64 << 20  # bytes of a manifest
RAW, GZIP = "raw", "gzip"
# What saves less than a sixteenth is not worth unpacking.
_WORTH = 16
_NUMBERS = ("base-size", "size", "portion", "data-size")
_DIGESTS = ("base", "target", "data")
_WORDS = ("name", "from", "to", "floor")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True)
class Listed:
    """A list that goes beside the new ISO."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Portion:
    """What a portion consists of; ``stored`` bytes of the data are its ``unpacked`` ones."""

    pieces: tuple[Piece, ...]
    stored: int
    form: str

    @property
    def unpacked(self) -> int:
        return sum(piece.length for piece in self.pieces if piece.base is None)


@dataclass(frozen=True)
class Manifest:
    """What a pack says of itself; ``facts`` are those of the text, numbers as numbers."""

    facts: Mapping[str, str | int]
    lists: tuple[Listed, ...] = ()
    portions: tuple[Portion, ...] = field(default=(), repr=False)

    def number(self, name: str) -> int:
        return int(self.facts[name])

    def word(self, name: str) -> str:
        return str(self.facts[name])

    @property
    def text(self) -> str:
        lines = [f"#{name}={self.facts[name]}" for name in (*_WORDS, *_DIGESTS, *_NUMBERS)]
        lines += [f"F {one.sha256} {one.size} {one.name}" for one in self.lists]
        for portion in self.portions:
            lines.append(f"P {portion.stored} {portion.unpacked} {portion.form}")
            lines += [
                f"L {piece.length}" if piece.base is None else f"B {piece.base} {piece.length}"
                for piece in portion.pieces
            ]
        return "".join(f"{line}\n" for line in lines)


def store(content: bytes) -> tuple[bytes, str]:
    """Return bytes as a pack has them, and in which form; the same for the same bytes."""
    packed = gzip.compress(content, 9, mtime=0)
    # gzip is on each node: essential in Debian, required by what boots EL. zstd is on neither.
    if len(packed) < len(content) - len(content) // _WORTH:
        return packed, GZIP
    return content, RAW


def head(manifest: bytes, signature: bytes) -> bytes:
    """Return the first bytes of a pack."""
    return f"{MAGIC} {len(manifest)} {len(signature)}".ljust(HEAD - 1).encode() + b"\n"


def signed_text(manifest: bytes) -> str:
    """Return what the signature of a manifest is of: what ``verify.sh`` takes for a checksum."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n"


def split(pack: Path) -> tuple[bytes, bytes, int]:
    """Return manifest and signature of a pack, and where its data begins.

    :raises ValueError: it is no pack.
    """
    with pack.open("rb") as stream:
        first = stream.read(HEAD)
        match = re.fullmatch(rf"{MAGIC} ({_NUMBER.pattern}) ({_NUMBER.pattern}) *\n", _text(first))
        if len(first) != HEAD or match is None:
            raise ValueError("it does not begin as an update pack does")
        sizes = [int(match[1]), int(match[2])]
        if sum(sizes) > LARGEST:
            raise ValueError("its manifest is too large")
        manifest, signature = (stream.read(size) for size in sizes)
        if [len(manifest), len(signature)] != sizes:
            raise ValueError("it ends within its manifest")
        return manifest, signature, stream.tell()


def parse(content: bytes) -> Manifest:
    """Return what a manifest says.

    :raises ValueError: it is none; says the line.
    """
    lines = _text(content).split("\n")
    if lines.pop() != "":
        raise ValueError("it does not end with a line feed")
    names = (*_WORDS, *_DIGESTS, *_NUMBERS)
    facts = dict(_fact(line, name) for line, name in zip(lines, names, strict=False))
    if len(facts) != len(names):
        raise ValueError("it ends within its facts")
    lists, portions, number = [], [], len(names)
    while number < len(lines) and lines[number].startswith("F "):
        lists.append(_listed(lines[number]))
        number += 1
    while number < len(lines):
        first = number
        number += 1
        while number < len(lines) and lines[number][:2] in ("B ", "L "):
            number += 1
        portions.append(_portion(lines[first], lines[first + 1 : number]))
    found = Manifest(facts, tuple(lists), tuple(portions))
    _prove_sums(found)
    return found


def _text(content: bytes) -> str:
    return content.decode("ascii", "replace")


def _fact(line: str, name: str) -> tuple[str, str | int]:
    start = f"#{name}="
    value = line.removeprefix(start)
    if not line.startswith(start):
        raise ValueError(f"{line[:80]!r} where {start} belongs")
    if name in _NUMBERS:
        return name, _number(value)
    if not value or (name in _DIGESTS and not _DIGEST.fullmatch(value)):
        raise ValueError(f"{line[:80]!r} says nothing")
    return name, value


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no number")
    return int(text)


def _listed(line: str) -> Listed:
    words = line.split(" ", 3)
    if len(words) != 4 or not _DIGEST.fullmatch(words[1]) or "/" in words[3] or not words[3]:
        raise ValueError(f"{line[:80]!r} names no list")
    return Listed(words[3], words[1], _number(words[2]))


def _portion(line: str, lines: Sequence[str]) -> Portion:
    words = line.split(" ")
    if len(words) != 4 or words[0] != "P" or words[3] not in (RAW, GZIP):
        raise ValueError(f"{line[:80]!r} is no portion")
    found = Portion(tuple(map(_piece, lines)), _number(words[1]), words[3])
    if found.unpacked != _number(words[2]) or (words[3] == RAW and words[1] != words[2]):
        raise ValueError(f"{line[:80]!r} does not fit what follows")
    return found


def _piece(line: str) -> Piece:
    kind, *numbers = line.split(" ")
    values = [_number(number) for number in numbers]
    if len(values) != (2 if kind == "B" else 1):
        raise ValueError(f"{line[:80]!r} is no piece")
    return Piece(values[1], values[0]) if kind == "B" else Piece(values[0])


def _prove_sums(found: Manifest) -> None:
    size, portion = found.number("size"), found.number("portion")
    if portion < 1:
        raise ValueError("portions of no bytes")
    wanted = [min(portion, size - start) for start in range(0, size, portion)]
    if wanted != [sum(piece.length for piece in one.pieces) for one in found.portions]:
        raise ValueError("its portions are not those of the ISO")
    data = sum(one.size for one in found.lists) + sum(one.stored for one in found.portions)
    if data != found.number("data-size"):
        raise ValueError("its data is not what its lines say")


def rebuild(base: Path, pack: Path) -> Iterator[bytes]:
    """Yield the portions of the new ISO, as ``apply-update.sh`` makes them.

    :raises ValueError: the pack is none, or ends too early.
    """
    content, _, at = split(pack)
    manifest = parse(content)
    with base.open("rb") as old, pack.open("rb") as stream:
        stream.seek(at + sum(one.size for one in manifest.lists))
        for portion in manifest.portions:
            stored = stream.read(portion.stored)
            unpacked = memoryview(gzip.decompress(stored) if portion.form == GZIP else stored)
            parts: list[bytes | memoryview] = []
            for piece in portion.pieces:
                if piece.base is None:
                    parts.append(unpacked[: piece.length])
                    unpacked = unpacked[piece.length :]
                else:
                    old.seek(piece.base)
                    parts.append(old.read(piece.length))
            yield b"".join(parts)
