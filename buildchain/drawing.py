"""``./doit.sh graph``: a command of doit, as ``list`` is one, that draws what a task needs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from doit.cmd_base import DoitCmdBase

from buildchain.core.receipt import write_whole
from buildchain.manual import graph
from buildchain.project.context import CALLED_FROM

DRAWING = Path("docs/reference/tasks.svg")
TITLE = "What the ISO is made by"


def steps(tasks: Iterable[Any]) -> tuple[graph.Edges, dict[str, frozenset[str]]]:
    """Return which step needs which, items as one, and what every group stands for.

    Steps have names that begin with ``_``.
    """
    tasks = list(tasks)
    makers = {target: task.name for task in tasks for target in task.targets}
    edges: defaultdict[str, set[str]] = defaultdict(set)
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for task in tasks:
        needs = {makers[file] for file in task.file_dep if file in makers} | set(task.task_dep)
        found = {name.partition(":")[0] for name in needs if name.startswith("_")}
        (edges if task.name.startswith("_") else groups)[task.name.partition(":")[0]] |= found
    return (
        {name: frozenset(needs) for name, needs in edges.items()},
        {name: frozenset(needs) for name, needs in groups.items()},
    )


class Graph(DoitCmdBase):  # type: ignore[misc]
    """Draw what the ISO is made by."""

    name = "graph"
    doc_purpose = "draw what the ISO is made by, as SVG"
    doc_usage = ""
    doc_description = f"Writes {DRAWING}, which the manual shows."
    cmd_options = (
        {
            "name": "output",
            "short": "o",
            "long": "output",
            "default": "",
            "help": f"another file than {DRAWING}",
        },
    )

    def _execute(self, output: str) -> int:
        edges, groups = steps(self.task_list)
        drawn = graph.svg(graph.needed(edges, sorted(groups["iso"])), TITLE)
        path = Path(os.environ.get(CALLED_FROM, "."), output) if output else DRAWING
        write_whole(path, drawn)
        return 0
