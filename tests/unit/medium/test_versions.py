"""Versions of builds: dpkg, rpm and semver sort them alike, and as commits follow each other."""

import dataclasses
import itertools
import re
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buildchain.medium import versions
from buildchain.medium.versions import Commit
from buildchain.project import source
from buildchain.project.model import Version

ABC = "abcdef0123456789abcdef0123456789abcdef01"
ASCENDING = (
    "2.4.0-dev.2+gabcdef012345",
    "2.4.0-dev.123+g012345678901",
    "2.4.0-rc.1",
    "2.4.0-rc.2",
    "2.4.0-rc.10",
    "2.4.0",
    "2.4.1-dev.1+gabcdef012345",
    "2.4.1",
    "2.10.0-dev.1+gabcdef012345",
)
NUMBERS = st.tuples(*(st.integers(0, 30) for _ in range(3)))
SUFFIXES = st.sampled_from(("", "dev", "rc.1", "rc.2", "rc.10"))
VERSIONS = st.builds(lambda numbers, suffix: Version(*numbers, suffix), NUMBERS, SUFFIXES)
COMMITS = st.builds(
    Commit,
    digest=st.text("0123456789abcdef", min_size=40, max_size=40),
    release=st.none() | st.builds(lambda numbers: Version(*numbers, ""), NUMBERS),
    since=st.integers(0, 100_000),
    is_dirty=st.booleans(),
)
# Semantic versioning 2.0.0, its own expression and clause 11.
SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def semver(version):
    match = SEMVER.fullmatch(version)
    assert match, version
    words = match[4].split(".") if match[4] else []
    ranks = [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]
    return (*map(int, match.group(1, 2, 3)), not words, ranks)


def by_dpkg(one, other):
    for sign, result in (("lt", -1), ("eq", 0)):
        argv = ["dpkg", "--compare-versions", one, sign, other]
        if subprocess.run(argv, check=False).returncode == 0:
            return result
    return 1


def by_rpm(one, other):
    argv = ["rpm", "--eval", f'%{{lua:print(rpm.vercmp("{one}", "{other}"))}}']
    return int(subprocess.run(argv, check=True, capture_output=True).stdout)


def sign(one, other):
    return (one > other) - (one < other)


@pytest.mark.parametrize("tool", ["dpkg", "rpm"])
def test_order_is_that_of_the_tools(tool, require):
    require(tool)
    compare = {"dpkg": by_dpkg, "rpm": by_rpm}[tool]
    for one, other in itertools.pairwise(ASCENDING):
        assert compare(*map(versions.packaged, (one, other))) == -1, (one, other)


def test_order_is_that_of_semver():
    assert sorted(set(ASCENDING), key=semver) == list(ASCENDING)
    assert sorted(set(ASCENDING), key=versions.order) == list(ASCENDING)


@given(VERSIONS, COMMITS, VERSIONS, COMMITS)
@example(Version(2, 4, 0, "dev"), Commit(ABC, since=9), Version(2, 4, 0, "rc.1"), Commit(ABC))
def test_all_agree(require, version, commit, other_version, other_commit):
    require("dpkg")
    require("rpm")
    one = versions.of_build(version, commit)
    other = versions.of_build(other_version, other_commit)
    # What follows + is for people: semver does not compare it.
    one, other = (text.partition("+")[0] for text in (one, other))
    expected = sign(semver(one), semver(other))
    tilde = versions.packaged(one), versions.packaged(other)
    assert by_dpkg(*tilde) == by_rpm(*tilde) == expected
    assert sign(versions.order(one), versions.order(other)) == expected


@given(VERSIONS, COMMITS)
def test_a_build_is_between_releases(version, commit):
    built = versions.of_build(version, commit)
    assert SEMVER.fullmatch(built)
    assert f"-dev.{commit.since}+g{commit.digest[:12]}" in built
    assert built.endswith(".dirty") == commit.is_dirty
    numbers = f"{version.major}.{version.minor}.{version.patch}"
    if commit.release is None or semver(commit.release.full) < semver(numbers):
        assert semver(built) < semver(f"{numbers}-rc.1") < semver(numbers)
    else:
        assert semver(commit.release.full) < semver(built)


@given(VERSIONS, COMMITS, st.integers(1, 1000))
def test_later_commits_sort_later(version, commit, more):
    later = dataclasses.replace(commit, since=commit.since + more, digest=ABC)
    order = versions.order
    assert order(versions.of_build(version, commit)) < order(versions.of_build(version, later))


@pytest.mark.parametrize(
    ("suffix", "tags", "is_dirty", "expected"),
    [
        ("", ("2.4.0",), False, "2.4.0"),
        ("rc.1", ("2.4.0-rc.1",), False, "2.4.0-rc.1"),
        ("", ("2.4.0",), True, "2.4.0-dev.7+gabcdef012345.dirty"),
        ("", ("2.4.0-rc.1",), False, "2.4.0-dev.7+gabcdef012345"),
        ("dev", ("2.4.0", "2.4.0-dev"), False, "2.4.0-dev.7+gabcdef012345"),
    ],
)
def test_a_release_is_its_tag(suffix, tags, is_dirty, expected):
    commit = Commit(ABC, tags, since=7, is_dirty=is_dirty)
    assert versions.of_build(Version(2, 4, 0, suffix), commit) == expected


@pytest.mark.parametrize(
    ("tag", "is_version"),
    [
        ("2.4.0", True),
        ("2.4.0-rc.1", True),
        ("v2.4.0", False),
        ("2.4", False),
        ("2.04.0", False),
        ("2.4.0-dev", False),
        ("2.4.0-rc.0", False),
        ("2.4.0-beta1", False),
        ("nightly", False),
    ],
)
def test_which_tags_are_versions(tag, is_version):
    parsed = versions.parse(tag)
    assert (parsed is not None) is is_version
    assert parsed is None or parsed.full == tag


@pytest.fixture
def git(tmp_path, require):
    require("git")
    argv = ["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@example.invalid"]

    def run(*words):
        subprocess.run([*argv, *words], check=True, capture_output=True)

    run("init", "-q")
    return run


def commit(git, *tags):
    git("commit", "-q", "--allow-empty", "-m", "x")
    for tag in tags:
        git("tag", tag)


def test_what_git_says(git, tmp_path):
    def here():
        return versions.commit_of("git", tmp_path)

    commit(git)
    commit(git)
    assert (here().since, here().release, here().tags) == (2, None, ())
    commit(git, "2.3.0", "2.3.0-rc.9", "nightly")
    assert set(here().tags) == {"2.3.0", "2.3.0-rc.9", "nightly"}
    commit(git)
    # An older line's release comes later, and candidates count for nothing.
    commit(git, "2.2.7", "2.4.0-rc.1", "v2.9.0")
    commit(git)
    git("branch", "2.3.0")
    found = here()
    assert (found.since, found.release, found.tags) == (3, Version(2, 3, 0, ""), ())
    assert not found.is_dirty
    (tmp_path / "new").touch()
    digest = source.commit("git", tmp_path)
    assert versions.of_build(Version(2, 4, 0, "dev"), here()) == (
        f"2.4.0-dev.3+g{digest[:12]}.dirty"
    )


def test_outside_of_git(tmp_path):
    commit = versions.commit_of("git", tmp_path)
    assert versions.of_build(Version(2, 4, 0, ""), commit) == "2.4.0-dev.0+unknown"
