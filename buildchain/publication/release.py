"""A release folder: what ``./doit.sh release`` leaves, checked before anybody believes it.

Programs: ``gpgv``. On disk: artefacts, ``release.json`` (which release it is), ``SHA256SUM`` (all
of them, as ``sha256sum`` writes) and ``SHA256SUM.sig`` (its detached signature).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events, receipt
from buildchain.core.errors import ContentError
from buildchain.publication import index, trust
from buildchain.publication.index import LIST, SIGNATURE, Artefact

RECORD = "release.json"
SCHEMA = 1
LARGEST_LIST = 1 << 20  # bytes
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\0]+)")
AGAIN = "Build it again (./doit.sh release), or get it again from where it came."


@dataclass(frozen=True)
class Release:
    """A release that was checked.

    :param date: of its content, seconds since 1970.
    :param artefacts: every file, list and signature included.
    """

    name: str
    version: str
    date: int
    artefacts: tuple[Artefact, ...]
    bases: tuple[str, ...] = ()


def read(folder: Path, keyrings: Sequence[Path]) -> Release:
    """Check a release folder and tell what it is.

    :param keyrings: public keys that every signature of the list has to be made by.
    :raises ContentError: it is no release, or not as its list says; names every bad file.
    :raises SigningError: its list is signed by somebody else, or by nobody.
    """
    missing = [name for name in (LIST, SIGNATURE, RECORD) if not (folder / name).is_file()]
    if missing:
        raise ContentError(
            f"{folder} is no release: it has no {', '.join(missing)}",
            solution="Make one with ./doit.sh release, or name the folder that has one.",
        )
    trust.verify(folder / LIST, folder / SIGNATURE, keyrings)
    problems: list[str] = []
    listed = _listed(folder, problems)
    artefacts = _artefacts(folder, listed, problems)
    _refuse(folder, problems)
    release = _release(folder, artefacts, problems)
    _refuse(folder, problems)
    return release


def _refuse(folder: Path, problems: Sequence[str]) -> None:
    if problems:
        raise ContentError(
            f"{folder} is not as its signed list says: {'; '.join(problems)}", solution=AGAIN
        )


def _listed(folder: Path, problems: list[str]) -> dict[str, str]:
    """Return file to digest as the list has it."""
    found: dict[str, str] = {}
    path = folder / LIST
    if path.stat().st_size > LARGEST_LIST:
        problems.append(f"{LIST} is larger than {LARGEST_LIST} bytes")
        return found
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        match = LINE.fullmatch(line)
        if match is None or not index.is_file_name(match[2]) or match[2] in found:
            problems.append(f"line {number} of {LIST} is not as it should be: {line[:120]!r}")
        else:
            found[match[2]] = match[1]
    return found


def _artefacts(folder: Path, listed: Mapping[str, str], problems: list[str]) -> dict[str, Artefact]:
    """Hash what is there and compare it with the list."""
    present = {path.name: path for path in folder.iterdir()}
    missing = {*listed} - {*present} | {RECORD} - {*listed}
    strange = {*present} - {*listed, LIST, SIGNATURE}
    problems += [f"{name} is missing" for name in sorted(missing)]
    problems += [f"{name} does not belong there" for name in sorted(strange)]
    found = {}
    names = sorted({*present} & {*listed, LIST, SIGNATURE})
    for number, name in enumerate(names, 1):
        events.progress(f"checking {folder.name}", number, len(names), "files")
        path = present[name]
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is no file")
            continue
        digest = receipt.sha256(path)
        if listed.get(name, digest) != digest:
            problems.append(f"{name} was changed")
        found[name] = Artefact(name, _kind(name), path.stat().st_size, digest)
    return found


def _kind(name: str) -> str:
    return {LIST: "list", SIGNATURE: "signature", RECORD: "record"}.get(name, "")


def _release(folder: Path, found: dict[str, Artefact], problems: list[str]) -> Release:
    try:
        document = json.loads((folder / RECORD).read_bytes())
        name, version, date = (document[key] for key in ("name", "version", "date"))
        bases = tuple(document.get("bases", ()))
        recorded = [
            Artefact(row["file"], row["kind"], row["size"], row["sha256"])
            for row in document["artefacts"]
        ]
        schema = document["schema"]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        problems.append(f"{RECORD} is no record of a release ({error})")
        return Release("", "", 0, ())
    if schema != SCHEMA:
        problems.append(f"{RECORD} is of schema {schema}, this knows {SCHEMA}")
    problems += _record_problems(name, version, date, bases)
    problems += index.artefact_problems(recorded)
    problems += _differences(recorded, found)
    kinds = {artefact.file: artefact for artefact in recorded}
    artefacts = tuple(kinds.get(file, found[file]) for file in sorted(found))
    return Release(str(name).lower(), version, date, artefacts, bases)


def _record_problems(
    name: object, version: object, date: object, bases: Sequence[object]
) -> Iterator[str]:
    if not index.is_file_name(name):
        yield f"{RECORD}: {str(name)[:80]!r} is no name"
    for word in (version, *bases):
        if not index.is_version(word):
            yield f"{RECORD}: {str(word)[:80]!r} is no version"
    if not index.is_number(date, index.LAST):
        yield f"{RECORD}: {str(date)[:80]!r} is no date"


def _differences(recorded: Sequence[Artefact], found: Mapping[str, Artefact]) -> Iterator[str]:
    for artefact in recorded:
        known = found.get(artefact.file)
        if known is None:
            yield f"{RECORD} names {artefact.file!r}, which is not there"
        elif (known.size, known.sha256) != (artefact.size, artefact.sha256):
            yield f"{RECORD} describes another {artefact.file}"
