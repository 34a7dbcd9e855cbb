"""A cluster on this machine.

::

    _base_image ─> _debian_closure:testbed ─> _testbed_image ┐  (only for machines in containers)
    check_for:vagrant, populate_iso ─────────────────────┼──> vagrant_up
    _vagrant_key ────────────────────────────────────────┘
    check_for:vagrant ──> vagrant_restore

Leaves the machine ``bootstrap``, a snapshot of it as it was before it was provisioned, and
``.vagrant`` in the checkout, which ``vagrant destroy`` and ``rm`` remove, not ``clean``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.actions import base, engine, vagrant
from buildchain.receipt import Made
from buildchain.targets.step import Step, Task, guarded, title
from buildchain.tasks import foundations
from buildchain.tasks.context import Context, current
from buildchain.tasks.host import checks

CLOSURE = foundations.closure_step("testbed")
IMAGE = "_testbed_image"
KEY = "_vagrant_key"


def task__testbed_image() -> Iterator[Task]:
    """Make the image of a machine to install on."""
    context = current()
    yield Step(
        context.layout,
        IMAGE,
        title("BUILD IMAGE", "test node"),
        functools.partial(_image, context),
        inputs=tuple(vagrant.node_files(context.layout).values()),
        needs=(foundations.BASE, CLOSURE),
        code=(base, vagrant),
        after=checks("docker"),
    ).task()


def _image(context: Context) -> Made:
    return Made(facts={"reference": ensure_node_image(context)})


def ensure_node_image(context: Context) -> str:
    """Return the node image's reference; it is made again when the engine lost it."""
    with engine.connect(context.config.binary("docker")) as client:
        below = foundations.base_reference(context)
        return vagrant.ensure_node_image(context.layout, client, below)


def task__vagrant_key() -> Iterator[Task]:
    """Make the SSH key that the machines share."""
    layout = current().layout
    yield {
        "basename": KEY,
        "doc": task__vagrant_key.__doc__,
        "title": lambda _task: title("MAKE", "SSH key of the machines"),
        "actions": [(guarded(functools.partial(vagrant.make_key, layout)), [])],
        "uptodate": [functools.partial(vagrant.has_key, layout)],
        "io": {"capture": False},
    }


def machines(context: Context) -> vagrant.Machines:
    """Return what it takes to start machines of this checkout."""
    return vagrant.Machines(
        context.layout,
        context.config,
        context.catalog.version.full,
        functools.partial(ensure_node_image, context),
    )


def task_vagrant_up() -> Task:
    """Start a cluster on this machine with Vagrant."""
    context = current()
    image = (IMAGE,) if vagrant.may_be_docker(context.config) else ()
    return {
        "basename": "vagrant_up",
        "doc": task_vagrant_up.__doc__,
        "title": lambda _task: title("START", f"machine {vagrant.MACHINE}"),
        "actions": [(guarded(functools.partial(vagrant.up, machines(context))), [])],
        "task_dep": [*checks("vagrant", "ssh-keygen"), "populate_iso", KEY, *image],
        "io": {"capture": False},
    }


def task_vagrant_restore() -> Task:
    """Bring the machine bootstrap back to how it was before it was provisioned."""
    context = current()
    name = context.config.vagrant_snapshot_name
    return {
        "basename": "vagrant_restore",
        "doc": task_vagrant_restore.__doc__,
        "title": lambda _task: title("RESTORE", f"snapshot {name} of {vagrant.MACHINE}"),
        "actions": [(guarded(functools.partial(vagrant.restore, machines(context))), [])],
        "task_dep": [*checks("vagrant")],
        "io": {"capture": False},
    }
