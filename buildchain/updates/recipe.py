"""What of an ISO is in another one, at whatever place: the recipe of an update pack.

Files begin at sectors of 2048 bytes (ECMA-119, 6.1.2 and 7.4.2), so what did not change is found by
comparing sectors; inside of what is compressed, nothing of a changed file can be found again. Finds
are told apart by a digest of 128 bits; who makes a pack proves the result.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SECTOR = 2048  # bytes
# A shorter find costs who applies it a process, and saves less than the pack's own line for it.
SHORTEST = 8  # sectors
_READ = 4 << 20  # bytes


@dataclass(frozen=True)
class Copy:
    """Sectors of the new image that the old one has: first ones, and how many."""

    target: int
    base: int
    count: int

    @property
    def end(self) -> int:
        return self.target + self.count


@dataclass(frozen=True)
class Piece:
    """Bytes of a portion, in their order.

    :param base: place in the old image, or ``None``: they are in the pack.
    """

    length: int
    base: int | None = None


def digests(image: Path) -> list[bytes]:
    """Return a digest of each sector; the last one may be short."""
    found = []
    with image.open("rb") as stream:
        while content := stream.read(_READ):
            view = memoryview(content)
            found += [
                hashlib.blake2b(view[at : at + SECTOR], digest_size=16).digest()
                for at in range(0, len(content), SECTOR)
            ]
    return found


def copies(base: Sequence[bytes], target: Sequence[bytes], shortest: int = SHORTEST) -> list[Copy]:
    """Return what of an image is in another one, in the order of the image.

    A find grows backwards over what nothing was found for: sectors that are many times in an image,
    zeros for one, would else cut it in two.

    :param shortest: sectors.
    """
    places: dict[bytes, int] = {}
    for place, digest in enumerate(base):
        places.setdefault(digest, place)
    found: list[Copy] = []
    at = done = 0
    while at < len(target):
        if target[at] not in places:
            at += 1
            continue
        copy = _grown(base, target, Copy(at, places[target[at]], 1), done)
        at = copy.end
        if copy.count >= shortest:
            found.append(copy)
            done = copy.end
    return found


def _grown(base: Sequence[bytes], target: Sequence[bytes], copy: Copy, floor: int) -> Copy:
    """Return a find with all that is equal around it, from a sector of the new image on."""
    first, end = copy.target, copy.end
    away = copy.base - first
    while first > floor and first + away > 0 and target[first - 1] == base[first + away - 1]:
        first -= 1
    while end < len(target) and end + away < len(base) and target[end] == base[end + away]:
        end += 1
    return Copy(first, first + away, end - first)


def portions(found: Sequence[Copy], size: int, portion: int) -> Iterator[list[Piece]]:
    """Yield what each portion of the new image consists of.

    :param size: of the image, bytes.
    :param portion: bytes, a multiple of a sector.
    """
    pieces = deque(_pieces(found, size))
    for start in range(0, size, portion):
        room, taken = min(portion, size - start), []
        while room:
            piece = pieces.popleft()
            if piece.length > room:
                piece, rest = _cut(piece, room)
                pieces.appendleft(rest)
            taken.append(piece)
            room -= piece.length
        yield taken


def _cut(piece: Piece, length: int) -> tuple[Piece, Piece]:
    beyond = None if piece.base is None else piece.base + length
    return Piece(length, piece.base), Piece(piece.length - length, beyond)


def _pieces(found: Sequence[Copy], size: int) -> Iterator[Piece]:
    at = 0
    for copy in found:
        start, end = copy.target * SECTOR, min(copy.end * SECTOR, size)
        if start > at:
            yield Piece(start - at)
        yield Piece(end - start, copy.base * SECTOR)
        at = end
    if at < size:
        yield Piece(size - at)
