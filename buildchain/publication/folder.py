"""A folder as a place: a disk, a stick, what a web server shows, a network's file system."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from buildchain.core.errors import SpaceError
from buildchain.publication.place import CHUNK, Absent, Target, on_disk

PART = ".part"


class Folder(Target):
    """A folder of this machine.

    On disk, beside what it has: ``.<name>.part`` while a file is being written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.name = str(self.path)

    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on."""
        with on_disk(self.name):
            try:
                stream = (self.path / name).open("rb")
            except FileNotFoundError as error:
                raise Absent(name) from error
        # Not around what is yielded: who takes it has troubles of his own.
        with stream:
            stream.seek(start)
            while piece := self._read(stream):
                yield piece

    def _read(self, stream: BinaryIO) -> bytes:
        with on_disk(self.name):
            return stream.read(CHUNK)

    def prepare(self, need: int) -> None:
        """Make the folder, and write something to it."""
        with on_disk(self.name):
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path) as probe:
                probe.write(b"\0")
            free = shutil.disk_usage(self.path).free
        if need > free:
            raise SpaceError(
                f"{self.name} has room for {free >> 20} MiB, {need >> 20} MiB are to come",
                solution="Free some room there (--keep N removes old releases), then go on.",
            )

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return files by name; those that are being written do not count."""
        found = {}
        with on_disk(self.name), contextlib.suppress(FileNotFoundError):
            for path in (self.path / folder).iterdir():
                is_part = path.name.startswith(".") and path.suffix == PART
                if path.is_file() and not path.is_symlink() and not is_part:
                    found[path.name] = path.stat().st_size
        return found

    def send(self, file: Path, name: str) -> None:
        """Copy a file; it is on the disk before it is in its place."""
        target = self.path / name
        part = target.with_name(f".{target.name}{PART}")
        with on_disk(self.name):
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy, CHUNK)
                copy.flush()
                os.fsync(copy.fileno())
            part.chmod(0o644)
            part.replace(target)
            sync(target.parent)

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files, what a killed run was writing, and the folder when nothing is left."""
        with on_disk(self.name):
            parts = (path.name for path in (self.path / folder).glob(f".*{PART}"))
            for name in (*names, *parts):
                (self.path / folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.path / folder).rmdir()

    def clear(self, folder: str) -> bool:
        """Remove a folder, also one that a killed run has left empty."""
        path = self.path / folder
        if not path.is_dir() or path.is_symlink():
            return False
        with on_disk(self.name):
            shutil.rmtree(path)
        return True


def sync(folder: Path) -> None:
    """Let a power cut find the names as they are now."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
