"""The Salt tree.

::

    salt/{states,pillar,scripts}, pins, _debian_closure:node ──> _salt_tree_deploy

Leaves ``_build/salt_tree``, laid out as on the ISO.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.actions import debian, salt_tree
from buildchain.targets.step import Step, Task, group, title
from buildchain.tasks import package_repositories
from buildchain.tasks.context import Context, current

DEPLOY = "_salt_tree_deploy"


def _deploy(context: Context) -> Step:
    sources = context.files(*salt_tree.folders(context.layout))
    pins = context.catalog
    return Step(
        context.layout,
        DEPLOY,
        title("DEPLOY", "Salt tree"),
        functools.partial(salt_tree.deploy, context.layout, pins, sources),
        inputs=sources,
        needs=(package_repositories.NODE,),
        config=salt_tree.pinned(pins),
        code=(debian, salt_tree),
    )


def task__salt_tree_deploy() -> Iterator[Task]:
    """Lay out the Salt tree as on the ISO."""
    yield _deploy(current()).task()


def task_salt_tree() -> Task:
    """Deploy the Salt tree inside the ISO."""
    context = current()
    doc = "Deploy the Salt tree inside the ISO."
    return group("salt_tree", doc, [_deploy(context)])
