"""Membership in etcd as states see it; tests/integration/test_etcd_members.py asks a real etcd."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from .loader import load

URL = "https://10.0.0.1:2380"
DECISION = {"action": "start", "why": "because", "initial": {"cluster": "c"}, "remove": []}
STOP = ("stop", "/m/etcd.yaml", "etcd-one")
JOINED = {"cluster": "one=x,two=y", "state": "existing"}


class Etcd:
    """What the modules answer, and what they were asked to change."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.decision: dict[str, Any] = DECISION
        self.recorded: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        self.found: Iterator[Any] = iter(())
        self.promoted: Iterator[Any] = iter(())
        self.health: Iterator[str] = iter(())
        self.can_ask = self.stops = True
        self.identity: Any = {}

    def members(self, endpoints: list[str] | None = None) -> Any:
        self.asked.append(("members", endpoints))
        return self.answer(self.found)

    def answer(self, answers: Iterator[Any]) -> Any:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    def decide(self, facts: dict[str, Any]) -> dict[str, Any]:
        self.facts = facts
        return self.decision

    def add(self, name: str, address: str) -> list[str]:
        self.asked.append(("add", name, address))
        return ["members"]

    def stop(self, name: str, pod: str) -> dict[str, Any]:
        self.asked.append(("stop", name, pod))
        return {"result": self.stops, "comment": "the kubelet still runs it"}

    def state(self, test: bool = False) -> Any:
        functions = {
            "metalk8s_membership.decide": self.decide,
            "metalk8s_membership.beginning": lambda members, name, url: JOINED,
            "metalk8s_etcd.members": self.members,
            "metalk8s_etcd.status": lambda: [
                {"id": "1", "healthy": True},
                {"id": "2", "healthy": False},
            ],
            "metalk8s_etcd.peer_url": lambda address: f"https://{address}:2380",
            "metalk8s_etcd.client_url": lambda address: f"https://{address}:2379",
            "metalk8s_etcd.forget": lambda number: self.asked.append(("forget", number)),
            "metalk8s_etcd.add_learner": self.add,
            "metalk8s_etcd.promote": lambda name: self.answer(self.promoted),
            "metalk8s_etcd.why_not_healthy": lambda url: self.answer(self.health),
            "metalk8s_etcd.can_ask": lambda: self.can_ask,
            "metalk8s_etcd_data.identity": lambda data: self.answer(iter([self.identity])),
            "metalk8s_etcd_data.recorded": lambda: self.recorded,
            "metalk8s_etcd_data.keep": lambda initial: self.asked.append(("keep", initial)),
        }
        stop = {"metalk8s_static_pod.absent": self.stop}
        module = load("_states/metalk8s_etcd", salt=functions, states=stop, opts={"test": test})
        module.PAUSE = 0
        return module

    def member(self, data: pathlib.Path, test: bool = False) -> dict[str, Any]:
        self.found = iter([["two"]])
        answer: dict[str, Any] = self.state(test).member(
            "one",
            address="10.0.0.1",
            first=False,
            others=["two"],
            data=str(data),
            manifest="/m/etcd.yaml",
        )
        return answer

    def changes(self) -> list[tuple[Any, ...]]:
        return [one for one in self.asked if one[0] != "members"]


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


def test_what_is_decided_on(etcd: Etcd, tmp_path: pathlib.Path) -> None:
    """Health is asked for only where a member may have to go; no answer is a fact, too."""
    etcd.member(tmp_path)
    assert etcd.facts == {
        "name": "one",
        "url": URL,
        "first": False,
        "others": ["two"],
        "data": {},
        "members": ["two"],
        "healthy": ["1"],
        "recorded": {},
    }
    etcd.identity = {"id": "1"}
    etcd.member(tmp_path)
    assert (etcd.facts["data"], etcd.facts["healthy"]) == ({"id": "1"}, [])
    etcd.identity = ValueError("a.wal does not say which member wrote it")
    answer = etcd.member(tmp_path)
    assert (answer["result"], answer["comment"]) == (False, str(etcd.identity))


def test_members_that_nobody_can_ask(etcd: Etcd) -> None:
    etcd.found = iter([OSError("no")])
    arguments: dict[str, Any] = {"address": "10.0.0.1", "first": True, "others": [], "data": "/x"}
    arguments["manifest"] = "/x"
    etcd.state().member("one", **arguments)
    assert (etcd.facts["members"], etcd.facts["healthy"]) == (None, [])
    etcd.can_ask = False
    assert etcd.state(test=True).member("one", **arguments)["result"] is None


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize(
    ("decision", "recorded", "changes", "done"),
    [
        ({"action": "refuse", "initial": {}}, {}, None, []),
        ({}, {"cluster": "c"}, {}, []),
        ({}, {}, {"begins": {"cluster": "c"}}, [("keep", {"cluster": "c"})]),
        (
            {"action": "go on"},
            {"cluster": "old"},
            {"begins": {"cluster": "c"}},
            [("keep", {"cluster": "c"})],
        ),
        (
            {"action": "join", "initial": {}},
            {},
            {"member": "join", "begins": JOINED},
            [STOP, ("add", "one", "10.0.0.1"), ("keep", JOINED)],
        ),
        (
            {"action": "replace", "initial": {}, "remove": ["9", "8"]},
            JOINED,
            {"member": "replace", "begins": JOINED},
            [
                *(STOP, ("forget", "9"), ("forget", "8")),
                *(("add", "one", "10.0.0.1"), ("keep", JOINED)),
            ],
        ),
    ],
)
def test_carried_out(
    etcd: Etcd,
    tmp_path: pathlib.Path,
    decision: dict[str, Any],
    recorded: dict[str, str],
    changes: dict[str, Any] | None,
    done: list[tuple[Any, ...]],
    test: bool,
) -> None:
    """In a test, nothing is; without a change, nothing either."""
    etcd.decision, etcd.recorded = {**DECISION, **decision}, recorded
    rest = tmp_path / "member/snap"
    rest.mkdir(parents=True)
    answer = etcd.member(tmp_path, test)
    result = False if changes is None else True if not changes or not test else None
    assert answer["result"] is result
    assert "because" in answer["comment"]
    begins_anew = "member" in (changes or {})
    foreseen = {"member": decision["action"]} if begins_anew and test else changes or {}
    assert answer["changes"] == foreseen
    assert etcd.changes() == ([] if test else done)
    assert rest.exists() is (test or not begins_anew)


def test_a_pod_of_before_that_stays(etcd: Etcd, tmp_path: pathlib.Path) -> None:
    """Nothing is done beside it: it would begin another cluster in the folder."""
    etcd.decision, etcd.stops = {**DECISION, "action": "replace", "remove": ["9"]}, False
    (tmp_path / "member").mkdir()
    answer = etcd.member(tmp_path)
    assert (answer["result"], answer["comment"]) == (False, "the kubelet still runs it")
    assert (etcd.changes(), (tmp_path / "member").exists()) == ([STOP], True)


LEARNER, VOTER = [{"name": "one", "learner": True}], [{"name": "one", "learner": False}]


def test_votes_when_it_has_learnt(etcd: Etcd) -> None:
    """Not there, no leader, not in sync, not healthy: each is waited for."""
    etcd.found = iter([OSError("no"), [], LEARNER, LEARNER, VOTER, VOTER])
    etcd.promoted = iter([RuntimeError("in sync with leader"), True])
    etcd.health = iter(["no quorum", ""])
    answer = etcd.state().votes("one", address="10.0.0.1")
    assert (answer["result"], answer["changes"]) == (True, {"votes": "one"})
    assert [list(one) for one in (etcd.found, etcd.promoted, etcd.health)] == [[], [], []]
    etcd.found, etcd.health = iter([VOTER]), iter([""])
    assert etcd.state().votes("one", address="10.0.0.1")["changes"] == {}


def test_votes_never(etcd: Etcd) -> None:
    """The sentence has the last reason."""
    etcd.found = iter([[{"name": "two", "learner": False}]])
    answer = etcd.state().votes("one", address="10.0.0.1", timeout=-1)
    assert answer["result"] is False
    assert answer["comment"].endswith("etcd knows no member one that has started")
    etcd.found, etcd.promoted = iter([LEARNER, VOTER]), iter([True])
    etcd.health = iter(["no quorum"])
    answer = etcd.state().votes("one", address="10.0.0.1", timeout=-1)
    assert (answer["result"], answer["changes"]) == (False, {"votes": "one"})


def test_votes_or_ends(etcd: Etcd) -> None:
    """A member that its neighbours call a voter, and itself a learner, is not asked for ever."""
    etcd.found, etcd.promoted = itertools.repeat(LEARNER), itertools.repeat(False)
    answer = etcd.state().votes("one", address="10.0.0.1", timeout=-1)
    assert (answer["result"], answer["changes"]) == (False, {})
    assert answer["comment"].endswith("it is still called a learner")


def test_votes_in_a_test(etcd: Etcd) -> None:
    etcd.found = iter([LEARNER, OSError("does not run")])
    answer = etcd.state(test=True).votes("one", address="10.0.0.1")
    assert (answer["result"], answer["changes"]) == (None, {"votes": "one"})
    assert etcd.state(test=True).votes("one", address="10.0.0.1")["result"] is True


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "id": "9", "clients": [f"https://{name}:2379"]} for name in names]


@pytest.mark.parametrize(
    ("own", "theirs", "others", "asked", "result", "comment"),
    [
        (OSError("x"), None, {}, None, True, "one is the only member"),
        (listed("one"), None, {}, None, True, "one is the only member"),
        (listed("one", "two"), OSError("dead"), {}, ["https://two:2379"], True, "answers: dead"),
        (
            *(listed("one", "two"), listed("one", "two", ""), {"two": "two"}),
            *(["https://two:2379"], False, "one is still a member of etcd, and two, 9 count on it"),
        ),
        (
            *(OSError("x"), listed("two"), {"two": "two"}),
            *(["https://two:2379"], True, "etcd has no member one any more"),
        ),
        (
            *(OSError("x"), listed("one", "two"), {"two": "two"}),
            *(["https://two:2379"], False, "remove_member one on one of them first"),
        ),
    ],
)
@pytest.mark.parametrize("test", [False, True])
def test_who_may_go(
    etcd: Etcd,
    tmp_path: pathlib.Path,
    own: Any,
    theirs: Any,
    others: dict[str, str],
    asked: list[str] | None,
    result: bool,
    comment: str,
    test: bool,
) -> None:
    """The others are asked: what counts is whether they do count on it."""
    (tmp_path / "member/wal").mkdir(parents=True)
    etcd.found = iter([own, theirs])
    answer = etcd.state(test).left("one", others=others, data=str(tmp_path))
    assert (answer["result"], answer["changes"]) == (result, {})
    assert comment in answer["comment"]
    assert etcd.asked[1:] == ([("members", asked)] if asked else [])


def test_without_data_there_is_nobody_to_ask(etcd: Etcd, tmp_path: pathlib.Path) -> None:
    """A disk of its own has a folder of its own."""
    (tmp_path / "lost+found").mkdir()
    answer = etcd.state().left("one", others={"two": "two"}, data=str(tmp_path))
    assert (answer["result"], etcd.asked) == (True, [])


@pytest.mark.parametrize(
    ("identity", "found", "result", "comment"),
    [
        ({}, [], True, "no data"),
        ({"id": "a", "cluster": "c"}, [{"id": "b", "cluster": "c"}], True, "was removed"),
        ({"id": "a", "cluster": "d"}, [{"id": "b", "cluster": "c"}], False, "another cluster"),
        ({"id": "b", "cluster": "c"}, [{"id": "b", "cluster": "c"}], False, "is a member"),
        ({"id": "a", "cluster": "c"}, OSError("no answer"), False, "may be the only ones"),
    ],
)
def test_only_data_that_were_outlived_are_taken_without_asking(identity, found, result, comment):
    etcd = Etcd()
    etcd.identity, etcd.found = identity, iter([found])
    answer = etcd.state().outlived("one", others={"two": "two"}, data="/data")
    assert answer["result"] is result
    assert comment in answer["comment"]
    assert not answer["changes"]


def test_without_another_member_nothing_is_taken():
    etcd = Etcd()
    etcd.identity = {"id": "a", "cluster": "c"}
    answer = etcd.state().outlived("one", others={}, data="/data")
    assert answer["result"] is False
    assert "no other machine has a member" in answer["comment"]
