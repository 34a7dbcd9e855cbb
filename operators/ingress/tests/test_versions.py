"""Versions of HAProxy's files: whole, for another account of the group, and one holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from metalk8s_ingress.versions import Versions
from needed import need

STRANGER, GROUP = 65533, 65532


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """Provide what the kubelet makes of an ``emptyDir`` with a group."""
    need(["root"] if os.geteuid() else [])
    for above in tmp_path.parents[:2]:
        above.chmod(0o755)
    tmp_path.chmod(0o755)
    folder = tmp_path / "pod"
    folder.mkdir()
    os.chown(folder, 0, GROUP)
    folder.chmod(0o3777)
    return folder


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
