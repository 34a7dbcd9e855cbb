"""How a machine becomes a member of etcd: the decision, over all that may be there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .loader import load

decide = load("_modules/metalk8s_membership").decide
beginning = load("_modules/metalk8s_membership").beginning

URL = "https://10.0.0.1:2380"
OWN = {"cluster": f"one={URL}", "state": "new"}


def member(name: str, number: int, learner: bool = False, url: str = "") -> dict[str, Any]:
    return {
        "id": f"{number:x}",
        "cluster": "c",
        "name": name,
        "peers": [url or f"https://10.0.0.{number}:2380"],
        "clients": [f"https://10.0.0.{number}:2379"] if name else [],
        "learner": learner,
    }


TWO, THREE = member("two", 2), member("three", 3)
FACTS: dict[str, Any] = {
    "name": "one",
    "url": URL,
    "first": False,
    "others": ["two"],
    "data": {},
    "members": [TWO],
    "healthy": ["2"],
    "recorded": {},
}
DATA = {"id": "1", "cluster": "c"}


@pytest.mark.parametrize(
    ("facts", "action", "why"),
    [
        ({"members": None, "others": [], "first": True}, "found", "begins a cluster"),
        ({"members": None, "others": []}, "refuse", "names no machine"),
        ({"members": None, "first": True}, "refuse", "another cluster than that of two. Let"),
        ({"members": None, "first": True}, "refuse", "metalk8s.enrolment.absent"),
        ({}, "join", "one becomes a member"),
        ({"members": [TWO, member("three", 3, learner=True)]}, "refuse", "three is not one yet"),
        ({"members": [TWO, member("", 3, learner=True)]}, "refuse", "https://10.0.0.3:2380 is not"),
        ({"members": [TWO, member("", 1, learner=True)]}, "go on", "expects one"),
        ({"members": [TWO, member("", 1)]}, "go on", "expects one"),
        ({"members": [TWO, member("old", 1)]}, "refuse", "remove_member old"),
        ({"members": [TWO, member("one", 1)]}, "refuse", "of 2 members that vote, 1 others"),
        ({"members": [TWO, member("one", 1, learner=True)]}, "replace", "are lost"),
        (
            {"members": [TWO, THREE, member("one", 1)], "healthy": ["2", "3"]},
            *("replace", "are lost"),
        ),
        ({"members": [TWO, THREE, member("one", 9)], "healthy": ["2"]}, "refuse", "1 others"),
        (
            {
                "members": [TWO, THREE, member("one", 1), member("", 4, learner=True)],
                "healthy": ["2", "3"],
            },
            *("refuse", "one new member at a time"),
        ),
        ({"data": DATA, "members": None}, "start", "no member answers"),
        ({"data": DATA, "members": [TWO, member("one", 1)]}, "start", "is a member"),
        ({"data": DATA, "members": [TWO, member("", 1, learner=True)]}, "start", "is a member"),
        ({"data": DATA}, "refuse", "was removed (1)"),
        ({"data": DATA, "members": [TWO, member("one", 9)]}, "refuse", "metalk8s.etcd.absent"),
        ({"data": {"id": "1", "cluster": "d"}}, "refuse", "of another cluster"),
    ],
)
def test_decisions(facts: dict[str, Any], action: str, why: str) -> None:
    """Each with its reason."""
    found = decide({**FACTS, **facts})
    assert found["action"] == action, found
    assert why in found["why"]


def test_what_only_the_first_machine_can_do() -> None:
    """Another one is not told to; bootstrap.sh shows 500 characters of it."""
    facts = {**FACTS, "members": None, "others": ["node-2", "node-3"]}
    assert decide(facts)["why"].endswith("try again.")
    assert len(decide({**facts, "first": True})["why"]) < 450


def test_lost_data_go_with_all_entries() -> None:
    """Also one that a former run left."""
    entries = [TWO, THREE, member("one", 9, url="https://10.9.9.9:2380"), member("", 1, True)]
    found = decide({**FACTS, "members": entries, "healthy": ["2", "3"]})
    assert (found["action"], found["remove"]) == ("replace", ["9", "1"])


def test_how_it_begins() -> None:
    """What is recorded stays; a single machine of before has what its manifest says anyway."""
    alone = {**FACTS, "data": DATA, "others": [], "members": [member("one", 1)]}
    assert decide(alone)["initial"] == OWN
    assert decide({**alone, "members": None})["initial"] == OWN
    assert decide({**alone, "members": None, "others": ["two"]})["initial"]["state"] == "existing"
    recorded = {"cluster": "one=x", "state": "existing"}
    there = {**FACTS, "data": DATA, "members": [TWO, member("one", 1)]}
    assert decide({**there, "recorded": recorded})["initial"] == recorded
    both = {"cluster": f"one={URL},two=https://10.0.0.2:2380", "state": "existing"}
    assert decide(there)["initial"] == both
    # A former run that was killed counted on members that are others by now.
    waiting = {**FACTS, "members": [TWO, member("", 1, True)], "recorded": recorded}
    assert decide(waiting)["initial"] == both


def test_who_has_no_name_yet_goes_by_number() -> None:
    """etcd compares URLs; only the own name has to be there."""
    found = beginning([member("", 12), member("", 1, True)], "one", URL)
    assert found["cluster"] == f"c=https://10.0.0.12:2380,one={URL}"


names = st.sampled_from(["", "one", "two", "three"])
members = st.none() | st.lists(
    st.builds(member, names, st.integers(1, 4), st.booleans()),
    max_size=4,
    unique_by=lambda one: one["id"],
)
facts = st.fixed_dictionaries(
    {
        "name": st.just("one"),
        "url": st.just(URL),
        "first": st.booleans(),
        "others": st.lists(st.sampled_from(["two", "three"]), unique=True),
        "data": st.just({})
        | st.fixed_dictionaries(
            {"id": st.sampled_from("1234"), "cluster": st.sampled_from(["c", "d"])}
        ),
        "members": members.filter(lambda found: found != []),
        "healthy": st.lists(st.sampled_from("1234"), unique=True),
        "recorded": st.just({}) | st.just({"cluster": "kept", "state": "existing"}),
    }
)


@given(facts)
def test_nothing_is_lost(known: dict[str, Any]) -> None:
    """Whatever is there: no second cluster, no log overwritten, no voter gone without a quorum."""
    found = decide(known)
    there, answers = known["data"], known["members"]
    assert found["why"]
    assert (found["action"] in ("found", "start", "go on")) == bool(found["initial"])
    assert bool(found["remove"]) == (found["action"] == "replace")
    if found["action"] == "found":
        assert (there, answers, known["others"], known["first"]) == ({}, None, [], True)
    if there:
        assert found["action"] in ("start", "refuse")
        if known["recorded"] and found["action"] == "start":
            assert found["initial"] == known["recorded"]
    if there and answers is not None:
        known_here = {(one["id"], one["cluster"]) for one in answers}
        is_member = (there["id"], there["cluster"]) in known_here
        assert (found["action"] == "start") == is_member
    if found["initial"].get("state") == "new" and answers is not None:
        assert [one["id"] for one in answers] == [there["id"]], "only who is alone began one"
    if found["action"] in ("join", "replace"):
        others = [one for one in answers if one["id"] not in found["remove"]]
        assert not any(one["learner"] for one in others), "etcd takes one learner at a time"
        assert not any(URL in one["peers"] or one["name"] == "one" for one in others)
    if found["action"] == "replace":
        voters = {one["id"] for one in answers if not one["learner"]}
        rest = voters.intersection(known["healthy"]).difference(found["remove"])
        assert 2 * len(rest) > len(voters)
        gone = {one["id"]: one["name"] for one in answers if one["id"] in found["remove"]}
        assert set(gone.values()) <= {"", "one"}
    if found["action"] == "go on":
        assert f"one={URL}" in found["initial"]["cluster"].split(",")
        assert found["initial"]["cluster"].count("=") == len(answers)
