"""``MANIFEST``, the list of everything on a medium.

On disk, after some ``#name=value``, sorted by path, sizes in bytes; ``salt/scripts/verify.sh``
reads it too::

    <SHA-256 or -> <f or d> <mode> <size> <path>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from buildchain.core.errors import ContentError

NAME = "MANIFEST"
FOLDER, FILE = "d", "f"
NO_DIGEST = "-"
UNLISTABLE = re.compile(r"[\\\x00-\x1f\x7f]")
LINE = re.compile(
    r"(?P<digest>-|[0-9a-f]{64}) (?P<kind>[df]) (?P<mode>[0-7]{4}) (?P<size>\d+) (.+)"
)


@dataclass(frozen=True)
class Entry:
    """A file or a folder.

    :param digest: SHA-256 of a file, ``-`` of a folder.
    :param kind: ``f`` or ``d``.
    """

    path: str
    digest: str
    kind: str
    mode: int
    size: int


@dataclass(frozen=True)
class Listing:
    """What ``MANIFEST`` says.

    :param facts: name and version of the medium.
    """

    facts: Mapping[str, str]
    entries: tuple[Entry, ...]

    @property
    def files(self) -> dict[str, Entry]:
        """Files by path."""
        return {entry.path: entry for entry in self.entries if entry.kind == FILE}


def text(facts: Mapping[str, str], entries: Iterable[Entry]) -> str:
    """Return the text of a list.

    :raises ContentError: a path cannot be listed on a line.
    """
    lines = [f"#{name}={value}\n" for name, value in facts.items()]
    for entry in sorted(entries, key=lambda entry: entry.path):
        if UNLISTABLE.search(entry.path):
            raise ContentError(
                f"{entry.path!r} on the ISO: a backslash or control character in a name"
            )
        lines.append(f"{entry.digest} {entry.kind} {entry.mode:04o} {entry.size} {entry.path}\n")
    return "".join(lines)


def parse(content: str, origin: str) -> Listing:
    """Read a list.

    :param origin: where it is, for the error.
    :raises ContentError: naming the first line that is none.
    """
    facts, entries = {}, []
    for number, line in enumerate(content.splitlines(), 1):
        if line.startswith("#"):
            name, _, value = line[1:].partition("=")
            facts[name] = value
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise ContentError(
                f"{NAME} of {origin}, line {number}: not what we write: {line[:80]!r}",
                solution="Check the medium with verify.sh, then get it again.",
            )
        mode, size = int(match["mode"], 8), int(match["size"])
        entries.append(Entry(match[5], match["digest"], match["kind"], mode, size))
    return Listing(facts, tuple(entries))
