"""Pages of a medium: what they link to, and that everything which names a page names one there.

A reader begins with one of :data:`FIRST`, in a terminal or a browser; what no page leads to would
never be found. Scripts and states name pages as ``docs/<path>``.
"""

from __future__ import annotations

import posixpath
import re

from buildchain.manual.pages import ELSEWHERE, LINK
from buildchain.proof.medium_check import Check

FIRST = ("docs/README.md", "docs/html/index.html")
# How a page names what it leads to and what it is shown with, by how its own name ends.
LINKS = {
    ".md": LINK,
    ".html": re.compile(r'\s(?:action|href|src)="([^"#?]+)'),
    ".css": re.compile(r"url\(\s*['\"]?([^'\")#?]+)"),
}
NAMED = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")
NAMING = (".j2", ".jinja", ".py", ".sh", ".sls", ".yaml")


def follow(check: Check) -> None:
    """Want every page that can be reached, and every page that anything else names."""
    waiting, seen = list(FIRST), set(FIRST)
    while waiting:
        page = waiting.pop()
        found = links(page, check.text(page) or "") - seen
        seen |= found
        for target in sorted(found):
            inside = _below(check, target)
            for path in inside or [target]:
                check.want(path, page)
            waiting += inside or [target]
    for path in sorted(check.paths):
        if path.endswith(NAMING) and not path.startswith(("images/", "packages/")):
            for name in NAMED.findall(check.text(path) or ""):
                check.want(name, path)


def links(page: str, text: str) -> set[str]:
    """Return the files and folders of the medium that a page links to."""
    folder, (_, kind) = posixpath.dirname(page), posixpath.splitext(page)
    return {
        posixpath.normpath(posixpath.join(folder, target))
        for target in (LINKS[kind].findall(text) if kind in LINKS else ())
        if not ELSEWHERE.match(target)
    }


def _below(check: Check, folder: str) -> list[str]:
    return sorted(path for path in check.paths if path.startswith(f"{folder}/"))
