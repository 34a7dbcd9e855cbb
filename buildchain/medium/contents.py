"""What is on a medium, read without mounting it: out of its image, or from its tree."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from buildchain.core import listing, receipt
from buildchain.core.errors import ContentError
from buildchain.core.listing import Listing


class Contents(Protocol):
    """The files of a medium by their path on it.

    :param name: what messages call it.
    """

    name: str

    def paths(self) -> frozenset[str]:
        """Return every file that is really there."""

    def read(self, path: str) -> bytes:
        """Return a file's content.

        :raises KeyError: there is none.
        """


class Tree:
    """A folder."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = root

    def paths(self) -> frozenset[str]:
        """Return every file that is really there."""
        found = receipt.files([self._root])
        return frozenset(path.relative_to(self._root).as_posix() for path in found)

    def read(self, path: str) -> bytes:
        """Return a file's content.

        :raises KeyError: there is none.
        """
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError as error:
            raise KeyError(path) from error


class Image:
    """An ISO image; only what is asked for is read."""

    def __init__(self, path: Path, reader: Any) -> None:
        self.name = str(path)
        self._reader = reader

    def paths(self) -> frozenset[str]:
        """Return every file that is really there."""
        return frozenset(
            f"{folder.rstrip('/')}/{name}".lstrip("/")
            for folder, _, names in self._reader.walk(rr_path="/")
            for name in names
        )

    def read(self, path: str) -> bytes:
        """Return a file's content.

        :raises KeyError: there is none.
        """
        from pycdlib.pycdlibexception import PyCdlibException

        content = io.BytesIO()
        try:
            self._reader.get_file_from_iso_fp(content, rr_path=f"/{path}")
        except PyCdlibException as error:
            raise KeyError(path) from error
        return content.getvalue()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """Open an ISO image, or the folder it is mounted or unpacked in.

    :raises ContentError: it is neither.
    """
    if path.is_dir():
        yield Tree(path)
        return
    import pycdlib
    from pycdlib.pycdlibexception import PyCdlibException

    reader = pycdlib.PyCdlib()
    try:
        reader.open(str(path))
    except (OSError, PyCdlibException) as error:
        what = error.strerror if isinstance(error, OSError) else f"no ISO image: {error}"
        raise ContentError(
            f"{path}: {what}", solution="Name an ISO, or the folder it is mounted in."
        ) from error
    try:
        yield Image(path, reader)
    finally:
        reader.close()


def listed(contents: Contents) -> Listing:
    """Return what a medium says it has.

    :raises ContentError: it has no ``MANIFEST``, or one that cannot be read.
    """
    try:
        content = contents.read(listing.NAME).decode()
    except KeyError as error:
        raise ContentError(
            f"{contents.name} has no {listing.NAME}: not a medium of this project, or incomplete",
            solution="Name an ISO that this project made, or the folder it is mounted in.",
        ) from error
    except UnicodeDecodeError as error:
        raise ContentError(
            f"{listing.NAME} of {contents.name}: not UTF-8: {error}",
            solution="Check the medium with verify.sh, then get it again.",
        ) from error
    return listing.parse(content, contents.name)
