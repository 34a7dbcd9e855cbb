"""Blobs by SHA-256 in one folder: ``<store>/sha256/<first two digits>/<64 digits>``.

A blob is verified when it enters and moved into place whole; outputs are hard links out of the
store where the file system allows it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.errors import ChecksumError
from buildchain.store import partial

CHANGED = (
    "If the upstream file changed on purpose, correct the pin after reviewing it; otherwise fetch "
    "it again."
)


@dataclass(frozen=True)
class Store:
    """A store below ``root``."""

    root: Path

    def path(self, digest: str) -> Path:
        """Return where a blob is or would be."""
        return self.root / "sha256" / digest[:2] / digest

    @property
    def partials(self) -> Path:
        """Blobs that are on their way, see :mod:`buildchain.store.partial`."""
        return self.root / "partial"

    def has(self, digest: str, size: int | None = None) -> bool:
        """Tell whether the blob is there (its bytes were verified when it entered).

        :param size: bytes it must have, where known: a file system that lost its power may have
            kept a name and not the content.
        """
        path = self.path(digest)
        return path.is_file() if size is None else path.is_file() and path.stat().st_size == size

    def keep(self, content: bytes) -> str:
        """Put some bytes into the store and return their SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        if self.read(digest) != content:
            # What a killed process leaves of it is among the partial ones, where somebody looks.
            with partial.opened(self.partials, digest) as part:
                part.restart()
                part.write(content)
                part.move(self.path(digest))
        return digest

    def read(self, digest: str) -> bytes | None:
        """Return a small blob, or ``None`` when it is not there or damaged."""
        try:
            content = self.path(digest).read_bytes()
        except FileNotFoundError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def add(self, file: Path, digest: str, *, origin: str) -> Path:
        """Verify a file and put it into the store; the file itself stays.

        :param digest: SHA-256 it must have.
        :param origin: where it came from, for the error.
        :raises ChecksumError: it has another one; nothing is stored.
        """
        return self.take(_pieces(file), digest, origin=origin, solution=CHANGED)

    def take(self, pieces: Iterable[bytes], digest: str, *, origin: str, solution: str) -> Path:
        """Verify bytes as they come and put them into the store.

        :param pieces: at most :data:`buildchain.core.receipt.CHUNK` bytes each; not read when the
            store has the blob.
        :param digest: SHA-256 they must have together.
        :param origin: where they came from, for the error.
        :param solution: what to do when they have another one.
        :raises ChecksumError: they have; nothing is stored.
        """
        target = self.path(digest)
        if target.is_file():
            return target
        with partial.opened(self.partials, digest) as part:
            part.restart()
            try:
                for piece in pieces:
                    part.write(piece)
                if part.hexdigest != digest:
                    raise ChecksumError(
                        f"{origin}: expected SHA-256 {digest}, got {part.hexdigest}",
                        solution=solution,
                    )
                part.move(target)
            except BaseException:
                part.discard()
                raise
        return target

    def link(self, digest: str, destination: Path) -> Path:
        """Make the blob appear at ``destination`` (hard link, or a copy on another file system)."""
        return link(self.path(digest), destination)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while piece := source.read(receipt.CHUNK):
            yield piece


def link(source: Path, destination: Path) -> Path:
    """Hard-link a file over ``destination``, whole; copy where links cannot be made."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(f".{destination.name}.{os.getpid()}.link")
    part.unlink(missing_ok=True)
    try:
        try:
            os.link(source, part)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EMLINK, errno.EPERM):
                raise
            shutil.copy2(source, part)
        part.replace(destination)
    finally:
        part.unlink(missing_ok=True)
    return destination
