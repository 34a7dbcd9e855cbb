"""The pages of the manual as one folder: those of ``docs``, and those that stand beside it.

On disk, ``docs/site/chapters.toml``: the chapters in their order, each with its pages.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.errors import BuildError

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
ELSEWHERE = re.compile(r"[a-z]+:")  # https:, mailto:, data:

CHAPTERS = "docs/site/chapters.toml"
FIRST = "docs/README.md"
# What is called otherwise in the site than in the checkout; the rest of docs keeps its place.
CALLED: Mapping[str, str] = {
    FIRST: "index.md",
    "README.md": "introduction.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
}
BESIDE = tuple(name for name in CALLED if name != FIRST)
FENCE = re.compile(r"^ *(`{3,}|~{3,})")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$")


@dataclass(frozen=True)
class Chapter:
    """A chapter: its title, and its pages by their names in the checkout.

    :param page: whose chapter it is.
    """

    title: str
    pages: tuple[str, ...]
    page: str = FIRST


def chapters(path: Path) -> tuple[Chapter, ...]:
    """Read the chapters.

    :raises BuildError: it is no such file.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))["chapters"]
        return tuple(
            Chapter(
                chapter["title"],
                tuple(map(_named, chapter["pages"])),
                _named(chapter["page"]) if "page" in chapter else FIRST,
            )
            for chapter in found
        )
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise BuildError(
            f"{path} has no chapters: {error}",
            solution="Restore it from git; each chapter has a title and a list of pages.",
        ) from error


def _named(page: str) -> str:
    return posixpath.normpath(f"docs/{page}")


def place(name: str) -> str:
    """Return where a file of the checkout is in the site."""
    return CALLED.get(name, name.removeprefix("docs/"))


def origin(place_: str) -> str:
    """Return which file of the checkout stands at a place of the site."""
    return next((n for n, p in CALLED.items() if p == place_), f"docs/{place_}")


def relocated(name: str, text: str) -> str:
    """Return a page with its links as they are in the site."""
    here, there = posixpath.dirname(name), posixpath.dirname(place(name))

    def link(match: re.Match[str]) -> str:
        target = match[1]
        if ELSEWHERE.match(target):
            return match[0]
        moved = place(posixpath.normpath(posixpath.join(here, target)))
        relative = posixpath.relpath(moved, there or ".")
        return match[0].replace(f"]({target}", f"]({relative}", 1)

    return LINK.sub(link, text)


def spine(found: Sequence[Chapter], names: Sequence[str]) -> str:
    """Return navigation, as the end of a page: a list of pages for each chapter.

    :param names: pages that there are, in the checkout.
    """
    lines = []
    for chapter in found:
        lines += ["", "```{toctree}", ":hidden:", f":caption: {chapter.title}", ""]
        for page in chapter.pages:
            fitting = sorted(fnmatch.filter(names, page))
            lines += ["/" + place(name).removesuffix(".md") for name in fitting]
        lines.append("```")
    return "\n".join([*lines, ""]) if lines else ""


def missing(found: Sequence[Chapter], names: Sequence[str]) -> list[str]:
    """Return the pages of chapters, and whose chapters they are, that no name fits."""
    wanted = (page for chapter in found for page in (chapter.page, *chapter.pages))
    return [page for page in dict.fromkeys(wanted) if not fnmatch.filter(names, page)]


def headings(text: str) -> Iterator[str]:
    """Yield the headings of a page."""
    fence = ""
    for line in text.splitlines():
        if match := FENCE.match(line):
            if not fence:
                fence = match[1]
            elif line.strip().startswith(fence):
                fence = ""
        elif not fence and (match := HEADING.match(line)):
            yield match[1]


def twice(name: str, text: str) -> list[str]:
    """Return, as sentences, which headings of a page a link cannot tell apart."""
    counts = Counter(slug(heading) for heading in headings(text))
    return [
        f"{name}: {number} headings have the anchor #{anchor}"
        for anchor, number in counts.items()
        if number > 1
    ]


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
