"""The difference between two media, and between two builds.

::

    OLD.iso, NEW.iso ──> diff
    iso ──> reproduce

``diff`` leaves the file that ``--output`` names, or shows the difference; it needs no build.
``reproduce`` leaves the second build in ``_build/reproduce``.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from buildchain.compare import difference, inventory, reproduce
from buildchain.core import events
from buildchain.core.errors import ConfigError
from buildchain.core.receipt import write_whole
from buildchain.core.step import READING, Task, guarded, title
from buildchain.medium import contents
from buildchain.project import config
from buildchain.project.context import CALLED_FROM, Context, current


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


def task_reproduce() -> Task:
    """Build the ISO again elsewhere and compare."""
    context = current()
    return {
        "basename": "reproduce",
        "doc": "Build the ISO a second time, elsewhere, and compare every byte.",
        "title": lambda _task: title("REPRODUCE", context.layout.iso.name),
        "actions": [(_reproduce, [], {"context": context})],
        "task_dep": ["iso"],
        "io": {"capture": False},
    }


def _reproduce(context: Context) -> object:
    def action() -> None:
        layout = context.layout
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in {"GNUPGHOME", *(option.name for option in config.OPTIONS)}
        }
        if layout.public_keys is not None:
            # The second build is elsewhere: what is relative leads somewhere else there.
            kept["SIGNING_PUBLIC_KEY"] = str(layout.public_keys)
        build = reproduce.rebuild(layout, context.config.binary("git"), kept)
        reproduce.compare(layout, dataclasses.replace(layout, build=build))

    return guarded(action)()
