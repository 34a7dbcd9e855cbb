"""The manual as HTML, by Sphinx.

Program: ``python -m sphinx`` of the environment that the build runs in. Every warning is an error.
The bytes depend on the pages, the version, and what ``requirements.txt`` locks (ADR 29).
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import CommandError, DocumentError
from buildchain.core.layout import Layout
from buildchain.manual import links, pages

SETTINGS = "docs/site"  # conf.py, stylesheet, chapters
LOCK = "requirements.txt"
# Where Sphinx says that something is wrong: <file>:<line>: WARNING: <sentence> [<kind>]
WARNING = re.compile(
    r"(?:(?P<file>/\S+?\.\w+):(?:(?P<line>\d+):)?\s*)?(?:WARNING|ERROR|CRITICAL): (?P<text>.*)"
)
# Distributions that parts of the site come from: which.
THEIRS = {
    "sphinx": "scripts and styles of these pages",
    "snowballstemmer": "how search finds other forms of a word",
}
# What Sphinx says, in words of the checkout.
SAID = (
    (
        re.compile(r"'myst' cross-reference target not found: '(.*?)'.*"),
        r"\1 is linked to, and is not there",
    ),
    (
        re.compile(r"local id not found in doc '.*?': '(.*?)'.*"),
        r"the other page has no anchor #\1",
    ),
    (re.compile(r"image file not readable: (\S+).*"), r"\1 is shown, and is not there"),
    (
        re.compile(r"document isn't included in any toctree.*"),
        f"{pages.CHAPTERS} has it in no chapter",
    ),
)
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def inputs(layout: Layout, manual: Sequence[Path]) -> tuple[Path, ...]:
    """Return every file that decides what the site is."""
    root = layout.root
    settings = (path for path in (root / SETTINGS).rglob("*") if path.is_file())
    beside = (root / name for name in (*pages.BESIDE, LOCK))
    return tuple(sorted({*manual, *settings, *beside}))


def build(layout: Layout, manual: Sequence[Path], version: str, folder: Path) -> None:
    """Make the site.

    :param manual: pages and pictures of the manual.
    :param folder: it is made.
    :raises DocumentError: naming every dead link, missing anchor, page without a chapter, …
    """
    with layout.scratch("manual") as place:
        source, made = Path(place, "source"), Path(place, "html")
        problems = stage(layout.root, manual, source)
        problems += _render(layout.root / SETTINGS, source, made, version)
        if not problems:
            found = links.Site(made)
            problems = found.problems
            for name in found.left_over():
                (made / name).unlink()
        if problems:
            raise DocumentError(
                f"the manual has mistakes: {len(problems)}", details="\n".join(problems)
            )
        _copy(made, folder)


def stage(root: Path, manual: Sequence[Path], source: Path) -> list[str]:
    """Lay the pages out as Sphinx reads them; return what is wrong with chapters and headings."""
    chapters = pages.chapters(root / pages.CHAPTERS)
    names = sorted({*(path.relative_to(root).as_posix() for path in manual), *pages.BESIDE})
    problems = [
        f"{pages.CHAPTERS} names {page}, which is not there"
        for page in pages.missing(chapters, names)
    ]
    for name in names:
        target = source / pages.place(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".md":
            shutil.copyfile(root / name, target)
            continue
        text = (root / name).read_text(encoding="utf-8")
        if not name.endswith(".md"):
            text = _license(text)
        problems += pages.twice(name, text)
        text = pages.relocated(name, text)
        text += pages.spine([c for c in chapters if c.page == name], names)
        target.write_text(text, encoding="utf-8")
    return problems


def _license(text: str) -> str:
    """Return the licence as a page, with those of what the site has of others."""
    theirs = "".join(
        f"\n## {name}: {what}\n\n```text\n{_license_of(name)}\n```\n"
        for name, what in THEIRS.items()
    )
    return f"# Licence\n\n```text\n{text.strip()}\n```\n{theirs}"


def _license_of(name: str) -> str:
    files = importlib.metadata.distribution(name).files or ()
    [file] = [file for file in files if file.name in {"COPYING", "LICENSE.rst"}]
    return file.read_text().strip()


def _render(settings: Path, source: Path, made: Path, version: str) -> list[str]:
    argv: list[str | Path] = [
        sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--nitpicky",
        "--fail-on-warning", "--fresh-env", "--jobs", "1", "--conf-dir", settings,
        "--doctree-dir", made.with_name("doctrees"), "-D", f"version={version}",
        "-D", f"release={version}", source, made,
    ]  # fmt: skip
    said: list[str] = []
    try:
        process.run(argv, cwd=source, env=ENVIRONMENT, on_line=said.append)
    except CommandError:
        problems = [told for line in said if (told := _told(line, source))]
        if not problems:
            raise
        return problems
    return []


def _told(line: str, source: Path) -> str:
    """Return what a line of Sphinx says of a page, by the page's name in the checkout."""
    match = WARNING.match(line)
    if match is None:
        return ""
    file, text = match["file"], match["text"]
    for pattern, words in SAID:
        text = pattern.sub(words, text)
    if file is None or source not in Path(file).parents:
        return text
    name = pages.origin(Path(file).relative_to(source).as_posix())
    where = f"{name}:{match['line']}" if match["line"] else name
    return f"{where}: {text}"


def _copy(made: Path, folder: Path) -> None:
    """Copy files alone, with modes of ours: what is left over is gone, hidden files too."""
    for path in sorted(made.rglob("*")):
        if path.is_file():
            target = folder / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o644)
