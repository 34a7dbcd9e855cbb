"""What is said of known vulnerabilities, compared with what is pinned, and written as a page.

A fix is a patch that is there or a version that the pins have; an open record is of a version that
is affected. That a release has nothing open above its level is for :func:`refuse`.
"""

from __future__ import annotations

import operator
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from buildchain.core.errors import ContentError, PinError
from buildchain.core.layout import Layout
from buildchain.debian import lock
from buildchain.debian import version as debian_version
from buildchain.packages import bundles
from buildchain.project.catalog import Catalog
from buildchain.project.model import DebianFile, Package
from buildchain.project.vulnerabilities import FIXED, NOT_AFFECTED, OPEN, Record, Table

TITLES = {OPEN: "open", NOT_AFFECTED: "not affected", FIXED: "fixed"}
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Pinned:
    """Version of a component.

    :param version: as it is pinned, in Debian's form where it is Debian's.
    :param authors: what its authors call it.
    """

    version: str
    authors: str


def pinned(layout: Layout, profile: str, catalog: Catalog) -> dict[str, Pinned]:
    """Return the version of everything that a record can be about, by name.

    Debian packages by their own names, our packages and images by ours, Python distributions by
    theirs; in that order, the later win.
    """
    found: dict[str, Pinned] = {}
    for entry in lock.read(layout.pins / profile / "debian.lock", DebianFile).values():
        for file in entry.packages:
            found[file.name] = Pinned(file.version, debian_version.upstream(file.version))
    for image in catalog.images:
        if image.version_of in found:
            found[image.name] = found[image.version_of]
    for package in catalog.packages:
        version = package.sources[0].version if package.sources else package.version
        found[package.name] = Pinned(version, package.version)
        found |= _wheels(layout, package)
    return found


def _wheels(layout: Layout, package: Package) -> Iterator[tuple[str, Pinned]]:
    """Yield the Python distributions of a package."""
    if not package.wheels:
        return
    for file in bundles.read_wheels(layout.package_sources(package.name) / package.wheels):
        parse = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
        name, version, *_ = parse(file)
        if name != package.name:
            yield str(name), Pinned(str(version), str(version))


def prove(layout: Layout, table: Table, components: Mapping[str, Pinned]) -> None:
    """Check that what the table says of the pins is true.

    :raises PinError: naming every record that is not.
    """
    problems = [
        f"{record.id} of {record.component}: {problem}"
        for record in table.records
        for problem in _problems(layout, record, components)
    ]
    if problems:
        raise PinError(
            f"buildchain/pins/vulnerabilities.toml: {len(problems)} records do not match the pins",
            details="\n".join(problems),
            solution="Correct the records, or add the patch or the version that they name.",
        )


def _problems(layout: Layout, record: Record, components: Mapping[str, Pinned]) -> Iterator[str]:
    component = components.get(record.component)
    if component is None:
        yield "no such package, image or Python distribution is pinned"
        return
    if record.status == OPEN and not _is_within(component.authors, record.affected):
        yield f"{component.authors} is pinned, which is not affected ({record.affected})"
    if record.since and _order(component.version) < _order(record.since):
        yield f"{component.version} is pinned, {record.since} is the first with the fix"
    if record.patch:
        yield from _patch_problems(layout, record)


def _patch_problems(layout: Layout, record: Record) -> Iterator[str]:
    """Look for a patch among ours, then in Debian's series where its source has been fetched."""
    if (layout.package_sources(record.component) / "patches" / record.patch).is_file():
        return
    if not record.since:
        yield f"packages/{record.component}/patches has no {record.patch}"
    series = _series(layout.package(record.component) / "SOURCES")
    if series is not None and record.patch not in series:
        yield f"Debian's series has no {record.patch}"


def _series(folder: Path) -> frozenset[str] | None:
    """Return the names of Debian's patches; ``None`` where there is no source yet."""
    names: set[str] = set()
    archives = sorted(folder.glob("*.debian.tar.*"))
    for path in archives:
        with tarfile.open(path) as archive:
            file = archive.extractfile("debian/patches/series")
            lines = file.read().decode().splitlines() if file else []
        names.update(line.split("#")[0].strip() for line in lines)
    return frozenset(names - {""}) if archives else None


def _is_within(version: str, ranges: str) -> bool:
    """Tell whether a version is within ``>= 1.2, < 1.3 or = 1.4``."""
    return any(
        all(
            _ORDERS[sign](_order(version), _order(bound))
            for sign, _, bound in (part.partition(" ") for part in group.split(", "))
        )
        for group in ranges.split(" or ")
    )


def _order(version: str) -> debian_version.Key:
    return debian_version.key(version)


def refuse(table: Table) -> None:
    """Stop what would be a release with something open above the accepted level.

    :raises ContentError: naming all of it.
    """
    if table.refused:
        raise ContentError(
            f"a release accepts open vulnerabilities up to level {table.accepts}, "
            f"{len(table.refused)} are above",
            details="\n".join(
                f"{record.id} of {record.component}, {_severity(record)}: {record.title}"
                for record in table.refused
            ),
            solution="Close them, give a reason (accepted) in buildchain/pins/vulnerabilities.toml,"
            " or unset SIGNING_KEY for a development build.",
        )


def page(table: Table, components: Mapping[str, Pinned]) -> str:
    """Return the table as Markdown."""
    counts = {status: sum(r.status == status for r in table.records) for status in TITLES}
    lines = [
        "# Known vulnerabilities",
        "",
        "Made from `buildchain/pins/vulnerabilities.toml` by",
        "`METALK8S_UPDATE_GOLDEN=1 pytest tests/unit/proof/test_vulnerabilities.py`; do not edit.",
        "",
        f"{counts[FIXED]} fixed, {counts[NOT_AFFECTED]} not affecting what is shipped, "
        f"{counts[OPEN]} open. A release refuses open ones above level",
        f"**{table.accepts}**, unless the table says why one is accepted. Without a rating, the "
        "worst is assumed.",
        "A score is the CVSS base score of whoever assigned the number.",
    ]
    for name in sorted({record.component for record in table.records}):
        lines += ["", f"## {name} {components[name].version}", *_rows(table, name)]
    return "\n".join(lines) + "\n"


def _rows(table: Table, component: str) -> list[str]:
    order = list(TITLES)
    records = sorted(
        (record for record in table.records if record.component == component),
        key=lambda record: (order.index(record.status), -record.rank, _numbers(record.id)),
    )
    rows = ["", "| vulnerability | severity | affected | status |", "|---|---|---|---|"]
    return rows + [
        f"| {record.id}: {record.title} | {_severity(record)} | {record.affected} "
        f"| **{TITLES[record.status]}**: {_statement(record)} |"
        for record in records
    ]


def _numbers(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"\W", name)]


def _severity(record: Record) -> str:
    return f"{record.level} {record.score}" if record.score else record.level


def _statement(record: Record) -> str:
    if record.status == NOT_AFFECTED:
        return record.why
    if record.status == FIXED:
        by = f"`{record.patch}`" if record.patch else ""
        since = f"since {record.since}" if record.since else ""
        return ", ".join(part for part in (by, since) if part)
    accepted = f" Accepted: {record.accepted}" if record.accepted else ""
    return f"{record.means} {record.lessens}{accepted}"
