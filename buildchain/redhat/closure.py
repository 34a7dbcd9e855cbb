"""RPMs of other people: resolved and fetched from the given repositories and nowhere else.

Programs: ``dnf`` (its library), ``rpmkeys``. On disk: blobs in the store, metadata in
``_build/dnf``, and ``_build/closures/<name>.json``, the list of packages that a set of wanted ones
needs besides a minimal OS.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import CommandError, FetchError, PinError, SigningError, ToolError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.project.model import RedhatFile, RedhatRepository, package_file
from buildchain.redhat import dnf, rpmkeys
from buildchain.store.blobs import Store


@dataclass(frozen=True)
class System:
    """What packages are resolved against.

    :param release: major version of EL.
    :param repositories: where packages come from.
    :param minimal: names of what every machine has; with all they need they are not fetched.
    :param ours: repository of what we build. It satisfies requirements, nothing is fetched from it,
        and its packages go before others of the same name.
    """

    release: str
    repositories: tuple[RedhatRepository, ...]
    minimal: tuple[str, ...]
    ours: RedhatRepository | None = None

    @property
    def every(self) -> tuple[RedhatRepository, ...]:
        return (*self.repositories, *([self.ours] if self.ours else []))


def resolve(
    layout: Layout, name: str, system: System, wanted: Sequence[str]
) -> tuple[RedhatFile, ...]:
    """Find and fetch what ``wanted`` need besides the minimal OS.

    The minimal OS counts at the versions that the repositories have now. Blobs land in the store
    when their SHA-256 is that of the metadata and their signature that of the repository's key.

    :raises FetchError: a repository cannot be read, a package does not exist, is for another
        architecture, needs what nothing provides, or cannot be downloaded.
    :raises SigningError: metadata or a package are not signed with the repository's key.
    """
    for _ in range(2):
        answer = _ask(layout, name, system, minimal=system.minimal, wanted=list(wanted))
        if answer.problem is not None:
            raise dnf.error(answer.problem, name, system.every)
        ours = system.ours.name if system.ours else ""
        files = tuple(file for file in answer.packages if file.repository != ours)
        if _fetch(layout, name, system, files, known=()):
            return files
        events.note(f"the repositories moved on; resolving {name} again")
    raise FetchError(f"packages for {name} cannot be had: the repositories keep changing")


def fetch_exactly(layout: Layout, name: str, system: System, files: Sequence[RedhatFile]) -> bool:
    """Fetch packages at the given versions into the store; tell whether they could all be had.

    What the store has was verified when it entered, and is what the caller names by SHA-256.

    :raises ChecksumError: the repository's file of that version is another one.
    """
    store = Store(layout.store)
    known = tuple(file for file in files if store.has(file.sha256))
    return _fetch(layout, name, system, files, known=known)


def _fetch(
    layout: Layout,
    name: str,
    system: System,
    files: Sequence[RedhatFile],
    known: Sequence[RedhatFile],
) -> bool:
    """Download, verify and store; ``known`` need no verification.

    Blobs that metadata name are verified like any other: unsigned metadata can name everything.
    """
    store = Store(layout.store)
    checked = [file for file in files if file not in known]
    missing = [file for file in checked if not store.has(file.sha256)]
    with layout.scratch(f"rpms-{name}-") as scratch:
        folder = Path(scratch) / "packages"
        if missing and not _download(layout, name, system, missing, folder):
            return False
        places = {file: folder / file.repository / file.file for file in checked}
        for file in checked:
            if file not in missing:
                store.link(file.sha256, places[file])
        for repository in system.repositories:
            theirs = [places[file] for file in checked if file.repository == repository.name]
            _verify(Path(scratch), repository, theirs)
        for file in missing:
            store.add(places[file], file.sha256, origin=f"{file.repository}: {file.file}")
    return True


def _download(
    layout: Layout, name: str, system: System, files: Sequence[RedhatFile], folder: Path
) -> bool:
    answer = _ask(layout, name, system, exactly=files, folder=str(folder))
    if answer.problem is None:
        return True
    if answer.problem["kind"] == "gone":
        return False
    raise dnf.error(answer.problem, name, system.every)


def _verify(folder: Path, repository: RedhatRepository, packages: Sequence[Path]) -> None:
    """Check digests and signatures against the one key of a repository.

    :raises SigningError: naming every package and what is wrong with it.
    """
    if not packages:
        return
    database = folder / "keys" / repository.name
    database.mkdir(parents=True)
    process.run(rpmkeys.argv_for_import(database, repository.key))
    lines: list[str] = []
    try:
        process.run(rpmkeys.argv_for_check(database, packages), on_line=lines.append)
    except CommandError as error:
        verdicts = rpmkeys.parse_check("\n".join(lines), packages)
        problems = [f"{package.name}: {wrong}" for package, wrong in verdicts.items() if wrong]
        if not problems:
            raise
        raise SigningError(
            f"packages of the repository {repository.name} ({repository.url}) are not signed with "
            f"{repository.key}: {'; '.join(problems)}",
            solution="Do not install them. Check that this is the repository you mean and that "
            "its key in the pins is current.",
        ) from error


def _ask(layout: Layout, name: str, system: System, **more: object) -> dnf.Answer:
    """Run the solver on a request and return its last word."""
    _check_keys(system.every)
    final = dnf.Answer()

    def on_line(line: str) -> None:
        nonlocal final
        answer = dnf.parse_answer(line)
        if answer is None:
            return
        if answer.progress is not None:
            events.progress(f"RPMs for {name}", *answer.progress, "packages")
        else:
            final = answer

    with layout.scratch(f"dnf-{name}-") as scratch:
        request = Path(scratch) / "request.json"
        state = _state(layout, system)
        text = dnf.request(state, system.release, system.repositories, system.ours, **more)
        write_whole(request, text)
        process.run(dnf.argv_for_solver(_interpreter(), request), on_line=on_line)
    return final


def _check_keys(repositories: Sequence[RedhatRepository]) -> None:
    missing = [f"{r.key} ({r.name})" for r in repositories if not r.key.is_file()]
    if missing:
        raise PinError(
            f"no such key of a repository: {', '.join(missing)}",
            solution="Put the public key there, or correct the path in the profile's pins.",
        )


def _state(layout: Layout, system: System) -> Path:
    """Return where metadata are kept: apart for other keys, since dnf remembers whom it trusted."""
    identity = hashlib.sha256(system.release.encode())
    for repository in system.every:
        identity.update(f"{repository.name} {repository.url} {repository.is_signed}\n".encode())
        identity.update(repository.key.read_bytes())
    return layout.build / "dnf" / identity.hexdigest()[:16]


def _interpreter() -> list[str]:
    program = shutil.which("dnf")
    if program is None:
        raise ToolError("the program dnf is not there")
    words = dnf.parse_interpreter(Path(program).read_text(encoding="utf-8", errors="replace"))
    if not words:
        raise ToolError(f"{program} is not a script, so this is not dnf 4")
    return words


def list_closure(
    layout: Layout, name: str, files: Sequence[RedhatFile], replaced: Sequence[str]
) -> Made:
    """Write the list of a set of packages."""
    document = [dataclasses.asdict(file) for file in files]
    write_whole(layout.closure(name), json.dumps(document, indent=1) + "\n")
    return Made((layout.closure(name),), {"packages": len(files), "replaced": list(replaced)})


def read_closure(path: Path) -> tuple[RedhatFile, ...]:
    """Read a list written by :func:`list_closure`."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(package_file(RedhatFile, entry) for entry in entries)


def link_closure(layout: Layout, name: str, folder: Path) -> tuple[Path, ...]:
    """Hard-link the packages of a closure into ``folder``, dated 1970: metadata tell the date."""
    store = Store(layout.store)
    links = tuple(
        store.link(file.sha256, folder / file.file) for file in read_closure(layout.closure(name))
    )
    for link in links:
        os.utime(link, (0, 0))
    return links
