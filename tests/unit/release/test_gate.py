"""What is refused: each reason alone, and all of them at once."""

import dataclasses

import pytest

from buildchain.core.errors import ReleaseError
from buildchain.medium.versions import Commit
from buildchain.project.model import Version
from buildchain.project.vulnerabilities import Record, Table
from buildchain.release import gate
from buildchain.release.gate import Previous, State

ABC = "abcdef0123456789abcdef0123456789abcdef01"


def record(level, **others):
    return Record("CVE-2026-1234", "etcd", "x", "= 1", level, "open", **others)


GOOD = State(
    product="MetalK8s",
    version=Version(2, 4, 0, ""),
    commit=Commit(ABC, ("2.4.0", "nightly", "v2.4.0")),
    changes=(),
    signing_key="A" * 40,
    key_problem="",
    lock_policy="strict",
    lock_problems=(),
    base_image="",
    table=Table("medium", (record("medium"), record("high", accepted="because"))),
    changes_text="## 2.4.0 (2026-12-01)\n\n- x\n",
    previous=Previous("old.iso", "MetalK8s", "2.4.0-rc.1"),
)
# What is not as it should be, and what the one line about it begins with, and says.
REFUSALS = {
    "dirty": (
        {"changes": (" M salt/top.sls", "?? new file")},
        "checkout: 2 files are changed or not tracked (salt/top.sls, new file)",
        "Commit, remove or stash them.",
    ),
    "no git": ({"commit": Commit("unknown", ("2.4.0",))}, "checkout: git knows no", "Clone"),
    "no tag": (
        {"commit": Commit(ABC, ("nightly",))},
        "tag: the commit has no tag of a version; expected 2.4.0,",
        "git tag --sign 2.4.0.",
    ),
    "tag with a v": (
        {"commit": Commit(ABC, ("v2.4.0",))},
        "tag: the commit has the tags v2.4.0; expected 2.4.0,",
        "git tag --sign 2.4.0.",
    ),
    "tag of another version": (
        {"commit": Commit(ABC, ("2.4.0", "2.4.1"))},
        "tag: the commit has the tags 2.4.0, 2.4.1;",
        "git tag --delete 2.4.1.",
    ),
    "nothing in the changelog": (
        {"changes_text": "## 2.3.0 (2026-12-01)\n\n- x\n"},
        "CHANGELOG.md: nothing is said of 2.4.0",
        "## 2.4.0 (YYYY-MM-DD)",
    ),
    "in development": (
        {"changes_text": "## 2.4.0 (in development)\n\n- x\n"},
        "CHANGELOG.md: 2.4.0 has no date of release but (in development)",
        "Set the date.",
    ),
    "empty section": (
        {"changes_text": "## 2.4.0 (2026-12-01)\n"},
        "CHANGELOG.md: the section 2.4.0 is empty",
        "Write what changes",
    ),
    "development key": ({"signing_key": ""}, "SIGNING_KEY: not set", "Set it in .env."),
    "no secret key": ({"key_problem": "no secret key X"}, "SIGNING_KEY: no secret key X;", "card"),
    "rolling": ({"lock_policy": "roll"}, "LOCK_POLICY: roll", "expected strict"),
    "lock": ({"lock_problems": ("set x is not locked",)}, "locks: set x is not", "./doit.sh lock"),
    "foreign base": ({"base_image": "r/n@sha256:1"}, "BASE_IMAGE: r/n@sha256:1,", "Unset it."),
    "vulnerability": (
        {"table": Table("medium", (record("high"),))},
        "buildchain/pins/vulnerabilities.toml: CVE-2026-1234 of etcd: open, level high",
        "nothing open above medium",
    ),
    "unrated vulnerability": (
        {"table": Table("high", (record("unrated"),))},
        "buildchain/pins/vulnerabilities.toml: CVE-2026-1234 of etcd: open, level unrated",
        "nothing open above high",
    ),
    "previous: unreadable": (
        {"previous": Previous("x.iso", problem="no ISO image")},
        "--previous x.iso: no ISO image;",
        "older release",
    ),
    "previous: other product": (
        {"previous": Previous("x.iso", "Other", "1.0")},
        "--previous x.iso: it is of Other;",
        "an ISO of MetalK8s",
    ),
    "base: unreadable": (
        {"bases": (Previous("x.iso", problem="there is no x.iso.blocks"),)},
        "--update-from x.iso: there is no x.iso.blocks;",
        "Name that.",
    ),
    "base: newer": (
        {"bases": (Previous("x.iso", "MetalK8s", "2.4.1"),)},
        "--update-from x.iso: its version is 2.4.1;",
        "Name an older release.",
    ),
    "base: twice": (
        {
            "bases": (
                Previous("x.iso", "MetalK8s", "2.3.0"),
                Previous("y.iso", "MetalK8s", "2.3.0"),
            )
        },
        "--update-from y.iso: it is 2.3.0, as x.iso;",
        "Name it once.",
    ),
    "previous: the same": (
        {"previous": Previous("x.iso", "MetalK8s", "2.4.0")},
        "--previous x.iso: its version is 2.4.0;",
        "one older than 2.4.0",
    ),
}
DEVELOPMENT = {"version": Version(2, 4, 0, "dev")}


def test_a_release():
    assert gate.reasons(GOOD) == []
    gate.prove(GOOD)
    assert gate.reasons(dataclasses.replace(GOOD, previous=None)) == []


def test_a_candidate():
    candidate = dataclasses.replace(
        GOOD,
        version=Version(2, 4, 0, "rc.2"),
        commit=Commit(ABC, ("2.4.0-rc.2",)),
        changes_text="## 2.4.0-rc.2 (2026-12-01)\n\n- x\n",
    )
    assert gate.reasons(candidate) == []


@pytest.mark.parametrize(("change", "begins", "says"), REFUSALS.values(), ids=REFUSALS)
def test_each_reason_is_one_line(change, begins, says):
    (reason,) = gate.reasons(dataclasses.replace(GOOD, **change))
    assert reason.line.startswith(begins)
    assert says in reason.line
    assert "\n" not in reason.line


@pytest.mark.parametrize("suffix", ["dev", "beta1", "rc1", "rc.0", "rc.01"])
def test_a_version_that_is_none_of_a_release(suffix):
    state = dataclasses.replace(GOOD, version=Version(2, 4, 0, suffix))
    (reason,) = gate.reasons(state)
    assert reason.line.startswith(f"VERSION: 2.4.0-{suffix} is no version of a release; expected X")
    assert state.target == "2.4.0"


def test_all_at_once():
    names = ("dirty", "tag with a v", "in development", "development key", "rolling", "lock",
             "foreign base", "vulnerability", "previous: the same")  # fmt: skip
    changes = {k: v for name in names for k, v in REFUSALS[name][0].items()}
    with pytest.raises(ReleaseError, match=r"10 reasons against a release 2\.4\.0") as caught:
        gate.prove(dataclasses.replace(GOOD, **DEVELOPMENT, **changes))
    lines = caught.value.details.splitlines()
    assert len(lines) == 10
    for name in names:
        assert sum(line.startswith(REFUSALS[name][1]) for line in lines) == 1, name
    assert "release --dry-run" in caught.value.solution


def test_many_changes_are_counted():
    changes = tuple(f"?? file{number}" for number in range(99))
    (reason,) = gate.reasons(dataclasses.replace(GOOD, changes=changes))
    assert "99 files" in reason.line
    assert reason.line.count("file") < 15
