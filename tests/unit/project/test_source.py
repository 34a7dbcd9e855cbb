import dataclasses
import subprocess

import pytest

from buildchain.core.errors import ConfigError
from buildchain.project import context, source


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


def git(checkout, *argv):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    subprocess.run(["git", *identity, *argv], cwd=checkout, check=True, capture_output=True)


@pytest.mark.parametrize("shown", ["no", "normal", "all"])
def test_new_files_make_a_tree_dirty(checkout, shown):
    """A dropped module, an editor's copy of a secret; whatever the user wants to see of them."""
    git(checkout, "config", "status.showUntrackedFiles", shown)
    source.prove_clean("git", checkout)
    (checkout / "folder").mkdir()
    (checkout / "folder" / ".x.swp").touch()
    assert source.describe("git", checkout).endswith("-dirty")
    assert source.changes("git", checkout) == ("?? folder/.x.swp",)
    with pytest.raises(ConfigError, match="SIGNING_KEY is set, and 1 files in") as caught:
        source.prove_clean("git", checkout)
    assert caught.value.details == "?? folder/.x.swp"
    (checkout / ".git" / "info" / "exclude").write_text("*.swp\n")
    assert not source.describe("git", checkout).endswith("-dirty")


def test_many_changes(checkout):
    for number in range(30):
        (checkout / str(number)).touch()
    with pytest.raises(ConfigError, match="30 files") as caught:
        source.prove_clean("git", checkout)
    assert caught.value.details.splitlines()[-1] == "…"


def test_tracked_files(checkout, tmp_path):
    assert source.tracked("git", checkout) is None, "an empty repository tells nothing"
    for name in ("a b", "é", "new"):
        (checkout / name).touch()
    git(checkout, "add", "a b", "é")
    assert source.tracked("git", checkout) == {checkout / "a b", checkout / "é"}
    assert source.tracked("git", tmp_path) is None
    assert source.tracked("no-such-git", checkout) is None
    assert source.changes("no-such-git", checkout) == ()


@pytest.mark.parametrize("is_checkout", [True, False])
def test_what_git_does_not_track_is_no_part_of_the_product(root, checkout, is_checkout):
    for folder in ("salt/states", "images/a", "packages/a"):
        (checkout / folder).mkdir(parents=True)
        (checkout / folder / "ours").touch()
    git(checkout, "add", ".")
    for folder in ("salt/states", "images/a", "packages/a"):
        (checkout / folder / "theirs").touch()
    loaded = context.load(root, {})
    tracked = source.tracked("git", checkout) if is_checkout else None
    found = dataclasses.replace(loaded, tracked=tracked).files(
        checkout / "salt", checkout / "images", checkout / "packages", checkout / "none"
    )
    assert {path.name for path in found} == {"ours"} if is_checkout else {"ours", "theirs"}
    assert len(found) == (3 if is_checkout else 6)


def test_the_context_knows_what_is_tracked(root):
    assert root / "salt" / "states" / "top.sls" in context.load(root, {}).tracked


def test_configured_date_comes_first(tmp_path):
    assert source.epoch("no-such-git", tmp_path, 0) == 0


@pytest.mark.parametrize("binary", ["git", "no-such-git"])
def test_outside_a_checkout(tmp_path, binary, require):
    require("git")
    assert source.describe(binary, tmp_path) == "unknown"
    with pytest.raises(ConfigError, match="the date of the ISO is unknown") as caught:
        source.epoch(binary, tmp_path, None)
    assert "SOURCE_DATE_EPOCH" in caught.value.solution
