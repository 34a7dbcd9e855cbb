"""The manual on the ISO: the pages as they are read here, the licence and the list of changes.

On disk: ``docs/``, ``CHANGELOG.md`` and ``LICENSE``, laid out as at the root of the ISO. The same
pages as HTML (:mod:`buildchain.manual`) are in ``docs/html``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made

HTML = "docs/html"  # on the ISO
ALONE = ("CHANGELOG.md", "LICENSE")
PAGES = ("*.md", "*.svg")  # what an editor leaves beside them stays here


def sources(layout: Layout) -> tuple[Path, ...]:
    """Return every file of the checkout that is part of the manual, sorted."""
    alone = [layout.root / name for name in ALONE]
    found = (path for pattern in PAGES for path in (layout.root / "docs").rglob(pattern))
    return tuple(sorted([*alone, *found]))


def deploy(layout: Layout, pages: Iterable[Path], render: Callable[[Path], None]) -> Made:
    """Copy the manual, and make the same as HTML.

    :param render: makes it in a folder that is not there.
    """
    with replaced(layout.documents) as fresh:
        render(fresh / HTML)
        for page in pages:
            target = fresh / page.relative_to(layout.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, target)
            target.chmod(0o644)
    return Made((layout.documents,))
