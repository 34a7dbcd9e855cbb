"""Locks, compared with the pins they are made for; nothing is fetched.

A lock that is right has every set that the profile wants and no other, each for the same names and
on the same base, and packages that are what their file names say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from buildchain.core.errors import LockError, PinError
from buildchain.debian import archive, floor, lock
from buildchain.debian.lock import Entry
from buildchain.packages import bundles
from buildchain.project.model import DebianFile, File, RedhatFile

DIGEST = re.compile(r"[0-9a-f]{64}")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def prove(problems: Sequence[str]) -> None:
    """Stop when there are problems.

    :raises LockError: naming all of them.
    """
    if problems:
        raise LockError(
            f"{len(problems)} lock entries do not match the pins",
            details="\n".join(problems),
            solution="Run ./doit.sh lock and review the difference.",
        )


def debian_problems(path: Path, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Compare the lock of Debian packages with the sets of a profile.

    :param wanted: set to names, ``base`` among them.
    """
    try:
        entries = lock.read(path, DebianFile)
    except PinError as error:
        return [error.reason]
    problems = _set_problems(path, entries, wanted)
    for name, entry in entries.items():
        below = floor.below(name)
        files = entries[below].packages if below in entries else ()
        on = hashlib.sha256(archive.list_text(files).encode()).hexdigest() if below else ""
        if entry.on != on:
            what = f"{path}: set {name} was resolved on another {below or 'base'}"
            problems.append(what)
        known = {file.name for file in (*files, *entry.packages)}
        missing = [n for n in wanted.get(name, ()) if n not in known and n[:1] != "?"]
        problems += [f"{path}: set {name} lacks {n}" for n in missing]
        for file in entry.packages:
            stem = f"{file.name}_{file.version.replace(':', '%3a')}_{file.architecture}.deb"
            problems += _file_problems(path, name, file, stem)
    return problems


def redhat_problems(path: Path, wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """Compare the lock of RPMs with the sets of a profile."""
    try:
        entries = lock.read(path, RedhatFile)
    except PinError as error:
        return [error.reason]
    problems = _set_problems(path, entries, wanted)
    for name, entry in entries.items():
        for file in entry.packages:
            stem = f"{file.name}-{file.version}-{file.release}.{file.architecture}.rpm"
            problems += _file_problems(path, name, file, stem)
    return problems


def _set_problems(
    path: Path, entries: Mapping[str, Entry[File]], wanted: Mapping[str, Sequence[str]]
) -> list[str]:
    problems = []
    for name in sorted(wanted.keys() | entries.keys()):
        if name not in entries:
            problems.append(f"{path}: set {name} is not locked")
        elif name not in wanted:
            problems.append(f"{path}: set {name} is locked, and nothing wants it")
        elif tuple(wanted[name]) != entries[name].wanted:
            difference = sorted(set(wanted[name]) ^ set(entries[name].wanted)) or ["their order"]
            problems.append(
                f"{path}: set {name} was resolved for other names: {', '.join(difference)}"
            )
    for name, entry in entries.items():
        names = [(file.name, file.architecture) for file in entry.packages]
        twice = sorted({found for found, _ in names if names.count((found, _)) > 1})
        problems += [f"{path}: set {name} has {found} twice" for found in twice]
    return problems


def _file_problems(path: Path, name: str, file: File, expected: str) -> Iterator[str]:
    where = f"{path}: set {name}, {file.name}"
    if not isinstance(file.sha256, str) or not DIGEST.fullmatch(file.sha256):
        yield f"{where}: {file.sha256!r} is no SHA-256"
    if type(file.size) is not int or file.size <= 0:
        yield f"{where}: {file.size!r} is no size"
    if Path(file.file).name != expected:
        yield f"{where}: the file is called {file.file}, expected {expected}"


def python_problems(source: Path, locked: Path) -> list[str]:
    """Compare locked Python distributions with what was asked for.

    :param source: ``….in``, one requirement a line.
    :param locked: ``….txt``, as pip-compile writes it.
    """
    problems = []
    versions = {}
    for block in re.split(r"\n(?=\S)", locked.read_text(encoding="utf-8")):
        if block.startswith("#") or not block.strip():
            continue
        name, _, version = block.split(" ", 1)[0].partition("==")
        versions[canonicalize_name(name)] = version.strip()
        if not version or not HASH.search(block):
            problems.append(f"{locked}: {name} is not pinned by version and hash")
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition(" #")[0].strip()
        if not text or text.startswith(("#", "-c ")):
            continue
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            problems.append(f"{source}:{number}: {error}")
            continue
        version = versions.get(canonicalize_name(wanted.name), "")
        if not version:
            problems.append(f"{locked}: {wanted.name} is not locked ({source.name}:{number})")
        elif not wanted.specifier.contains(version, prereleases=True):
            problems.append(f"{locked}: {wanted.name} {version} is not {text} ({source}:{number})")
    return problems


def wheel_problems(listed: Path) -> list[str]:
    """Check a list of Python distributions."""
    try:
        files = bundles.read_wheels(listed)
    except PinError as error:
        return [error.reason]
    names = [canonicalize_name(file.split("-", 1)[0]) for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"{listed}: {name} is listed twice" for name in twice]
