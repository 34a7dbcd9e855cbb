"""Marks of nodes: ours come and go, those of others stay."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis
from hypothesis import strategies as st

from .loader import load
from .test_kubernetes import merged

KEYS = st.sampled_from("abcd")
MARKS = st.dictionaries(KEYS, st.sampled_from(["", "1", "2"]), max_size=4)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])


def distinct(taint: dict[str, str]) -> str:
    return f"{taint['key']}:{taint['effect']}"


TAINTS = st.lists(
    st.fixed_dictionaries({"key": KEYS, "effect": EFFECTS}, optional={"value": st.just("v")}),
    unique_by=distinct,
    max_size=3,
)
WANTED = st.tuples(MARKS, MARKS, TAINTS)


def plan(node: dict[str, Any], wanted: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    changes, patch = load("_modules/metalk8s_marks").plan(node, *wanted)
    return changes, patch


def without(things: dict[str, str], *others: dict[str, str]) -> dict[str, str]:
    known = {"metalk8s.scality.com/marks"}.union(*others)
    return {key: value for key, value in things.items() if key not in known}


@hypothesis.given(WANTED, st.lists(WANTED, min_size=1, max_size=3))
def test_a_node_comes_to_be_as_wanted(theirs: Any, journey: list[Any]) -> None:
    """Whatever was wanted before; a second plan is empty; what others gave it stays."""
    labels, annotations, taints = copy.deepcopy(theirs)
    node: dict[str, Any] = {
        "metadata": {"labels": labels, "annotations": annotations, "resourceVersion": "1"},
        "spec": {"taints": [{**taint, "timeAdded": "now"} for taint in taints]},
    }
    for wanted in journey:
        changes, patch = plan(node, wanted)
        assert bool(changes) == bool(patch)
        if patch:
            assert patch["metadata"]["resourceVersion"] == "1"
        node = merged(node, patch)
        assert plan(node, wanted) == ({}, {})
        for part, marks in zip(("labels", "annotations"), wanted, strict=False):
            assert marks.items() <= node["metadata"][part].items()
        for taint in wanted[2]:
            assert taint in [
                {k: v for k, v in t.items() if k != "timeAdded"} for t in taints_of(node)
            ]
        names = [distinct(taint) for taint in taints_of(node)]
        assert len(names) == len(set(names))
    ever = [wanted[0] for wanted in journey]
    assert without(node["metadata"]["labels"], *ever) == without(theirs[0], *ever)
    ours = {distinct(taint) for wanted in journey for taint in wanted[2]}
    left = {distinct(taint) for taint in taints_of(node)} - ours
    assert left == {distinct(taint) for taint in theirs[2]} - ours


def taints_of(node: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = node["spec"]["taints"]
    return found


def test_what_is_no_more_wanted_goes() -> None:
    """And is named."""
    bare: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "spec": {}}
    taint = {"key": "k", "effect": "NoSchedule"}
    marked = merged(bare, plan(bare, ({"a": ""}, {"b": ""}, [taint]))[1])
    assert marked["spec"]["taints"] == [taint]
    changes, patch = plan(marked, ({}, {}, []))
    gone = {"labels": ["a"], "annotations": ["b"], "taints": ["k:NoSchedule"]}
    assert changes["removed"] == gone
    clean = merged(marked, patch)
    assert (clean["metadata"]["labels"], clean["spec"]["taints"]) == ({}, [])
    assert plan(bare, ({}, {}, [])) == ({}, {})
