"""The task that makes an update pack.

::

    FROM.iso, TO.iso, their signed lists ──> update_pack ──> PACK ~~> apply-update.sh

Leaves the pack where it is told to; nothing in ``_build``.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import ConfigError
from buildchain.core.step import READING, Task, guarded, title
from buildchain.machine.steps import checks
from buildchain.project import source
from buildchain.project.context import CALLED_FROM, Context, current
from buildchain.signatures import signing
from buildchain.updates import make
from buildchain.updates.make import Wish

USAGE = "./doit.sh update_pack -o PACK [--floor VERSION] [--key FILE] FROM TO"


def task_update_pack() -> Task:
    """Write what one ISO has and an older one has not."""
    return {
        "basename": "update_pack",
        "doc": "Write what the ISO TO has and the ISO FROM has not to one file: -o PACK FROM TO.",
        "title": lambda _task: title("PACK", "an update"),
        "meta": READING,
        "actions": [functools.partial(_pack, current())],
        "pos_arg": "words",
        "params": [
            _text("output", "the pack to write", short="o"),
            _text("floor", "version below which nobody may go by it (FROM's)"),
            {
                **_text("key", "public key that signed both (binary); again for each further one"),
                "type": list,
                "default": [],
            },
        ],
        "task_dep": list(checks("gpg", "gpgv")),
        "io": {"capture": False},
    }


def _text(name: str, help_text: str, short: str = "") -> dict[str, object]:
    words = {"name": name, "long": name, "type": str, "default": "", "help": help_text}
    return {**words, "short": short}


def _pack(context: Context, words: list[str], output: str, floor: str, key: list[str]) -> object:
    def action() -> None:
        if len(words) != 2 or not output:
            raise ConfigError(
                "update_pack takes two ISOs, and has to be told where to write",
                solution=f"Call {USAGE}.",
            )
        keyrings = tuple(_here() / name for name in key) or signing.keyrings(context.layout)
        base, target = (make.read(make.find(_here() / word), keyrings) for word in words)
        file = _here() / output
        with signing.signer(context.layout, context.config.signing_key) as signer:
            make.write(
                base, target, file, Wish(floor), keyrings=keyrings, signer=signer,
                epoch=_epoch(context),
            )  # fmt: skip
        share = file.stat().st_size / target.size
        events.closing(
            f"{file} makes {target.version} of {base.version}: {file.stat().st_size >> 20} MiB, "
            f"{share:.1%} of the ISO"
        )

    return guarded(action)()


def _epoch(context: Context) -> int:
    settings = context.config
    return source.epoch(settings.binary("git"), settings.root, settings.source_date_epoch)


def _here() -> Path:
    return Path(os.environ.get(CALLED_FROM, "."))
