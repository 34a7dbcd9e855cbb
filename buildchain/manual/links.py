"""What the pages of a site lead to: everything is there, and nothing is elsewhere.

Sentences and code may name whatever they like, and a reader may follow a link to anywhere; what a
page loads by itself must lie beside it.
"""

from __future__ import annotations

import posixpath
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

FIRST = "index.html"
# Attributes by which a browser loads something without being asked.
LOADED = {"src", "srcset", "poster", "data", "background", "manifest"}
ELSEWHERE = re.compile(r"([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
# A way for a script to ask for more; searchtools.js has one that show_search_summary turns off.
INLINE = re.compile(r"\bhttps?://|\bfetch\(|XMLHttpRequest|\bimport\(")


@dataclass
class Page(HTMLParser):
    """One page: its anchors and what it names.

    :ivar loaded: what a browser loads with it.
    :ivar linked: what a reader can follow.
    """

    anchors: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    inside: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.inside = tag
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.anchors.append(value)
            elif name in LOADED or (tag == "link" and name == "href" and _loads(attrs)):
                self.loaded.append(value)
            elif name in {"href", "action"}:
                self.linked.append(value)
            elif name == "style":
                self.styles.append(value)

    def handle_endtag(self, _tag: str) -> None:
        """Take note that a tag ended."""
        self.inside = ""

    def handle_data(self, data: str) -> None:
        """Take note of what stands in a tag."""
        if self.inside == "style":
            self.styles.append(data)
        elif self.inside == "script":
            self.scripts.append(data)


def _loads(attrs: list[tuple[str, str | None]]) -> bool:
    relations = set((dict(attrs).get("rel") or "").lower().split())
    return not relations <= {"next", "prev", "search", "index", "author", "copyright", "top", "up"}


def read(text: str) -> Page:
    """Return what a page names."""
    page = Page()
    page.feed(text)
    page.close()
    return page


def used(style: str) -> list[str]:
    """Return what a stylesheet loads."""
    return [first or second for first, second in IN_STYLES.findall(style)]


@dataclass
class Site:
    """A folder of HTML.

    :ivar reached: files that a reader or browser gets to from :data:`FIRST`.
    """

    folder: Path
    problems: list[str] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pages = {
            name: read((self.folder / name).read_text(encoding="utf-8"))
            for name in sorted(self._files())
            if name.endswith(".html")
        }
        self._follow()
        for name, page in self.pages.items():
            self._look(name, page)

    def _files(self) -> Iterator[str]:
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix()

    def left_over(self) -> list[str]:
        """Return files that nothing leads to."""
        return sorted(set(self._files()) - self.reached)

    def _follow(self) -> None:
        waiting = [FIRST]
        while waiting:
            name = waiting.pop()
            path = self.folder / name
            if name in self.reached or not path.is_file():
                continue
            self.reached.add(name)
            found = [*self._used(name)]
            if name in self.pages:
                found += self.pages[name].linked
            waiting += [inside(name, one)[0] for one in found if not ELSEWHERE.match(one)]

    def _used(self, name: str) -> list[str]:
        if name in self.pages:
            page = self.pages[name]
            return page.loaded + [one for style in page.styles for one in used(style)]
        if name.endswith(".css"):
            return used((self.folder / name).read_text(encoding="utf-8"))
        return []

    def _look(self, name: str, page: Page) -> None:
        if name not in self.reached:
            self.problems.append(f"{name}: no page leads to it")
        for anchor in sorted({a for a in page.anchors if page.anchors.count(a) > 1}):
            self.problems.append(f"{name}: the anchor #{anchor} is there more than once")
        for script in page.scripts:
            if INLINE.search(script):
                self.problems.append(f"{name}: a script of it asks for something else")
        for target in page.linked:
            if not ELSEWHERE.match(target):
                self._arrive(name, target)
        for target in self._used(name):
            self._load(name, target)

    def _load(self, name: str, target: str) -> None:
        if target.startswith("data:"):
            return
        if ELSEWHERE.match(target):
            self.problems.append(f"{name}: {target} is loaded from elsewhere")
            return
        self._arrive(name, target)
        style = inside(name, target)[0]
        if style.endswith(".css") and (self.folder / style).is_file():
            for one in self._used(style):
                self._load(style, one)

    def _arrive(self, name: str, target: str) -> None:
        there, anchor = inside(name, target)
        if not (self.folder / there).is_file():
            self.problems.append(f"{name}: {target} is not there")
        elif anchor and there in self.pages and anchor not in self.pages[there].anchors:
            self.problems.append(f"{name}: {there} has no anchor #{anchor}")


def inside(name: str, target: str) -> tuple[str, str]:
    """Return the file of the site and the anchor that a page names."""
    split = urllib.parse.urlsplit(target)
    path = urllib.parse.unquote(split.path)
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
    return there, urllib.parse.unquote(split.fragment)
