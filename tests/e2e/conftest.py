"""Virtual machines for journeys from the ISO to a cluster, and what the build has left.

``METALK8S_MACHINE`` names the variant of the machine (default: ``minbase``).
"""

from __future__ import annotations

import os
import pathlib

import pytest

from tests.integration.conftest import build_root, iso, require
from tests.testbed import disk
from tests.testbed.disk import Disk

__all__ = ["build_root", "iso"]

VARIANT = os.environ.get("METALK8S_MACHINE", "minbase")


@pytest.fixture(scope="session")
def version(build_root: pathlib.Path) -> str:
    """Return the version of the ISO."""
    lines = (build_root / "product.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)["VERSION"]


@pytest.fixture(scope="session")
def machine_disk(build_root: pathlib.Path) -> Disk:
    """Return the disk of a Debian machine that nobody has prepared for us."""
    require("qemu-system-x86_64", "mmdebstrap", "mke2fs", "e2fsck", "ssh", "ssh-keygen")
    return disk.ensure(VARIANT, build_root / "apt", disk.cache())
