"""The manual.

::

    docs/, LICENSE, CHANGELOG.md ──> _documents_deploy

Leaves ``_build/documents``, laid out as on the ISO.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.actions import documents
from buildchain.targets.step import Step, Task, title
from buildchain.tasks.context import current

DEPLOY = "_documents_deploy"


def task__documents_deploy() -> Iterator[Task]:
    """Lay out the manual as on the ISO."""
    layout = current().layout
    pages = documents.sources(layout)
    yield Step(
        layout,
        DEPLOY,
        title("DEPLOY", "manual"),
        functools.partial(documents.deploy, layout, pages),
        inputs=pages,
        code=(documents,),
    ).task()
