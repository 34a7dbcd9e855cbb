"""Fenced blocks of Markdown pages, and the commands of those that are for a shell.

Runs ``bash -n`` to see where a command ends.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# CommonMark 0.30, 4.5: three or more of one character; a fence in a list is indented.
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^`]*$")
HEADING = re.compile(r"^#{1,6} +(?P<text>.*?)(?: +#+)? *$")
COMMENT = re.compile(r"\s+#\s.*$")
SHELL = "sh"


@dataclass(frozen=True)
class Block:
    """What stands between two fences.

    :param line: of the opening fence, from 1.
    :param heading: the last one above it, empty before the first.
    :param text: without the indentation of the fence.
    """

    page: str
    line: int
    heading: str
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages(root: Path) -> list[str]:
    """Return the pages of a checkout that its readers are led to, by path."""
    found = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    return sorted(path.relative_to(root).as_posix() for path in found)


def read(root: Path) -> list[Block]:
    """Return every block of every page."""
    return [
        block
        for page in pages(root)
        for block in parse(page, (root / page).read_text(encoding="utf-8"))
    ]


def parse(page: str, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page.

    :raises ValueError: one has no end.
    """
    heading = ""
    lines = enumerate(text.split("\n"), 1)
    for number, line in lines:
        if found := HEADING.match(line):
            heading = found["text"]
        opening = FENCE.match(line)
        if opening is None:
            continue
        inside: list[str] = []
        for _, content in lines:
            if _closes(content, opening["fence"]):
                break
            inside.append(_outdented(content, len(opening["indent"])))
        else:
            raise ValueError(f"{page}:{number}: the block has no end")
        whole = "".join(f"{content}\n" for content in inside)
        yield Block(page, number, heading, opening["language"], whole)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip(" ")
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _outdented(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip(" "))) :]


def commands(block: Block) -> list[str]:
    """Return the commands of a block as a shell reads them, each with all of its lines.

    :raises ValueError: the last one has no end, or something is no command.
    """
    found: list[str] = []
    lines: list[str] = []
    for line in block.text.splitlines():
        if not lines and (not line.strip() or line.lstrip().startswith("#")):
            continue
        lines.append(line)
        if _is_whole("\n".join(lines)):
            found.append("\n".join(lines))
            lines = []
    if lines:
        raise ValueError(f"{block.place}: no end, or no shell command: {' '.join(lines)}")
    return found


def _is_whole(text: str) -> bool:
    # bash alone tells of a here-document without an end.
    checked = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False
    )
    return checked.returncode == 0 and not checked.stderr and not text.endswith("\\")


def bare(command: str) -> str:
    """Return a command of one line without its comment."""
    return COMMENT.sub("", command)
