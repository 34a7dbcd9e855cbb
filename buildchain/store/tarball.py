"""Files of an uncompressed tar from somebody else, one after another, in bounded memory.

``tarfile`` opens what is compressed, and reads long names and extended headers whole, of any size.
Here is only what we write ourselves: plain files with short names (POSIX.1-1988, "ustar").
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from buildchain.core.receipt import CHUNK

BLOCK = tarfile.BLOCKSIZE
END = bytes(BLOCK)
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


@dataclass
class Member:
    """One file of the tar; read it, or not, before the next one.

    :param size: bytes of it, as the tar says.
    """

    name: str
    size: int
    _stream: BinaryIO
    _left: int = -1

    def __post_init__(self) -> None:
        self._left = self.size

    def pieces(self) -> Iterator[bytes]:
        """Yield what has not been read yet.

        :raises ValueError: the tar ends before the file does.
        """
        while self._left:
            piece = self._stream.read(min(CHUNK, self._left))
            if not piece:
                raise ValueError(f"it ends within {self.name}")
            self._left -= len(piece)
            yield piece

    def read(self, most: int) -> bytes:
        """Return all of it.

        :raises ValueError: it has more than ``most`` bytes, or the tar ends before it does.
        """
        if self.size > most:
            raise ValueError(f"{self.name} has {self.size} bytes, more than {most}")
        return b"".join(self.pieces())


def members(stream: BinaryIO) -> Iterator[Member]:
    """Yield the files of a tar.

    :raises ValueError: it is compressed or no tar, holds anything but plain files, or is cut.
    """
    while header := stream.read(BLOCK):
        if header == END:
            _check_end(stream)
            return
        member = _member(header, stream)
        yield member
        for _ in member.pieces():
            pass
        padding = -member.size % BLOCK
        if len(stream.read(padding)) < padding:
            raise ValueError(f"it ends within {member.name}")
    raise ValueError("it has no end")


def _member(header: bytes, stream: BinaryIO) -> Member:
    try:
        found = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except tarfile.HeaderError as error:
        raise ValueError("it is compressed, damaged or no tar") from error
    if found.type not in PLAIN or found.size < 0:
        raise ValueError(f"{found.name} is not a regular file")
    return Member(found.name, found.size, stream)


def _check_end(stream: BinaryIO) -> None:
    rest = stream.read(tarfile.RECORDSIZE)
    if rest.strip(b"\0") or len(rest) == tarfile.RECORDSIZE:
        raise ValueError("data follows its end")
