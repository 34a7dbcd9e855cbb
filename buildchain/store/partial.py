"""Blobs that are being fetched, and what is left of them when a process dies.

On disk, in one folder of the store::

    <64 hex digits>           the bytes so far, and room for the rest; locked while somebody writes
    <64 hex digits>.journal   lines "<bytes> <SHA-256 of so many>", :data:`UNIT` apart at most

The journal costs no second hashing: the hash of what was written is known at any moment. Who goes
on reads the bytes again, keeps what agrees with the journal and cuts off the rest, so that neither
a killed process nor a machine that lost its power leaves something that is trusted wrongly.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from buildchain.core.receipt import CHUNK

UNIT = 8 << 20  # bytes; at most so many of each blob are fetched again after a kill


class Partial:
    """One blob under way; use :func:`opened`.

    :param offset: bytes that are there and hashed.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.offset = 0
        self._file = descriptor
        self._is_ended = False
        self._hash = hashlib.sha256()
        self._noted = 0

    def reserve(self, size: int) -> None:
        """Claim room on the disk for all of it, where the file system can.

        What does not grow is written with half the work, and a full disk says so at once. The
        file is longer than :attr:`offset` until its end: only the journal tells what is there.
        """
        if size > self.offset:
            try:
                os.posix_fallocate(self._file, self.offset, size - self.offset)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Append at most :data:`UNIT` bytes."""
        piece = memoryview(content)
        if self.offset + len(piece) - self._noted > UNIT:
            self.note()
        self._hash.update(piece)
        while piece:
            written = os.write(self._file, piece)
            self.offset += written
            piece = piece[written:]

    def note(self) -> None:
        """Vouch in the journal for what is there; small blobs end without ever having one."""
        if self.offset == self._noted or self._is_ended:
            return
        journal = os.open(_journal_of(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            # One call: a line is there or it is not. A torn one is not believed either.
            os.write(journal, f"{self.offset} {self.hexdigest}\n".encode())
        finally:
            os.close(journal)
        self._noted = self.offset

    @property
    def hexdigest(self) -> str:
        """SHA-256 of what is there."""
        return self._hash.copy().hexdigest()

    def restart(self) -> None:
        """Forget what is there."""
        self._cut(0, 0, hashlib.sha256())

    def discard(self) -> None:
        """Remove it: nobody needs it any more."""
        self._is_ended = True
        self.path.unlink(missing_ok=True)
        _journal_of(self.path).unlink(missing_ok=True)

    def move(self, target: Path) -> None:
        """Make the file, which has been verified, appear at ``target`` for good."""
        target.parent.mkdir(parents=True, exist_ok=True)
        os.fchmod(self._file, 0o644)
        self._is_ended = True
        self.path.rename(target)
        _journal_of(self.path).unlink(missing_ok=True)

    def resume(self) -> None:
        """Read what an earlier process left, up to where the journal vouches for it."""
        end, length, noted = 0, 0, self._hash
        running = hashlib.sha256()
        for offset, digest, line_end in _lines(_journal_of(self.path)):
            if offset <= end or not _feed(self._file, running, offset - end):
                break
            if running.hexdigest() != digest:
                break
            end, length, noted = offset, line_end, running.copy()
        self._cut(end, length, noted)

    def _cut(self, end: int, journal_end: int, known: hashlib._Hash) -> None:
        journal = _journal_of(self.path)
        if not journal_end:
            journal.unlink(missing_ok=True)
        elif journal.stat().st_size != journal_end:
            os.truncate(journal, journal_end)
        # Only where there is something to cut: ext4 writes a file that was emptied to the disk
        # when it is closed (auto_da_alloc), which costs more than fetching it.
        if os.fstat(self._file).st_size != end:
            os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)
        self.offset = self._noted = end
        self._hash = known


def claimed(folder: Path, name: str) -> int:
    """Return the bytes that the partial blob ``name`` takes on the disk."""
    try:
        return (folder / name).stat().st_blocks * 512
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[Partial]:
    """Provide the partial blob ``name``; waits for whoever else is writing it.

    The lock is the kernel's: it goes with the process that has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    descriptor = _locked(path)
    try:
        partial = Partial(path, descriptor)
        partial.resume()
        try:
            yield partial
        finally:
            # What broke off in order goes on at the very byte.
            with contextlib.suppress(OSError):
                partial.note()
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Whoever had it may have moved it into the store: then it is no partial any more.
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.journal")


def _lines(journal: Path) -> Iterator[tuple[int, str, int]]:
    """Yield offset, digest and where its line ends, of whole lines only."""
    end = 0
    try:
        told = journal.read_bytes()
    except FileNotFoundError:
        return
    for line in told.splitlines(keepends=True):
        end += len(line)
        words = line.split()
        if not line.endswith(b"\n") or len(words) != 2 or not words[0].isdigit():
            return
        yield int(words[0]), words[1].decode("ascii", "replace"), end


def _feed(descriptor: int, running: hashlib._Hash, count: int) -> bool:
    """Hash so many bytes from where the file is; tell whether there were so many."""
    while count:
        piece = os.read(descriptor, min(CHUNK, count))
        if not piece:
            return False
        running.update(piece)
        count -= len(piece)
    return True
