"""The manual.

::

    docs/, README.md, …, requirements.txt ──> _documents_deploy ──> docs

Leaves ``_build/documents``, laid out as on the ISO: Markdown, and HTML in ``docs/html``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.core.step import Step, Task, group, title
from buildchain.manual import documents, site
from buildchain.project.context import Context, current

DEPLOY = "_documents_deploy"


def task__documents_deploy() -> Iterator[Task]:
    """Lay out the manual as on the ISO."""
    yield _deploy(current()).task()


def _deploy(context: Context) -> Step:
    layout, version = context.layout, context.catalog.version.full
    pages = documents.sources(layout)
    render = functools.partial(site.build, layout, pages, version)
    return Step(
        layout,
        DEPLOY,
        title("DEPLOY", "manual"),
        functools.partial(documents.deploy, layout, pages, render),
        inputs=site.inputs(layout, pages),
        config={"version": version},
    )


def task_docs() -> Task:
    """Make the manual, as HTML too; a dead link or a page without a chapter stops it."""
    context = current()
    return group("docs", task_docs.__doc__ or "", [_deploy(context)])
