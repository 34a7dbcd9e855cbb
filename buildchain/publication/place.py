"""Where releases are published: what every kind of place can do.

Names at a place are relative, with ``/``: ``releases.json``, ``2.4.0/SHA256SUM``.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from buildchain.core.errors import PlaceError, SpaceError

CHUNK = 1 << 20  # bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Absent(Exception):  # noqa: N818 - it is no failure, but an answer
    """There is no file of that name at the place."""


@contextlib.contextmanager
def on_disk(where: str) -> Iterator[None]:
    """Turn what a file system of this machine refuses into sentences.

    :param where: the folder, as the user called it.
    :raises SpaceError: it is full, or a file is too large for it.
    :raises PlaceError: it does not let us.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise SpaceError(
                f"{where}: {error.strerror}",
                solution="Free some room there, or name another place (FAT holds no file of 4 GiB "
                "or more); then run the same again.",
            ) from error
        raise PlaceError(
            f"{where}: {error.strerror}",
            solution="Name another folder, or ask its owner for the right to use it.",
        ) from error


class Place(abc.ABC):
    """A place that can be read.

    :ivar name: how it is called in messages and remembered; never with a secret in it.
    """

    name: str

    @abc.abstractmethod
    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on, piece by piece.

        :raises Absent: there is none of that name.
        :raises PlaceError: the place cannot be reached, or does not let us.
        """

    def read(self, name: str, most: int) -> bytes:
        """Return a small file.

        :raises Absent: there is none of that name.
        :raises PlaceError: it has more than ``most`` bytes.
        """
        found = bytearray()
        for piece in self.pieces(name):
            found += piece
            if len(found) > most:
                raise PlaceError(
                    f"{name} of {self.name} has more than {most} bytes",
                    solution="That is no such file: ask who publishes there.",
                )
        return bytes(found)


class Target(Place):
    """A place that can be written to."""

    @abc.abstractmethod
    def prepare(self, need: int) -> None:
        """Prove that something can be put here, before anything is.

        :param need: bytes that are to come.
        :raises PlaceError: it cannot.
        :raises SpaceError: there is too little room.
        """

    @abc.abstractmethod
    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the files of a folder by name, with their sizes in bytes; none if it is absent."""

    @abc.abstractmethod
    def send(self, file: Path, name: str) -> None:
        """Put a file here; a reader sees all of it, or what was there before."""

    @abc.abstractmethod
    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder; what is gone already is no error."""

    def clear(self, folder: str) -> bool:
        """Remove all files of a folder; tell whether there was something."""
        files = self.sizes(folder)
        if files:
            self.remove(folder, files)
        return bool(files)

    def holds(self, name: str, file: Path, sha256: str) -> bool:
        """Tell whether the place has a file as it is here, by reading it back."""
        digest = hashlib.sha256()
        try:
            for piece in self.pieces(name):
                digest.update(piece)
        except Absent:
            return False
        return digest.hexdigest() == sha256 and file.is_file()
