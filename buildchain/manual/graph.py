"""Steps and what each needs, as a drawing: SVG as text, the same for the same steps.

Rows from the top: what needs nothing, then what needs only that, and so on. Steps that need each
other by turns (items of one need items of the other) share a box. An arrow that others imply is
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

Box = tuple[str, ...]  # names of steps, sorted
Edges = Mapping[str, frozenset[str]]  # step to the steps it needs

# Pixels.
CHARACTER, LINE, PADDING, GAP, RISE, MARGIN = 7.3, 16, 8, 24, 44, 12
SWEEPS = 4  # over all rows, to put boxes near what they need


def needed(edges: Edges, start: Iterable[str]) -> Edges:
    """Return steps with everything behind them."""
    reached: dict[str, frozenset[str]] = {}
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = edges.get(name, frozenset()) - {name}
            waiting += reached[name]
    return reached


def boxes(edges: Edges) -> dict[Box, frozenset[Box]]:
    """Return boxes with the boxes they need, without what other arrows imply."""
    behind = {name: frozenset(needed(edges, edges[name])) for name in edges}
    box = {
        name: tuple(sorted({name, *(n for n in behind[name] if name in behind[n])}))
        for name in edges
    }
    wanted = {
        one: {box[need] for name in one for need in edges[name]} - {one} for one in box.values()
    }
    # Of a box, any name stands for all: they reach the same.
    return {
        one: frozenset(
            need
            for need in needs
            if not any(need[0] in behind[other[0]] for other in needs - {need})
        )
        for one, needs in wanted.items()
    }


def rows(found: Mapping[Box, frozenset[Box]]) -> list[list[Box]]:
    """Return boxes in rows, each below everything it needs, near what it has to do with."""
    depth: dict[Box, int] = {}

    def below(box: Box) -> int:
        if box not in depth:
            depth[box] = 1 + max((below(need) for need in found[box]), default=-1)
        return depth[box]

    table: list[list[Box]] = [[] for _ in range(1 + max(map(below, sorted(found)), default=-1))]
    for box in sorted(found):
        table[depth[box]].append(box)
    users = {box: [b for b in sorted(found) if box in found[b]] for box in found}
    for sweep in range(SWEEPS):
        place = {box: (n + 0.5) / len(row) for row in table for n, box in enumerate(row)}
        near = found if sweep % 2 == 0 else users
        for row in table:
            row.sort(key=lambda box: (_mean([place[n] for n in near[box]], place[box]), box))
    return table


def _mean(numbers: list[float], otherwise: float) -> float:
    return round(sum(sorted(numbers)) / len(numbers), 6) if numbers else otherwise


@dataclass(frozen=True)
class _Place:
    x: float
    y: float
    width: float
    height: float


def svg(edges: Edges, title: str) -> str:
    """Draw steps and what each needs."""
    found = boxes(edges)
    places, width, height = _places(rows(found))
    arrows = [
        _arrow(places[need], places[box]) for box in sorted(found) for need in sorted(found[box])
    ]
    drawn = [_box(box, places[box]) for box in sorted(found)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            '<g fill="none" stroke="#7a8794" stroke-width="1.2">',
            *arrows,
            "</g>",
            *drawn,
            "</svg>",
            "",
        ]
    )


def _places(table: list[list[Box]]) -> tuple[dict[Box, _Place], float, float]:
    sizes = {
        box: (max(map(len, box)) * CHARACTER + 2 * PADDING, len(box) * LINE + PADDING)
        for row in table
        for box in row
    }
    widths = [sum(sizes[box][0] for box in row) + GAP * (len(row) - 1) for row in table]
    widest = max(widths, default=0.0)
    places: dict[Box, _Place] = {}
    y = float(MARGIN)
    for row, wide in zip(table, widths, strict=True):
        x = MARGIN + (widest - wide) / 2
        for box in row:
            places[box] = _Place(x, y, *sizes[box])
            x += sizes[box][0] + GAP
        y += max(sizes[box][1] for box in row) + RISE
    return places, widest + 2 * MARGIN, y - RISE + MARGIN if table else 2.0 * MARGIN


def _arrow(start: _Place, end: _Place) -> str:
    x1, y1 = start.x + start.width / 2, start.y + start.height
    x2, y2 = end.x + end.width / 2, end.y
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}'
        f'm-3.5 -7l3.5 7l3.5 -7"/>'
    )


def _box(names: Box, at: _Place) -> str:
    middle = at.x + at.width / 2
    lines = "".join(
        f'<text x="{middle:.1f}" y="{at.y + PADDING / 2 + LINE * (n + 0.75):.1f}" '
        f'text-anchor="middle">{escape(name)}</text>'
        for n, name in enumerate(names)
    )
    return (
        f'<rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" '
        f'rx="4" fill="#eef3f8" stroke="#44617d"/>{lines}'
    )
