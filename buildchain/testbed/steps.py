"""A cluster on this machine, or a virtual machine by hand, as the end-to-end tests have them.

::

    _base_image ─> _debian_closure:testbed ─> _testbed_image ┐  (only for machines in containers)
    _base_image, _debian_closure:testbed-pods ────────────────────────┐
    _builder_image, kubernetes:pkg_get_source ─> _conformance_compile ┴> _conformance_image
    check_for:vagrant, populate_iso ─────────────────────┼──> vagrant_up
    _vagrant_key ────────────────────────────────────────┘
    check_for:vagrant ──> vagrant_restore
    _apt_update, check_for:{qemu-system-x86_64,mmdebstrap,mke2fs,ssh} ──> machine

Leaves the machine ``bootstrap``, a snapshot of it as it was before it was provisioned, and
``.vagrant`` in the checkout, which ``vagrant destroy`` and ``rm`` remove, not ``clean``. Disks of
virtual machines are in the cache, the one that runs is in ``_build/machine``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, guarded, title
from buildchain.debian import base
from buildchain.debian import steps as debian
from buildchain.machine import engine
from buildchain.machine.steps import checks
from buildchain.packages import builder, kept
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
from buildchain.pulls import skopeo
from buildchain.quality import checkers
from buildchain.quality.steps import ENVIRONMENT, deliverables
from buildchain.testbed import conformance, vagrant

TOOLS = ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "ssh")

CLOSURE = debian.closure_step("testbed")
IMAGE = "_testbed_image"
KEY = "_vagrant_key"
COMPILE = "_conformance_compile"
CONFORMANCE = "_conformance_image"


def task__testbed_image() -> Iterator[Task]:
    """Make the image of a machine to install on."""
    context = current()
    yield Step(
        context.layout,
        IMAGE,
        title("BUILD IMAGE", "test node"),
        functools.partial(_image, context),
        inputs=tuple(vagrant.node_files(context.layout).values()),
        needs=(debian.BASE, CLOSURE),
        code=(base,),
        after=checks("docker"),
    ).task()


def _image(context: Context) -> Made:
    return Made(facts={"reference": ensure_node_image(context)})


def ensure_node_image(context: Context) -> str:
    """Return the node image's reference; it is made again when the engine lost it."""
    with engine.connect(context.config.binary("docker")) as client:
        below = debian.base_reference(context)
        return vagrant.ensure_node_image(context.layout, client, below)


def task__conformance_compile() -> Iterator[Task]:
    """Compile Kubernetes' own tests, and what their pods run."""
    context = current()
    layout = context.layout
    if not _has_kubernetes(context):
        return
    yield Step(
        layout,
        COMPILE,
        title("COMPILE", "Kubernetes' own tests"),
        functools.partial(_compile, context),
        inputs=(conformance.recipe(layout, "compile.sh"),),
        needs=(packages.stage("kubernetes", "pkg_get_source"), debian.BUILDER),
        owns=layout.conformance,
        code=(builder, kept),
        after=checks("docker"),
    ).task()


def _has_kubernetes(context: Context) -> bool:
    """Tell whether the profile has what is to be tested."""
    return any(package.name == "kubernetes" for package in context.catalog.packages)


def _compile(context: Context) -> Made:
    docker = context.config.binary("docker")
    with engine.connect(docker) as client:
        reference = debian.ensure_builder(context, client)
    epoch, build = context.catalog.content_epoch, context.layout.build
    kubernetes = context.catalog.package("kubernetes")
    compiler = builder.Builder(reference, docker, epoch, build)
    return conformance.compile_tests(context.layout, kubernetes, compiler)


def task__conformance_image() -> Iterator[Task]:
    """Make the image that pods of Kubernetes' own tests run."""
    context = current()
    layout = context.layout
    if not _has_kubernetes(context):
        return
    yield Step(
        layout,
        CONFORMANCE,
        title("BUILD IMAGE", "pods of Kubernetes' own tests"),
        functools.partial(_conformance_image, context),
        inputs=(conformance.recipe(layout, "Dockerfile"),),
        needs=(COMPILE, debian.BASE, debian.closure_step(conformance.CLOSURE)),
        code=(base, skopeo),
        after=checks("docker", "skopeo"),
    ).task()


def _conformance_image(context: Context) -> Made:
    return conformance.make_image(
        context.layout,
        debian.base_reference(context),
        docker=context.config.binary("docker"),
        skopeo_bin=context.config.binary("skopeo"),
    )


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


def task_machine() -> Task:
    """Start a virtual machine, enter it, show its console, stop it."""
    return {
        "basename": "machine",
        "doc": "Start a virtual machine to install on, enter it, or stop it: "
        "start|ssh|console|stop [minbase|standard|hardened].",
        "title": lambda _task: title("MACHINE", "virtual, with a kernel of its own"),
        "actions": [_machine],
        "pos_arg": "words",
        "task_dep": [ENVIRONMENT, debian.UPDATE, *checks(*TOOLS)],
        "io": {"capture": False},
    }


def _machine(words: list[str]) -> object:
    context = current()
    environment = deliverables(context)
    root = context.config.root
    run = functools.partial(checkers.interact, root, "tests.testbed", words, env=environment)
    return guarded(run)()
