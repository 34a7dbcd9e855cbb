"""Archives of inputs as somebody who carries them may change them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from buildchain.core.layout import Layout
from buildchain.debian import archive, lock
from buildchain.debian.lock import Entry, Locked
from buildchain.inputs import archive as inputs
from buildchain.project.model import DebianFile
from buildchain.store.blobs import Store

EVIL = b"what the attacker wants on every node"
PER_SET = 2  # packages of each locked set: what holds for some holds for all


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclasses.dataclass
class Site:
    """A machine without a network: a lock with the sets of the real one, made of stand-ins.

    :param wanted: the names each set is resolved for.
    """

    layout: Layout
    locked: Locked
    wanted: dict[str, tuple[str, ...]]
    entries: dict[str, Entry[DebianFile]]
    contents: dict[str, bytes]

    def resolution(self, name: str) -> Path:
        status = None if name == "base" else self.layout.base_status
        return archive.resolution(self.layout, self.wanted[name], status)

    def close(self, name: str) -> None:
        """Do what the build does for a set."""
        status = None if name == "base" else self.layout.base_status
        lock.close(self.layout, self.locked, name, self.wanted[name], status)

    @property
    def records(self) -> frozenset[DebianFile]:
        return lock.records(self.locked.path, DebianFile)


def site(layout: Layout, real: Path) -> Site:
    """Make the site; its store is empty."""
    contents, entries = {}, {}
    layout.apt.mkdir(parents=True)
    layout.base_status.parent.mkdir(parents=True)
    layout.base_status.write_text("installed")
    for name, entry in lock.read(real, DebianFile).items():
        files = []
        for file in entry.packages[:PER_SET]:
            content = f"{file.file} as it should be".encode()
            contents[sha(content)] = content
            files.append(dataclasses.replace(file, sha256=sha(content), size=len(content)))
        entries[name] = Entry(entry.wanted, "", tuple(files))
    base = archive.list_text(entries["base"].packages)
    archive.list_closure(layout, "base", entries["base"].packages, ())
    on = {name: "" if name == "base" else sha(base.encode()) for name in entries}
    entries = {n: Entry(e.wanted, on[n], e.packages) for n, e in entries.items()}
    locked = Locked(layout.build / "debian.lock", "roll", "")
    lock.write(locked.path, entries)
    return Site(layout, locked, {n: e.wanted for n, e in entries.items()}, entries, contents)


def name_of(content: bytes) -> str:
    digest = sha(content)
    return f"store/sha256/{digest[:2]}/{digest}"


class Archive:
    """Members of an archive of inputs, to be changed and written."""

    def __init__(self, site: Site) -> None:
        self.members: list[tuple[tarfile.TarInfo | str, bytes]] = []
        for name, entry in sorted(site.entries.items()):
            place = site.resolution(name).relative_to(site.layout.cache).as_posix()
            self.members.append((place, archive.list_text(entry.packages).encode()))
        self.members += [(name_of(c), c) for c in sorted(set(site.contents.values()))]
        self.honest = self.index()

    def index(self) -> bytes:
        rows = sorted(
            (name, len(content), sha(content)) for name, content in self.members
            if isinstance(name, str)
        )  # fmt: skip
        return "".join(f"{digest} {size} {name}\n" for name, size, digest in rows).encode()

    def place(self, name: str) -> int:
        return next(n for n, member in enumerate(self.members) if member[0] == name)

    def drop(self, name: str) -> None:
        del self.members[self.place(name)]

    def replace(self, name: str, content: bytes) -> None:
        self.members[self.place(name)] = (name, content)

    def write(self, path: Path, index: bytes, signature: bytes) -> Path:
        first = [(inputs.INDEX, index), (inputs.SIGNATURE, signature)]
        return write(path, (*first, *self.members))


def write(path: Path, members: Iterable[tuple[tarfile.TarInfo | str, bytes]]) -> Path:
    """Write a tar whose members may be anything, their sizes untrue."""
    with path.open("wb") as stream:
        for name, content in members:
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if not isinstance(name, tarfile.TarInfo):
                entry.size = len(content)
            stream.write(entry.tobuf(tarfile.GNU_FORMAT))
            stream.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
        stream.write(bytes(2 * tarfile.BLOCKSIZE))
    return path


def strange(kind: bytes, name: str, target: str = "", size: int = 0) -> tarfile.TarInfo:
    """Return a member that is not a regular file, or has another size than it should."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, size
    return entry


def forged(files: Iterable[DebianFile], victim: DebianFile, fields: Mapping[str, object]) -> bytes:
    """Return a resolution in which one package is another."""
    rows = [dataclasses.asdict(file) for file in files]
    for row in rows:
        if row["sha256"] == victim.sha256:
            row.update(fields)
    return (json.dumps(rows, indent=1) + "\n").encode()


def as_gzip(path: Path) -> Path:
    import gzip

    path.write_bytes(gzip.compress(path.read_bytes() + bytes(1 << 20), 1))
    return path


def has(layout: Layout, content: bytes) -> bool:
    return Store(layout.store).has(sha(content))
