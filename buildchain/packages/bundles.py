"""Bundles: many small inputs of a compilation as one archive of the source package.

Programs: ``dpkg-deb``, ``pip``. On disk: ``SOURCES/<name>-<version>-gocode.tar`` (Go libraries out
of Debian packages, with their copyright files) and ``…-wheels.tar`` (Python distributions). Equal
inputs give equal bytes. The archive makes a source package complete, and keeps the builder small.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import CommandError, FetchError, PinError
from buildchain.core.layout import Layout
from buildchain.debian import apt
from buildchain.debian import archive as debian
from buildchain.debian.archive import closure_name
from buildchain.machine import python
from buildchain.project.model import Package
from buildchain.store.blobs import Store

GO_FOLDER = "usr/share/gocode"
COPYRIGHTS = "usr/share/doc/*/copyright"
# A line of sha256sum.
LISTED = re.compile(r"^(?P<digest>[0-9a-f]{64})  (?P<file>[^/\s]+)$")


def make(layout: Layout, package: Package, folder: Path, epoch: int) -> tuple[Path, ...]:
    """Make the bundles of a package in ``folder``.

    :param epoch: date of every file in them, seconds since 1970.
    """
    made = []
    for name in package.bundles:
        with layout.scratch(f"bundle-{package.name}-") as scratch:
            root = Path(scratch)
            if name.endswith("-wheels.tar"):
                members = _link_wheels(layout, package, root)
            else:
                members = _unpack_go(layout, package, root)
            made.append(archive(folder / name, root, members, epoch))
    return tuple(made)


def archive(path: Path, root: Path, members: Iterable[Path], epoch: int) -> Path:
    """Pack files of ``root``, sorted, without anything of this machine."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = epoch
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as stream:
        for member in sorted(members):
            stream.add(member, member.relative_to(root), recursive=False, filter=plain)
    return path


def _unpack_go(layout: Layout, package: Package, root: Path) -> list[Path]:
    debs = debian.link_closure(layout, closure_name(package), root / "debs")
    for index, deb in enumerate(debs, 1):
        events.progress(f"Go libraries for {package.name}", index, len(debs), "packages")
        process.run(apt.argv_for_unpacking(deb, root))
    return [*(root / GO_FOLDER).rglob("*"), *root.glob(COPYRIGHTS)]


def read_wheels(path: Path) -> dict[str, str]:
    """Return the Python distributions a list names: file to SHA-256.

    :raises PinError: a line is not what ``sha256sum`` writes, with its number.
    """
    listed = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = LISTED.match(line)
        if match is None:
            raise PinError(
                f"{path}:{number}: not a SHA-256, two spaces and a file name: {line!r}",
                solution="Correct the line.",
            )
        listed[match["file"]] = match["digest"]
    return listed


def _link_wheels(layout: Layout, package: Package, root: Path) -> list[Path]:
    listed = read_wheels(layout.package_sources(package.name) / package.wheels)
    store = Store(layout.store)
    missing = {file: digest for file, digest in listed.items() if not store.has(digest)}
    if missing:
        events.note(f"downloading {len(missing)} Python distributions for {package.name}")
        with layout.scratch(f"pip-{package.name}-") as scratch:
            _download(missing, listed, store, Path(scratch))
    return [store.link(digest, root / file) for file, digest in listed.items()]


def _download(
    missing: Mapping[str, str], listed: Mapping[str, str], store: Store, folder: Path
) -> None:
    """Fetch distributions through pip, from wherever the machine's pip gets them.

    :raises FetchError: one cannot be had.
    """
    # pip asks a source distribution for its metadata, which runs its build: with what is listed.
    wheels = {file: digest for file, digest in missing.items() if file.endswith(".whl")}
    sources = {file: digest for file, digest in missing.items() if file not in wheels}
    _pip(wheels, store, folder, python.WHEELS_ONLY)
    if sources:
        library = folder / "library"
        for file, digest in listed.items():
            if file.endswith("-none-any.whl"):
                with zipfile.ZipFile(store.path(digest)) as wheel:
                    for member in wheel.namelist():
                        wheel.extract(member, library)
        _pip(sources, store, folder, python.SOURCES_ONLY, {"PYTHONPATH": str(library)})


def _pip(
    wanted: Mapping[str, str],
    store: Store,
    folder: Path,
    options: tuple[str, ...],
    environment: Mapping[str, str] | None = None,
) -> None:
    if not wanted:
        return
    lock = folder / "requirements.txt"
    lock.write_text(python.requirements(wanted), encoding="utf-8")
    argv = python.argv_for_download(Path(sys.executable), lock, folder, options)
    try:
        process.run(argv, env=environment)
    except CommandError as error:
        raise FetchError(
            f"Python distributions cannot be had: {', '.join(sorted(wanted)[:5])}"
            + (" …" if len(wanted) > 5 else ""),
            details=error.details,
            solution="Check the network and pip's configuration (pip config list).",
        ) from error
    for file, digest in wanted.items():
        if not (folder / file).is_file():
            raise PinError(f"pip fetched another file than {file}", solution="Correct the list.")
        store.add(folder / file, digest, origin=file)
