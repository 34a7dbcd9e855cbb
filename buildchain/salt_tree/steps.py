"""The Salt tree.

::

    salt/{states,pillar,scripts}, pins, _debian_closure:node ──> _salt_tree_deploy

Leaves ``_build/salt_tree``, laid out as on the ISO.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.core.step import Step, Task, group, title
from buildchain.debian import archive
from buildchain.project.context import Context, current
from buildchain.repositories import steps as repositories
from buildchain.salt_tree import deployment

DEPLOY = "_salt_tree_deploy"


def _deploy(context: Context) -> Step:
    sources = context.files(*deployment.folders(context.layout))
    pins = context.catalog
    return Step(
        context.layout,
        DEPLOY,
        title("DEPLOY", "Salt tree"),
        functools.partial(deployment.deploy, context.layout, pins, sources),
        inputs=sources,
        needs=(repositories.NODE,),
        config=deployment.pinned(pins),
        code=(archive,),
    )


def task__salt_tree_deploy() -> Iterator[Task]:
    """Lay out the Salt tree as on the ISO."""
    yield _deploy(current()).task()


def task_salt_tree() -> Task:
    """Deploy the Salt tree inside the ISO."""
    context = current()
    doc = "Deploy the Salt tree inside the ISO."
    return group("salt_tree", doc, [_deploy(context)])
