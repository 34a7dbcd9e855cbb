"""The difference between two media.

::

    OLD.iso, NEW.iso ──> diff

Leaves the file that ``--output`` names, or shows the difference. Needs no build.
"""

from __future__ import annotations

import os
from pathlib import Path

from buildchain import events
from buildchain.actions import contents, difference, inventory
from buildchain.errors import ConfigError
from buildchain.receipt import write_whole
from buildchain.targets.step import READING, Task, guarded, title
from buildchain.tasks.context import CALLED_FROM


def task_diff() -> Task:
    """Show what is different between two ISOs."""
    return {
        "basename": "diff",
        "doc": "Show what is different between two ISOs (or mounts): OLD NEW [--output FILE].",
        "title": lambda _task: title("COMPARE", "two media"),
        "meta": READING,
        "actions": [_diff],
        "pos_arg": "media",
        "params": [
            {
                "name": "output",
                "short": "o",
                "long": "output",
                "default": "",
                "help": "write it to a file that ends in .txt, .json or .html",
            }
        ],
        "io": {"capture": False},
    }


def _diff(media: list[str], output: str) -> object:
    def action() -> None:
        if len(media) != 2:
            raise ConfigError(
                f"diff compares two media, {len(media)} were named",
                solution="Call ./doit.sh diff [--output FILE] OLD.iso NEW.iso.",
            )
        write = difference.format_of(output) if output else difference.text
        here = Path(os.environ.get(CALLED_FROM, "."))
        inventories = []
        for name in media:
            with contents.opened(here / name) as medium:
                inventories.append(inventory.read(medium))
        text = write(difference.compare(*inventories))
        if output:
            write_whole(here / output, text)
            return
        for line in text.splitlines():
            events.echo(line)

    return guarded(action)()
