import subprocess

import pytest

from buildchain.actions import source
from buildchain.errors import ConfigError


@pytest.fixture
def checkout(tmp_path, require):
    require("git")
    folder = tmp_path / "repository"
    folder.mkdir()
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    for argv in (
        ["init", "-q"],
        [*identity, "commit", "-q", "--allow-empty", "-m", "first"],
        [*identity, "tag", "-a", "-m", "one", "1.0"],
    ):
        environment = {"GIT_COMMITTER_DATE": "1700000000 +0000", "PATH": "/usr/bin:/bin"}
        subprocess.run(["git", *argv], cwd=folder, check=True, env=environment)
    return folder


def test_commit_and_date(checkout):
    assert source.describe("git", checkout).startswith("1.0-0-g")
    assert source.epoch("git", checkout, None) == 1700000000


def test_dirty(checkout):
    (checkout / "file").touch()
    subprocess.run(["git", "add", "file"], cwd=checkout, check=True)
    assert source.describe("git", checkout).endswith("-dirty")


def test_configured_date_comes_first(tmp_path):
    assert source.epoch("no-such-git", tmp_path, 0) == 0


@pytest.mark.parametrize("binary", ["git", "no-such-git"])
def test_outside_a_checkout(tmp_path, binary, require):
    require("git")
    assert source.describe(binary, tmp_path) == "unknown"
    with pytest.raises(ConfigError, match="the date of the ISO is not known") as caught:
        source.epoch(binary, tmp_path, None)
    assert "SOURCE_DATE_EPOCH" in caught.value.solution
