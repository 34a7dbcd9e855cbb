"""Versions of HAProxy's files: whole, for another account of the group, and one holds."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from metalk8s_ingress import configuration
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


def test_a_version_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """It has keys, is in memory, and is tried again and again."""
    versions = Versions(tmp_path / "files", tmp_path / "files/current")
    versions.hold(versions.write({"haproxy.cfg": "one\n"}))
    for _ in range(3):
        with pytest.raises(OSError, match="File name too long"):
            versions.write({"key.pem": "secret\n", "x" * 256: "two\n"})
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["current", "v1"]
    assert (tmp_path / "files/current/haproxy.cfg").read_text() == "one\n"


def test_the_longest_name_of_a_secret_is_a_file(tmp_path: Path) -> None:
    """No two Secrets have the same file, and none has that of the site's certificate."""
    keys = [f"{'n' * 63}/{'s' * 253}", f"{'n' * 63}/{'s' * 252}", "a/default", "a-b/c", "a/b-c"]
    found = [configuration.pem_name(key) for key in keys]
    assert len({configuration.FALLBACK, *found}) == len(keys) + 1
    versions = Versions(tmp_path / "files", tmp_path / "files/current")
    assert len(list(versions.write(dict.fromkeys(found, "x")).iterdir())) == len(keys)
