"""Debian packages and sources: resolved against signed indexes, verified, kept in the store.

Programs: ``apt-get``. On disk: ``_build/apt`` (private state) and ``_build/closures/<name>.json``,
the list of packages a set of wanted ones needs on top of what is installed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from buildchain.core import events, process, receipt
from buildchain.core.errors import CommandError, FetchError, LockError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import apt
from buildchain.project.catalog import Catalog, place
from buildchain.project.model import DebianFile, Package, Source, package_file
from buildchain.store.blobs import Store

EMPTY_STATUS = "status.empty"
SOURCES = "debian.sources"
# Several sets are resolved at once; the indexes they share are read by one.
_UPDATING = threading.Lock()


def refresh(layout: Layout, catalog: Catalog) -> Made:
    """Fetch the indexes of the machine's Debian sources into the private state.

    Without them only what is in the store can be built from: what needs more fails later.
    """
    targets = process.run(apt.argv_for_targets())
    entries = apt.parse_targets(targets, catalog.suite)
    for folder in ("lists/partial", "archives/partial"):
        (layout.apt / folder).mkdir(parents=True, exist_ok=True)
    write_whole(layout.apt / EMPTY_STATUS, "")
    sources = apt.source_list(entries, catalog.keyring, catalog.architecture)
    write_whole(layout.apt / SOURCES, sources)
    try:
        _update(layout)
    except FetchError as error:
        events.note(f"{error.reason}; going on with what is in {layout.store}")
    return Made((layout.apt / SOURCES,), {"entries": len(entries)})


def _update(layout: Layout) -> None:
    """Read the indexes again.

    :raises FetchError: the machine has none for the suite, or they cannot be reached.
    """
    sources = layout.apt / SOURCES
    if sources.is_file() and not sources.stat().st_size:
        raise FetchError(
            "the machine's APT has no indexes of the Debian suite that is pinned",
            solution="Run ./doit.sh setup (or apt-get update) on a machine with Debian sources.",
        )
    configuration = _configure(layout, layout.apt / EMPTY_STATUS, layout.apt / "archives", "update")
    try:
        with _UPDATING:
            process.run(apt.argv_for_update(configuration))
    except CommandError as error:
        raise FetchError("the Debian archive cannot be reached", details=error.details) from error


def _configure(layout: Layout, status: Path, archives: Path, name: str) -> Path:
    path = layout.apt / f"{name}.conf"
    write_whole(path, apt.configuration(layout.apt, status, archives))
    return path


def resolve(
    layout: Layout,
    name: str,
    packages: Sequence[str],
    status: Path | None = None,
    believed: Collection[DebianFile] = frozenset(),
) -> tuple[DebianFile, ...]:
    """Find and fetch what ``packages`` need on top of ``status`` (nothing installed when ``None``).

    Blobs land in the store; the archive's indexes are read again once when it moved on meanwhile.
    When it cannot be reached, what the same names meant last time will do, if all of it is there
    and believed: what was kept may have come with an archive of inputs, from anybody.

    :param believed: the packages of the lock.
    :raises FetchError: a package does not exist, cannot be resolved or cannot be downloaded.
    :raises LockError: what was kept has packages that are not believed.
    """
    base = status or layout.apt / EMPTY_STATUS
    known = resolution(layout, packages, status)
    try:
        files = _resolve(layout, name, packages, base)
    except FetchError:
        files = _remembered(layout, name, known, frozenset(believed))
        if not files:
            raise
        events.note(f"without the Debian archive: packages for {name} are those of the last build")
        return files
    _write_list(known, files)
    return files


def resolution(layout: Layout, packages: Sequence[str], status: Path | None) -> Path:
    """Return where it is kept what names of packages meant, on top of ``status``."""
    return layout.resolution(_identity(packages, status or layout.apt / EMPTY_STATUS))


def _identity(packages: Sequence[str], status: Path) -> str:
    installed = receipt.sha256(status) if status.is_file() else ""
    text = json.dumps([sorted(packages), installed])
    return hashlib.sha256(text.encode()).hexdigest()


def _remembered(
    layout: Layout, name: str, path: Path, believed: frozenset[DebianFile]
) -> tuple[DebianFile, ...]:
    if not believed or not path.is_file():
        return ()
    try:
        files = read_closure(path)
    except ValueError:
        return ()
    strange = [f"{file.name} {file.version}" for file in files if file not in believed]
    if strange:
        raise LockError(
            f"the Debian archive cannot be reached, and {len(strange)} packages that {name} was "
            f"made of last time are not in the lock: {', '.join(strange)}",
            solution="Connect to the network; or run ./doit.sh lock where there is one, review the "
            "difference and commit it.",
        )
    store = Store(layout.store)
    return files if all(store.has(file.sha256) for file in files) else ()


def _resolve(
    layout: Layout, name: str, packages: Sequence[str], base: Path
) -> tuple[DebianFile, ...]:
    store = Store(layout.store)
    with layout.scratch(f"apt-{name}-") as scratch:
        archives = Path(scratch)
        (archives / "partial").mkdir()
        configuration = _configure(layout, base, archives, name)
        try:
            return _fetch(store, configuration, archives, packages, name)
        except CommandError:
            events.note(f"the archive moved on; reading its indexes again for {name}")
            _update(layout)
        try:
            return _fetch(store, configuration, archives, packages, name)
        except CommandError as error:
            missing = apt.parse_unmet(error.details) or packages
            raise FetchError(
                f"Debian packages for {name} cannot be had: {', '.join(missing)}",
                details=error.details,
            ) from error


def _fetch(
    store: Store, configuration: Path, archives: Path, packages: Sequence[str], name: str
) -> tuple[DebianFile, ...]:
    printed = process.run(apt.argv_for_install(configuration, packages, print_only=True))
    files = apt.parse_uris(printed)
    for file in files:
        if store.has(file.sha256):
            # apt takes what is complete in its cache and downloads the rest.
            shutil.copyfile(store.path(file.sha256), archives / file.file)
    missing = [file for file in files if not store.has(file.sha256)]
    if not missing:
        return files
    argv = apt.argv_for_install(configuration, packages, print_only=False)
    process.run(argv, on_line=_fetched(name, len(missing)))
    for file in missing:
        store.add(archives / file.file, file.sha256, origin=file.file)
    return files


def _fetched(name: str, total: int) -> Callable[[str], None]:
    """Return a reader of APT's output that tells how far the download is."""
    fetched = 0

    def on_line(line: str) -> None:
        nonlocal fetched
        if line.startswith("Get:"):
            fetched += 1
            events.progress(f"Debian packages for {name}", fetched, total, "packages")

    return on_line


def fetch_exactly(
    layout: Layout, name: str, files: Sequence[DebianFile], status: Path | None = None
) -> bool:
    """Fetch packages at the given versions into the store; tell whether they could all be had.

    :raises ChecksumError: the archive's file of that version is another one.
    """
    store = Store(layout.store)
    missing = [file for file in files if not store.has(file.sha256)]
    if not missing:
        return True
    with layout.scratch(f"apt-{name}-") as scratch:
        folder = Path(scratch)
        base = status or layout.apt / EMPTY_STATUS
        configuration = _configure(layout, base, folder, f"exact-{name}")
        try:
            argv = apt.argv_for_download(configuration, missing)
            process.run(argv, cwd=folder, on_line=_fetched(name, len(missing)))
        except CommandError:
            return False
        for file in missing:
            store.add(folder / file.file, file.sha256, origin=file.file)
    return True


def list_closure(
    layout: Layout, name: str, files: Sequence[DebianFile], replaced: Sequence[str]
) -> Made:
    """Write the list of a set of packages."""
    _write_list(layout.closure(name), files)
    return Made((layout.closure(name),), {"packages": len(files), "replaced": list(replaced)})


def _write_list(path: Path, files: Sequence[DebianFile]) -> None:
    write_whole(path, list_text(files))


def list_text(files: Sequence[DebianFile]) -> str:
    """Return the text of a list, whose SHA-256 stands for the set."""
    document = [dataclasses.asdict(file) for file in files]
    return json.dumps(document, indent=1) + "\n"


def read_closure(path: Path) -> tuple[DebianFile, ...]:
    """Read a list written by :func:`list_closure`."""
    return parse_list(path.read_bytes())


def parse_list(text: bytes) -> tuple[DebianFile, ...]:
    """Read what :func:`list_text` gives.

    :raises ValueError: it is something else.
    """
    try:
        entries = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"no list of packages: {error}") from error
    if not isinstance(entries, list):
        raise ValueError("no list of packages")
    return tuple(package_file(DebianFile, entry) for entry in entries)


def link_closure(layout: Layout, name: str, folder: Path) -> tuple[Path, ...]:
    """Hard-link the packages of a closure into ``folder``."""
    store = Store(layout.store)
    return tuple(
        store.link(file.sha256, folder / file.pool_name)
        for file in read_closure(layout.closure(name))
    )


def get_sources(layout: Layout, package: Package, folder: Path) -> Made:
    """Put the pinned source files of a package into ``folder``, from the store or the archive.

    :raises ChecksumError: a file is not the pinned one; it enters neither store nor folder.
    """
    store = Store(layout.store)
    by_origin: dict[tuple[str, str], list[Source]] = {}
    for source in package.sources:
        if not store.has(source.sha256):
            by_origin.setdefault((source.package, source.version), []).append(source)
    for (name, version), sources in by_origin.items():
        _download_source(layout, store, name, version, sources)
    return Made(
        tuple(store.link(source.sha256, folder / source.file) for source in package.sources),
        digests={folder / source.file: source.sha256 for source in package.sources},
    )


def _gone(layout: Layout, source: Source, details: str) -> FetchError:
    where = pinned_at(layout, source.sha256)
    return FetchError(
        f"{where}: source package {source.package} {source.version} cannot be had from the archive",
        details=details,
        solution="Check the network; if the archive has another version now, pin that in "
        "buildchain/pins.",
    )


def _first_that_works(
    configuration: Path, wishes: Sequence[str], folder: Path, version: str
) -> None:
    """Download a version of a source package by the first wish the archive fulfils.

    :raises CommandError: it fulfils none; what it said to the first.
    """
    first: CommandError | None = None
    # A file's name has no epoch.
    description = f"*_{version.rpartition(':')[2]}.dsc"
    for wish in wishes:
        try:
            process.run(apt.argv_for_source(configuration, wish), cwd=folder)
        except CommandError as error:
            first = first or error
        if any(folder.glob(description)):
            return
    if first is not None:
        raise first


def pinned_at(layout: Layout, digest: str) -> str:
    """Return where a digest is pinned, as ``path:line``."""
    places = (place(path, digest) for path in sorted(layout.pins.glob("*/packages.toml")))
    return next((found for found in places if ":" in found), "pins")


def _download_source(
    layout: Layout, store: Store, name: str, version: str, sources: Sequence[Source]
) -> None:
    events.note(f"downloading the source of {name} {version}")
    configuration = _configure(
        layout, layout.apt / EMPTY_STATUS, layout.apt / "archives", f"source-{name}"
    )
    suites = apt.parse_suites((layout.apt / SOURCES).read_text(encoding="utf-8"))
    with layout.scratch("source-") as scratch:
        try:
            # A version that is in two suites may have been dropped from the first.
            wishes = (f"{name}={version}", *(f"{name}/{suite}" for suite in suites))
            _first_that_works(configuration, wishes, Path(scratch), version)
        except CommandError as error:
            raise _gone(layout, sources[0], error.details) from error
        for source in sources:
            file = Path(scratch) / source.file
            if not file.is_file():
                raise _gone(layout, source, f"no file {source.file}")
            where = pinned_at(layout, source.sha256)
            store.add(file, source.sha256, origin=f"{where}: {name} {version}: {source.file}")


def closure_name(package: Package) -> str:
    """Return the name of the set of Debian packages that a Go bundle is made of."""
    return f"source-{package.name}"
