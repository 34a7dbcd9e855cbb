"""The table of known vulnerabilities of what is shipped, ``pins/vulnerabilities.toml``.

One record for each vulnerability and component::

    [release]
    accepts = "medium"              # the highest level that may be open in a release

    [[vulnerability]]
    id = "CVE-2021-25741"
    component = "kubernetes"        # a package, an image or a Python distribution of the pins
    title = "…"
    affected = ">= 1.20.0, < 1.20.11 or < 1.19.15"
    level = "high"
    score = 8.8                     # CVSS base score; left out where nobody published one
    status = "fixed"                # or "not-affected" or "open"

and what a status needs (:data:`NEEDED`). An open record above the level needs ``accepted``, the
reason why a release may have it all the same.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from buildchain.core.errors import PinError

NAME = "vulnerabilities.toml"
# Level to its lowest CVSS base score (specification 3.1, section 5). Without a rating, the worst is
# assumed.
LEVELS: Mapping[str, float] = {"low": 0.1, "medium": 4.0, "high": 7.0, "critical": 9.0}
UNRATED = "unrated"
FIXED, NOT_AFFECTED, OPEN = "fixed", "not-affected", "open"
# Status to the keys that it needs, all of one of the groups, and those that it may have.
NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    FIXED: (("patch",), ("since",)),
    NOT_AFFECTED: (("why",),),
    OPEN: (("means", "lessens"),),
}
MAY: Mapping[str, tuple[str, ...]] = {
    FIXED: ("patch", "since"),
    NOT_AFFECTED: ("why",),
    OPEN: ("means", "lessens", "accepted"),
}
ID = re.compile(r"CVE-\d{4}-\d{4,}|GHSA(-[23456789cfghjmpqrvwx]{4}){3}")
_BOUND = r"(>=|<=|<|>|=) [0-9][0-9A-Za-z.+~-]*"
RANGES = re.compile(rf"{_BOUND}(, {_BOUND})*( or {_BOUND}(, {_BOUND})*)*")


@dataclass(frozen=True)
class Record:
    """What one vulnerability means for one component.

    :param affected: versions of its authors, ``>= 1.2, < 1.3 or = 1.4``.
    :param patch: name of a file of ours or of Debian's series that mends it.
    :param since: lowest pinned version that has the fix.
    :param why: a sentence that can be checked.
    :param means: what it means for a site.
    :param lessens: what makes it less likely or less bad.
    :param accepted: why a release may have it open.
    """

    id: str
    component: str
    title: str
    affected: str
    level: str
    status: str
    score: float = 0.0
    patch: str = ""
    since: str = ""
    why: str = ""
    means: str = ""
    lessens: str = ""
    accepted: str = ""

    @property
    def rank(self) -> int:
        """Position of the level, from 0; without a rating: the highest."""
        return rank(self.level)


@dataclass(frozen=True)
class Table:
    """All records, and the highest level that may be open in a release."""

    accepts: str
    records: tuple[Record, ...]

    @property
    def refused(self) -> tuple[Record, ...]:
        """Open records that no release may have."""
        return tuple(
            record
            for record in self.records
            if record.status == OPEN and record.rank > rank(self.accepts) and not record.accepted
        )


def rank(level: str) -> int:
    """Return the position of a level, from 0; without a rating: the highest."""
    return len(LEVELS) - 1 if level == UNRATED else list(LEVELS).index(level)


def read(pins: Path) -> Table:
    """Read the table.

    :param pins: the folder of the pins.
    :raises PinError: naming every record that is not well-formed.
    """
    path = pins / NAME
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PinError(f"{path}: {error.strerror}", solution="Restore it from git.") from error
    except ValueError as error:
        raise PinError(f"{path}: {error}", solution="Correct the file.") from error
    problems = list(_document_problems(document))
    if problems:
        raise PinError(f"{path}: {'; '.join(problems)}", solution="Correct the file.")
    found = tuple(Record(**table) for table in document["vulnerability"])
    return Table(document["release"]["accepts"], found)


def _document_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with the file; nothing is taken for granted."""
    yield from (f"unknown key {key}" for key in document if key not in ("release", "vulnerability"))
    release, tables = document.get("release"), document.get("vulnerability")
    if not isinstance(release, dict) or set(release) != {"accepts"}:
        yield "[release]: expected the key accepts alone"
    elif release["accepts"] not in LEVELS:
        yield f"[release]: accepts: expected one of {', '.join(LEVELS)}"
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        yield "expected tables [[vulnerability]]"
        return
    for table in tables:
        where = f"{table.get('id', '?')} of {table.get('component', '?')}"
        yield from (f"{where}: {problem}" for problem in _problems(table))
    counts = Counter((str(table.get("id")), str(table.get("component"))) for table in tables)
    yield from (f"{key} of {of} is there {n} times" for (key, of), n in counts.items() if n > 1)


def _problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with one record."""
    known = {field.name: field for field in fields(Record)}
    yield from (f"unknown key {key}" for key in table if key not in known)
    yield from (
        f"{key} is missing"
        for key in ("id", "component", "title", "affected", "level", "status")
        if key not in table
    )
    wrong = [
        f"{key}: expected a {'number' if key == 'score' else 'text'}"
        for key, value in table.items()
        if key in known and not _fits(key, value)
    ]
    yield from wrong
    if not wrong:
        yield from _form_problems(table)
        yield from _level_problems(table)
        yield from _status_problems(table)


def _fits(key: str, value: object) -> bool:
    if key == "score":
        return isinstance(value, float)
    return isinstance(value, str) and value.strip() == value != ""


def _form_problems(table: Mapping[str, Any]) -> Iterator[str]:
    if not ID.fullmatch(table.get("id", "CVE-1999-0001")):
        yield "id: expected CVE-<year>-<number> or GHSA-<xxxx>-<xxxx>-<xxxx>"
    if not RANGES.fullmatch(table.get("affected", "= 0")):
        yield "affected: expected `>= 1.2, < 1.3 or = 1.4`"


def _level_problems(table: Mapping[str, Any]) -> Iterator[str]:
    level, score = table.get("level", UNRATED), table.get("score")
    if level not in (*LEVELS, UNRATED):
        yield f"level: expected one of {', '.join((*LEVELS, UNRATED))}"
    elif score is not None:
        of_score = [name for name, lowest in LEVELS.items() if score >= lowest]
        if score > 10 or not of_score or of_score[-1] != level:
            yield f"score {score} is not of level {level}"


def _status_problems(table: Mapping[str, Any]) -> Iterator[str]:
    status = table.get("status", OPEN)
    if status not in NEEDED:
        yield f"status: expected one of {', '.join(NEEDED)}"
        return
    groups = NEEDED[status]
    if "status" in table and not any(all(key in table for key in group) for group in groups):
        yield f"{status} needs {' or '.join(' and '.join(group) for group in groups)}"
    others = {key for keys in MAY.values() for key in keys} - set(MAY[status])
    yield from (f"{status} has no {key}" for key in sorted(others & set(table)))
