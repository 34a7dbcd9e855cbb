"""What a release changes, as ``CHANGELOG.md`` tells it.

A section for each version, newest first, the date once it is released::

    ## 2.4.0 (2026-12-01)

    - …
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

NAME = "CHANGELOG.md"
HEADING = re.compile(r"## (\S+)(?: \((.*)\))?")
FENCE = "```"


@dataclass(frozen=True)
class Section:
    """What is said of one version.

    :param state: what stands in brackets behind it: the date, or that there is none yet.
    :param text: the lines below the heading.
    """

    version: str
    state: str
    text: str

    @property
    def is_released(self) -> bool:
        """Tell whether it has the date of a release."""
        try:
            date = datetime.date.fromisoformat(self.state)
        except ValueError:
            return False
        return date.isoformat() == self.state


def sections(text: str) -> tuple[Section, ...]:
    """Return the sections of a list of changes, in its order."""
    found: list[tuple[str, str, list[str]]] = []
    for line, is_code in _lines(text):
        match = None if is_code else HEADING.fullmatch(line)
        if match:
            found.append((match[1], match[2] or "", []))
        elif found:
            found[-1][2].append(line)
    return tuple(Section(v, state, "\n".join(lines).strip()) for v, state, lines in found)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is within a block of code."""
    is_code = False
    for line in text.splitlines():
        if line.startswith(FENCE):
            is_code = not is_code
        yield line.rstrip(), is_code


def find(text: str, version: str) -> Section | None:
    """Return the section of a version; ``None`` when it has none."""
    return next((section for section in sections(text) if section.version == version), None)


def page(project: str, section: Section) -> str:
    """Return a section as a page of its own."""
    return f"# {project} {section.version} ({section.state})\n\n{section.text}\n"
