"""The manual of the checkout, made once; and checkouts with a small one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from buildchain.core.layout import Layout
from buildchain.manual import documents, pages, site
from tests.conftest import ROOT


def made(root: Path, build: Path) -> Path:
    """Make the manual of a checkout and return the folder."""
    layout = Layout(root, build, build, "metalk8s")
    site.build(layout, documents.sources(layout), "1.2.3", build / "html")
    return build / "html"


def copied(folder: Path) -> Path:
    """Return a copy of what the manual is made of."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in (*pages.BESIDE, site.LOCK):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the manual as HTML."""
    return made(ROOT, tmp_path_factory.mktemp("manual"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a manual of two pages."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "docs/site", root / "docs/site")
    for name in pages.BESIDE:
        (root / name).write_text(f"# {name}\n")
    (root / "docs/README.md").write_text("# Manual\n\n[web](web.md#set-up)\n")
    (root / "docs/web.md").write_text("# Web\n\n## Set up\n\n[manual](README.md), <name>\n")
    (root / pages.CHAPTERS).write_text(
        "[[chapters]]\ntitle = 'All'\npages = ['web.md', '../[CRL]*']\n"
    )
    return root
