"""Parts of a medium: which outputs of a step go where on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.errors import ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Output


@dataclass(frozen=True)
class Part:
    """Where the outputs of a step go on the ISO.

    :param receipt: what was made.
    :param source: folder or file of the build root it is taken from.
    :param target: place on the ISO, relative to its root.
    """

    receipt: Path
    source: Path
    target: str


def placement(layout: Layout, parts: Iterable[Part]) -> dict[str, Output]:
    """Return what will be where on a medium.

    :raises ContentError: two parts want the same path.
    """
    placed: dict[str, Output] = {}
    for part in parts:
        for output in receipt.read(part.receipt).outputs:
            source = layout.build / output.path
            if source != part.source and part.source not in source.parents:
                continue
            target = _target(part, source)
            if target in placed:
                raise ContentError(f"two files claim the path {target} on the ISO")
            placed[target] = output
    return placed


def _target(part: Part, source: Path) -> str:
    if source == part.source:
        return part.target
    return (Path(part.target) / source.relative_to(part.source)).as_posix()
