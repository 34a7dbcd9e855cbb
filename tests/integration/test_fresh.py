"""README's first command on a machine that nobody prepared makes the ISO that is here.

Runs ``git``, ``mmdebstrap`` and ``chroot`` as root, and the Docker engine. The engine sees this
machine's folders: it cannot be a copy of the checkout in which the page is typed.
"""

from __future__ import annotations

import os
import pathlib

import pytest

from buildchain.project import context
from buildchain.quality import fresh
from tests.integration.conftest import ROOT, require

pytestmark = [pytest.mark.integration, pytest.mark.soak]


def test_a_fresh_machine_makes_the_same_iso(build_root: pathlib.Path) -> None:
    """As ``./doit.sh test:fresh`` does, without a second lock on this build."""
    require("git", "mmdebstrap", "rpm", "docker")
    assert build_root == ROOT / "_build"
    here = context.load(ROOT, os.environ)
    fresh.check(here.layout, "git")
    with fresh.built(here.layout, here.catalog, "git", {}) as there:
        assert fresh.compare(here.layout, there) > 0
