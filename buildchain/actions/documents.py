"""The manual on the ISO: the pages as they are read here, the licence and the list of changes.

On disk: ``docs/``, ``CHANGELOG.md`` and ``LICENSE``, laid out as at the root of the ISO.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from buildchain.actions.repositories import replaced
from buildchain.layout import Layout
from buildchain.receipt import Made

ALONE = ("CHANGELOG.md", "LICENSE")
PAGES = "*.md"  # what an editor leaves beside them stays here


def sources(layout: Layout) -> tuple[Path, ...]:
    """Return every file of the checkout that is part of the manual, sorted."""
    alone = [layout.root / name for name in ALONE]
    return tuple(sorted([*alone, *(layout.root / "docs").rglob(PAGES)]))


def deploy(layout: Layout, pages: Iterable[Path]) -> Made:
    """Copy the manual."""
    with replaced(layout.documents) as fresh:
        for page in pages:
            target = fresh / page.relative_to(layout.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, target)
            target.chmod(0o644)
    return Made((layout.documents,))
