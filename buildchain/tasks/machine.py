"""A virtual machine by hand, as the end-to-end tests have them.

::

    _apt_update, check_for:{qemu-system-x86_64,mmdebstrap,mke2fs,ssh} ──> machine

Leaves the disks of machines in the cache and the one that runs in ``_build/machine``.
"""

from __future__ import annotations

import functools

from buildchain.actions import quality
from buildchain.targets.step import Task, guarded, title
from buildchain.tasks import foundations
from buildchain.tasks.context import current
from buildchain.tasks.host import checks
from buildchain.tasks.quality import ENVIRONMENT, deliverables

TOOLS = ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "ssh")


def task_machine() -> Task:
    """Start a virtual machine, enter it, show its console, stop it."""
    return {
        "basename": "machine",
        "doc": "Start a virtual machine to install on, enter it, or stop it: "
        "start|ssh|console|stop [minbase|standard|hardened].",
        "title": lambda _task: title("MACHINE", "virtual, with a kernel of its own"),
        "actions": [_machine],
        "pos_arg": "words",
        "task_dep": [ENVIRONMENT, foundations.UPDATE, *checks(*TOOLS)],
        "io": {"capture": False},
    }


def _machine(words: list[str]) -> object:
    context = current()
    environment = deliverables(context)
    root = context.config.root
    run = functools.partial(quality.interact, root, "tests.testbed", words, env=environment)
    return guarded(run)()
