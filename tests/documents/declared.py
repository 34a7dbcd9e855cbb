"""How each shell block is run: ``blocks.toml``, and what is wrong with it.

On disk, for each page a table for each of its shell blocks; pages in the order in which those of
one machine are run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.documents import blocks
from tests.documents.blocks import SHELL, Block

TABLE = Path(__file__).with_name("blocks.toml")
# A copy of the checkout with its build; a bare machine with the medium in /root.
PLACES = ("builder", "node")


@dataclass(frozen=True)
class Declared:
    """How one block is run.

    :param run: one of :data:`PLACES`.
    :param given: what a reader has done before it, besides the blocks above.
    :param until: command that goes on in the background to what it says when it is ready.
    :param elsewhere: command to ``file`` or ``file::test`` that runs it instead.
    :param not_run: command to the reason.
    """

    heading: str
    run: str
    given: str = ""
    until: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Typed:
    """A command, and what it says when it is ready, if it goes on in the background."""

    command: str
    until: str = ""


Pages = Mapping[str, Sequence[Declared]]


def load(path: Path = TABLE) -> Pages:
    """Read the table: page to what is declared of its blocks.

    :raises TypeError: an entry has a key that there is not.
    """
    document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: [Declared(**entry) for entry in entries] for name, entries in document.items()}


def problems(root: Path, declared: Pages, found: Sequence[Block]) -> Iterator[str]:
    """Yield what is wrong, a sentence each."""
    for block in found:
        if block.language in ("", "bash", "shell", "console"):
            yield f"{block.place}: a block needs a language: {SHELL} for commands, else text"
    for name in sorted({*declared, *(block.page for block in found)}):
        shell, entries = _shell(found, name), declared.get(name, ())
        ours, theirs = [e.heading for e in entries], [b.heading for b in shell]
        if ours != theirs:
            yield f"{name}: {TABLE.name} has blocks below {ours}, the page below {theirs}"
            continue
        for entry, block in zip(entries, shell, strict=True):
            yield from _problems(root, entry, block)


def _problems(root: Path, entry: Declared, block: Block) -> Iterator[str]:
    if entry.run not in PLACES:
        yield f"{block.place}: {entry.run} is none of {', '.join(PLACES)}"
    bare = [blocks.bare(command) for command in blocks.commands(block)]
    for command in (*entry.elsewhere, *entry.not_run, *entry.until):
        if command not in bare:
            yield f"{block.place}: {TABLE.name} excepts {command!r}, which is not there"
    for command, where in entry.elsewhere.items():
        file, _, test = where.partition("::")
        text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
        if (f"def {test}(" if test else command) not in text:
            yield f"{block.place}: {command!r} is not run by {where}"


def _shell(found: Sequence[Block], page: str) -> list[Block]:
    return [block for block in found if block.page == page and block.language == SHELL]


def to_run(declared: Pages, page: str, place: str, found: Sequence[Block]) -> Iterator[Typed]:
    """Yield the commands of a page that are run at a place, in their order."""
    for entry, block in zip(declared[page], _shell(found, page), strict=True):
        if entry.run != place:
            continue
        if entry.given:
            yield Typed(entry.given)
        for command in blocks.commands(block):
            bare = blocks.bare(command)
            if bare not in {**entry.elsewhere, **entry.not_run}:
                yield Typed(command, entry.until.get(bare, ""))
