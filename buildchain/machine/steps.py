"""The machine that builds.

::

    setup ──> setup:packages ──> setup:engine
      └─────> check_for:<tool>   (only when `setup` is on the same command line)

``setup:packages`` installs what builds need, and what tests or local machines need when such tasks
are on the same command line.

Leaves nothing in ``_build``: the machine itself is what is looked at. ``setup`` and ``doctor``
start each program to see that it runs; ``check_for`` does when it is another file than last time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.core import events
from buildchain.core.step import READING, Fingerprint, Task, guarded, title
from buildchain.machine import engine_service, host
from buildchain.project.context import Context, current
from buildchain.project.model import Tool

# Tasks that need more than a build does, by purpose in the table of tools.
TEST_TASKS = ("test", "lint", "format", "bench")
VAGRANT_TASKS = ("vagrant_up", "vagrant_restore")
MACHINE_TASKS = ("machine",)
# First of all that signs, where the key is elsewhere (buildchain/signatures/steps.py).
SIGNATURES = "_signatures_begin"


def tools_for(context: Context, *purposes: str) -> tuple[Tool, ...]:
    """Return the tools that serve one of the purposes."""
    return tuple(tool for tool in context.tools if set(tool.purposes) & set(purposes))


def build_purposes(context: Context) -> tuple[str, ...]:
    """Return what a build of the profile needs the machine for."""
    return ("build", *(["redhat"] if context.catalog.redhat_repositories else []))


def purposes(context: Context) -> tuple[str, ...]:
    """Return what this command line needs the machine for."""
    found = [*build_purposes(context)]
    if context.is_asked_for(*TEST_TASKS):
        found.append("test")
    if context.is_asked_for(*VAGRANT_TASKS):
        found.append("vagrant")
    if context.is_asked_for(*MACHINE_TASKS):
        found.append("machine")
    return tuple(found)


def checks(*names: str) -> tuple[str, ...]:
    """Return the tasks that check for tools."""
    return tuple(f"check_for:{name}" for name in names)


def signing_checks(context: Context, *names: str) -> tuple[str, ...]:
    """Return what comes before a step that signs: checks for gpg and for other tools."""
    elsewhere = (SIGNATURES,) if context.layout.public_keys is not None else ()
    return (*elsewhere, *checks("gpg", *names))


def task_check_for() -> Iterator[Task]:
    """Check that a program the build needs is there and recent enough."""
    context = current()
    after = ["setup"] if context.is_asked_for("setup") else []
    yield {"basename": "check_for", "name": None, "doc": task_check_for.__doc__}
    for tool in context.tools:
        yield {
            "basename": "check_for",
            "name": tool.name,
            "doc": f"Check for {tool.name}, to {tool.reason}.",
            "title": functools.partial(_check_title, tool.name),
            "actions": [(guarded(functools.partial(host.check, tool, context.config)), [])],
            "task_dep": after,
            "uptodate": [
                Fingerprint("tool", functools.partial(_identity, tool, context)),
            ],
            "io": {"capture": False},
        }


def _check_title(name: str, _task: object) -> str:
    return title("CHECK", name)


def _identity(tool: Tool, context: Context) -> object:
    minimum = [tool.minimum, host.command_of(tool, context.config)]
    return [*minimum, *host.identity(tool, context.config)]


def task_setup() -> Iterator[Task]:
    """Install what the build needs on this machine and start the Docker engine."""
    context = current()
    wanted = purposes(context)
    tools = tools_for(context, *wanted)
    packages = ", ".join(sorted({tool.package for tool in tools}))
    yield {"basename": "setup", "name": None, "doc": task_setup.__doc__}
    yield {
        "basename": "setup",
        "name": "packages",
        "doc": f"Install what {', '.join(wanted)} tasks need: {packages}.",
        "title": lambda _task: title("SET UP", f"tools to {' and '.join(wanted)}"),
        "actions": [(guarded(functools.partial(install, context, tools)), [])],
        "uptodate": [functools.partial(_has_all, tools, context)],
        "io": {"capture": False},
    }
    docker, minimum = context.config.binary("docker"), context.tool("docker").minimum
    yield {
        "basename": "setup",
        "name": "engine",
        "doc": "Start the Docker engine when none answers.",
        "title": lambda _task: title("START", "Docker engine"),
        "actions": [(guarded(functools.partial(engine_service.ensure, docker, minimum)), [])],
        "task_dep": ["setup:packages"],
        "uptodate": [functools.partial(engine_service.will_do, docker, minimum)],
        "io": {"capture": False},
    }


def task_doctor() -> Task:
    """Show what the build needs on this machine, what there is and what `setup` would do."""
    context = current()
    return {
        "basename": "doctor",
        "doc": task_doctor.__doc__,
        "title": lambda _task: title("LOOK", "at this machine"),
        "meta": READING,
        "actions": [(guarded(functools.partial(_diagnose, context)), [])],
        "io": {"capture": False},
    }


def _diagnose(context: Context) -> None:
    for line in host.diagnosis(context.tools, context.config):
        events.echo(line)


def _has_all(tools: tuple[Tool, ...], context: Context) -> bool:
    return not host.missing_packages(tools, context.config) and not any(
        host.examine(tool, context.config).problem for tool in tools
    )


def install(context: Context, tools: tuple[Tool, ...]) -> None:
    """Install the packages of missing tools, then insist on every tool."""
    host.check_servers(tools, context.config)
    packages = host.missing_packages(tools, context.config)
    host.install(packages)
    host.check_installed(tools, context.config)
    if not packages:
        events.note("everything is there")
