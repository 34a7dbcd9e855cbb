"""Image layers with the same bytes on every machine.

What the engine hands out carries build times and leftovers. Here the layers above the base become
one: entries sorted, dates set, caches and logs dropped. On disk: gzip files named by their SHA-256,
as the spec's chapter 12.2 wants them.
"""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LEVEL = 6  # gzip; 9 takes three times as long for 1 % less
CHUNK = 1 << 20  # bytes
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# Leftovers of installing packages: logs, caches, backups, and the packages themselves.
LEFTOVER = re.compile(
    r"""^(?:
        debs | debs/.* | tmp/.+ | run/.+ | root/.+
      | var/cache/(?:apt|debconf|ldconfig)/.+
      | var/lib/apt/(?:lists|extended_states).*
      | var/log/.+
      | var/lib/dpkg/[^/]*-old
      | etc/(?:passwd|group|shadow|gshadow|subuid|subgid)-
      | etc/(?:resolv\.conf|hostname|hosts|mtab|\.pwd\.lock)
      | dev/.+ | proc/.+ | sys/.+ | \.dockerenv
    )$""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Blob:
    """A compressed layer: where, its SHA-256 and size (bytes), and the hash of the plain tar."""

    path: Path
    sha256: str
    size: int
    diff_id: str


class _Tee:
    """A writer that hashes what passes through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()


class LayerWriter:
    """Compress a tar while writing it; both hashes come out of the one pass."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.part = folder / ".layer.part"
        self._file = self.part.open("wb")
        self._packed = _Tee(self._file)
        # No name and no time in the header.
        self._gzip = gzip.GzipFile("", "wb", LEVEL, self._packed, mtime=0)
        self.plain = _Tee(self._gzip)  # type: ignore[arg-type]

    def finish(self) -> Blob:
        """Close and give the file its name."""
        self._gzip.close()
        self._file.close()
        digest = self._packed.hash.hexdigest()
        path = self.part.replace(self.part.with_name(digest))
        path.chmod(0o644)
        return Blob(path, digest, self._packed.size, self.plain.hash.hexdigest())


def compress(tar: Path, folder: Path) -> Blob:
    """Compress a layer as it is, into ``folder``."""
    writer = LayerWriter(folder)
    with tar.open("rb") as stream:
        for chunk in iter(lambda: stream.read(CHUNK), b""):
            writer.plain.write(chunk)
    return writer.finish()


def merge(tars: Sequence[Path], folder: Path, *, epoch: int) -> Blob:
    """Merge layers (lowest first) into one normalised layer in ``folder``.

    :param epoch: date of every entry, seconds since 1970.
    """
    archives = [tarfile.open(tar) for tar in tars]  # noqa: SIM115
    try:
        entries = _overlay(archives)
        writer = LayerWriter(folder)
        with tarfile.open(
            fileobj=writer.plain,  # type: ignore[call-overload]
            mode="w|",
            format=tarfile.PAX_FORMAT,
        ) as output:
            for name, archive, member in _in_order(entries):
                content = archive.extractfile(member) if member.isreg() else None
                output.addfile(_normalised(member, name, epoch), content)
        return writer.finish()
    finally:
        for archive in archives:
            archive.close()


Entries = dict[str, tuple[tarfile.TarFile, tarfile.TarInfo]]


def _overlay(archives: Iterable[tarfile.TarFile]) -> Entries:
    """Return the last word on every path; deletions of what lies below these layers stay."""
    entries: Entries = {}
    for archive in archives:
        for member in archive:
            name = posixpath.normpath(member.name).lstrip("/")
            folder, base = posixpath.split(name)
            if base == OPAQUE:
                _forget(entries, folder, keep_folder=True)
            elif base.startswith(WHITEOUT):
                _forget(entries, posixpath.join(folder, base.removeprefix(WHITEOUT)))
            elif not member.isdir():
                # What takes the place of a folder takes the place of all that was in it.
                _forget(entries, name, keep_folder=True)
            if not LEFTOVER.match(name) and name != ".":
                entries[name] = (archive, member)
    return entries


def _forget(entries: Entries, path: str, *, keep_folder: bool = False) -> None:
    for name in [n for n in entries if n.startswith(f"{path}/") or (n == path and not keep_folder)]:
        del entries[name]


def _in_order(entries: Entries) -> Iterator[tuple[str, tarfile.TarFile, tarfile.TarInfo]]:
    """Sort by path; deletions come before what takes the place, links after what they link to."""

    def rank(item: tuple[str, tuple[tarfile.TarFile, tarfile.TarInfo]]) -> tuple[int, str]:
        name, (_, member) = item
        if posixpath.basename(name).startswith(WHITEOUT):
            return 0, name
        return (2 if member.islnk() else 1), name

    for name, (archive, member) in sorted(entries.items(), key=rank):
        yield name, archive, _link_or_file(entries, archive, member)


def _link_or_file(
    entries: Entries, archive: tarfile.TarFile, member: tarfile.TarInfo
) -> tarfile.TarInfo:
    """Return a hard link as the file it stood for, when a later layer replaced what it links to."""
    if not member.islnk():
        return member
    target = posixpath.normpath(member.linkname).lstrip("/")
    original = next(m for m in archive if posixpath.normpath(m.name).lstrip("/") == target)
    if entries.get(target) == (archive, original):
        return member
    return original


def _normalised(member: tarfile.TarInfo, name: str, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = member.type
    entry.mode = member.mode
    entry.uid, entry.gid = member.uid, member.gid
    entry.size = member.size if member.isreg() else 0
    entry.linkname = posixpath.normpath(member.linkname) if member.islnk() else member.linkname
    entry.devmajor, entry.devminor = member.devmajor, member.devminor
    entry.mtime = epoch
    kept = {k: v for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr.")}
    entry.pax_headers = kept
    return entry
