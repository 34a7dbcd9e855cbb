"""Versions of HAProxy's files: whole, for another account of the group, and one holds."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from metalk8s_ingress.versions import Versions
from needed import need

STRANGER, GROUP = 65533, 65532


@pytest.fixture
def pod() -> Iterator[Path]:
    """Provide what the kubelet makes of an ``emptyDir`` with a group.

    Not in a folder of pytest's, which it keeps from other accounts.
    """
    need(["root"] if os.geteuid() else [])
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        folder = Path(home) / "pod"
        folder.mkdir()
        os.chown(folder, 0, GROUP)
        folder.chmod(0o3777)
        yield folder


def test_another_account_of_the_group_follows_the_link(pod: Path) -> None:
    """In a folder that everybody may change, the kernel would not let it."""
    folder = pod / "files"
    link = folder / "current"
    versions = Versions(folder, link)
    for text in ("one\n", "two\n"):
        versions.hold(versions.write({"haproxy.cfg": text}))
        done = subprocess.run(
            ["cat", link / "haproxy.cfg"],
            user=STRANGER, group=GROUP, extra_groups=[], capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == text
    assert [path.name for path in folder.glob("v*")] == ["v2"]
    assert folder.stat().st_mode & 0o7777 == 0o2750
