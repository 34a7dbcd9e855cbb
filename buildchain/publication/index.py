"""The index of releases: which there are at a place, and in which channels.

On disk: ``releases.json``, sorted JSON::

    {"schema": 1, "name": "metalk8s", "serial": 7, "date": <seconds since 1970>,
     "channels": {"candidate": "2.4.1", "stable": "2.4.0"},
     "releases": [{"version": "2.4.1", "channels": ["candidate"], "date": …, "bases": ["2.4.0"],
                   "artefacts": [{"file": …, "kind": …, "size": <bytes>, "sha256": …}]}],
     "withdrawn": ["2.3.0"]}

Nothing in here trusts what it reads: names that leave a folder, sizes beyond reason and channels
that do not fit the releases are refused.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from buildchain.core.errors import ConfigError

NAME = "releases.json"
SCHEMA = 1
CHANNELS = ("candidate", "stable")
LARGEST = 16 << 20  # bytes of an index
LARGEST_FILE = 1 << 40  # bytes of an artefact
LIST = "SHA256SUM"  # of a release: every other file of it but the signature
SIGNATURE = f"{LIST}.sig"
# What is a file name on every system and means nothing to a shell, a URL or a pattern.
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
VERSION = re.compile(
    r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?:-([0-9A-Za-z.-]{1,64}))?(\+[0-9A-Za-z.-]{1,64})?"
)
DIGEST = re.compile(r"[0-9a-f]{64}")
LAST = 1 << 62  # serial numbers and dates end somewhere
SHOWN = 10

Order = tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...], str]


@dataclass(frozen=True)
class Artefact:
    """One file of a release; ``size`` in bytes."""

    file: str
    kind: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One release.

    :param date: of its content, seconds since 1970.
    :param bases: versions that its update packs start from.
    """

    version: str
    channels: tuple[str, ...]
    date: int
    artefacts: tuple[Artefact, ...]
    bases: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(artefact.size for artefact in self.artefacts)


@dataclass(frozen=True)
class Index:
    """What a place has.

    :param name: of the product.
    :param serial: goes up by one with every change.
    :param date: when it was signed, seconds since 1970.
    :param withdrawn: versions that were here once.
    """

    name: str
    serial: int = 0
    date: int = 0
    releases: tuple[Entry, ...] = ()
    withdrawn: tuple[str, ...] = ()

    def find(self, version: str) -> Entry | None:
        """Return a release, ``None`` when it is not here."""
        return next((entry for entry in self.releases if entry.version == version), None)

    def newest(self, channel: str) -> Entry | None:
        """Return the highest version of a channel."""
        found = [entry for entry in self.releases if channel in entry.channels]
        return max(found, key=lambda entry: order(entry.version), default=None)

    def with_release(self, entry: Entry) -> Index:
        """Return the index with a release in it, or with one more channel of it."""
        known = self.find(entry.version)
        channels = {*entry.channels, *(known.channels if known else ())}
        new = dataclasses.replace(entry, channels=tuple(sorted(channels)))
        others = [other for other in self.releases if other.version != entry.version]
        withdrawn = tuple(version for version in self.withdrawn if version != entry.version)
        releases = tuple(sorted((*others, new), key=lambda e: order(e.version)))
        return dataclasses.replace(self, releases=releases, withdrawn=withdrawn)

    def keeping(self, count: int) -> Index:
        """Return the index with so many releases of each channel, and what their packs start from.

        :param count: at least 1.
        """
        kept: set[str] = set()
        for channel in CHANNELS:
            versions = [entry.version for entry in self.releases if channel in entry.channels]
            kept.update(sorted(versions, key=order)[-count:])
        # Packs of what stays lead from their bases, which are no use without being there.
        for entry in self.releases:
            if entry.version in kept:
                kept.update(entry.bases)
        releases = tuple(entry for entry in self.releases if entry.version in kept)
        gone = {entry.version for entry in self.releases} - kept
        withdrawn = tuple(sorted({*self.withdrawn, *gone}, key=order))
        return dataclasses.replace(self, releases=releases, withdrawn=withdrawn)

    def text(self) -> bytes:
        """Return the file."""
        newest = {channel: self.newest(channel) for channel in CHANNELS}
        document = {
            "schema": SCHEMA,
            **dataclasses.asdict(self),
            "channels": {name: entry.version for name, entry in newest.items() if entry},
        }
        return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def order(version: str) -> Order:
    """Return what sorts versions as semantic versioning does: a suffix comes before none.

    :raises ValueError: it is no version.
    """
    match = VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version[:80]!r} is no version")
    words = match[4].split(".") if match[4] else []
    suffix = tuple((0, int(w), "") if w.isdigit() else (1, 0, w) for w in words)
    return tuple(int(match[n]) for n in (1, 2, 3)), not words, suffix, match[5] or ""


def resolve(index: Index, wanted: str) -> Entry:
    """Return the release that a version or a channel means.

    :raises ConfigError: there is none.
    """
    entry = index.newest(wanted) if wanted in CHANNELS else index.find(wanted)
    if entry is not None:
        return entry
    versions = ", ".join(entry.version for entry in index.releases[-SHOWN:]) or "nothing"
    if wanted in CHANNELS:
        raise ConfigError(
            f"there is no release in channel {wanted}",
            solution=f"Name another channel or a version; there is {versions}.",
        )
    if wanted in index.withdrawn:
        raise ConfigError(
            f"version {wanted} was withdrawn", solution=f"Name another; there is {versions}."
        )
    what = "version" if VERSION.fullmatch(wanted) else "channel"
    raise ConfigError(
        f"{wanted[:80]!r} is no {what} that there is",
        solution=f"Name a channel ({', '.join(CHANNELS)}) or a version; there is {versions}.",
    )


def parse(content: bytes) -> Index:
    """Read an index.

    :raises ValueError: it is none, naming every bad entry.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"it is no index of schema {SCHEMA}")
    try:
        index = _index(document)
        problems = list(_problems(index))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a value is missing or of another type ({error})") from error
    if problems:
        raise ValueError("; ".join(problems[:SHOWN]))
    if json.loads(index.text()) != document:
        raise ValueError("it says more than an index does, or its channels do not fit its releases")
    return index


def _index(document: dict[str, Any]) -> Index:
    names = ("name", "serial", "date")
    releases, withdrawn = _list(document["releases"]), _list(document["withdrawn"])
    return Index(
        **{name: document[name] for name in names},
        releases=tuple(_entry(entry) for entry in releases),
        withdrawn=tuple(withdrawn),
    )


def _entry(document: dict[str, Any]) -> Entry:
    lists = {name: tuple(_list(document[name])) for name in ("channels", "bases")}
    artefacts = tuple(Artefact(**artefact) for artefact in _list(document["artefacts"]))
    return Entry(
        version=document["version"],
        date=document["date"],
        artefacts=artefacts,
        **lists,
    )


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{str(value)[:40]!r} is no list")
    return value


def _problems(index: Index) -> Iterator[str]:
    if not is_file_name(index.name):
        yield f"name {str(index.name)[:80]!r} is no name"
    for what, number in (("serial", index.serial), ("date", index.date)):
        if not is_number(number, LAST):
            yield f"{what} {str(number)[:80]!r} is no number"
    versions = [entry.version for entry in index.releases]
    named = [*versions, *index.withdrawn]
    bad = [version for version in named if not is_version(version)]
    yield from (f"{str(version)[:80]!r} is no version" for version in bad)
    if not bad and (len({*named}) != len(named) or versions != sorted(versions, key=order)):
        yield "a version is there twice, or they are not in their order"
    for entry in index.releases:
        yield from (f"{str(entry.version)[:80]}: {what}" for what in _entry_problems(entry))


def _entry_problems(entry: Entry) -> Iterator[str]:
    for channel in entry.channels:
        if channel not in CHANNELS:
            yield f"{str(channel)[:80]!r} is no channel"
    if not all(is_version(base) for base in entry.bases):
        yield "a base is no version"
    if not is_number(entry.date, LAST):
        yield "its date is no number"
    yield from artefact_problems(entry.artefacts)
    if missing := {LIST, SIGNATURE} - {artefact.file for artefact in entry.artefacts}:
        yield f"it has no {', '.join(sorted(missing))}"


def artefact_problems(artefacts: Iterable[Artefact]) -> Iterator[str]:
    """Yield what is wrong with the artefacts of a release."""
    seen = set()
    for artefact in artefacts:
        shown = repr(str(artefact.file)[:80])
        if not is_file_name(artefact.file):
            yield f"{shown} is no file name"
        elif artefact.file in seen:
            yield f"{shown} is there twice"
        else:
            seen.add(artefact.file)
        if not isinstance(artefact.kind, str):
            yield f"{shown}: its kind is no word"
        if not is_number(artefact.size, LARGEST_FILE):
            yield f"{shown}: size {str(artefact.size)[:80]} is not to be believed"
        if not isinstance(artefact.sha256, str) or not DIGEST.fullmatch(artefact.sha256):
            yield f"{shown}: its digest is none"


def is_version(value: object) -> bool:
    """Tell whether it is a version."""
    return isinstance(value, str) and VERSION.fullmatch(value) is not None


def is_file_name(value: object) -> bool:
    """Tell whether it names a file in the folder it is used in, and none outside."""
    return isinstance(value, str) and FILE.fullmatch(value) is not None


def is_number(value: object, most: int) -> bool:
    """Tell whether it is a whole number from 0 to ``most``."""
    return type(value) is int and 0 <= value <= most
