"""The manual.

::

    docs/, README.md, …, requirements.txt ──> _documents_deploy ──> docs

Leaves ``_build/documents``, laid out as on the ISO: Markdown, and HTML in ``docs/html``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, group, title
from buildchain.manual import documents, site
from buildchain.project.context import Context, current
from buildchain.project.means import Means

DEPLOY = "_documents_deploy"


@dataclass(frozen=True)
class Manual:
    """The manual of a version of the product.

    :param inputs: what its HTML is made of, pages among it.
    """

    version: str
    pages: tuple[Path, ...]
    inputs: tuple[Path, ...]


def task__documents_deploy() -> Iterator[Task]:
    """Lay out the manual as on the ISO."""
    yield _deploy(current()).task()


def _deploy(context: Context) -> Step[Manual, Means]:
    layout, version = context.layout, context.catalog.version.full
    pages = documents.sources(layout)
    return Step(
        context.means,
        DEPLOY,
        title("DEPLOY", "manual"),
        _lay_out,
        Manual(version, pages, site.inputs(layout, pages)),
    )


def _lay_out(wanted: Manual, means: Means) -> Made:
    render = functools.partial(site.build, means.layout, wanted.pages, wanted.version)
    return documents.deploy(means.layout, wanted.pages, render)


def task_docs() -> Task:
    """Make the manual, as HTML too; a dead link or a page without a chapter stops it."""
    context = current()
    return group("docs", task_docs.__doc__ or "", [_deploy(context)])
