"""Replicas on machines of their own: which one goes, and when that is over."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from .loader import load

SPREAD = load("_modules/metalk8s_spread")
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
MASTER = {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}
RULE = {
    "topologyKey": "kubernetes.io/hostname",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
}


def deployment(rules: Any = (RULE,), replicas: int = 2, **template: Any) -> dict[str, Any]:
    spec = {"nodeSelector": {"os": "linux"}, "topologySpreadConstraints": list(rules), **template}
    return {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"spec": spec},
        },
    }


def node(name: str, status: Any = READY, labels: Any = None, **spec: Any) -> dict[str, Any]:
    there = {"os": "linux", "kubernetes.io/hostname": name}
    metadata = {"name": name, "labels": there if labels is None else labels}
    return {"metadata": metadata, "spec": spec, "status": status}


def pod(name: str, machine: str, status: Any = READY, app: str = "d", **more: Any) -> Any:
    metadata = {"name": name, "labels": {"app": app, "hash": "1"}, **more}
    return {"metadata": metadata, "spec": {"nodeName": machine}, "status": status}


BOTH = (pod("d1", "a"), pod("d2", "a"))
AGED = (pod("y", "a", creationTimestamp="2"), pod("z", "a", creationTimestamp="1"))


@pytest.mark.parametrize(
    ("pods", "nodes", "gone"),
    [
        (BOTH, [node("a"), node("b")], "d2"),
        (BOTH, [node("a", unschedulable=True), node("b")], "d2"),
        ((*BOTH, pod("x", "b", app="x")), [node("a"), node("b")], "d2"),
        ((*BOTH, pod("old", "b", deletionTimestamp="now")), [node("a"), node("b")], "d2"),
        ((*BOTH, pod("over", "b", {"phase": "Failed"})), [node("a"), node("b")], "d2"),
        (AGED, [node("a"), node("b")], "y"),
        (BOTH, [node("a")], ""),
        (BOTH, [], ""),
        ((), [node("a"), node("b")], ""),
        ((pod("d1", "a"), pod("d2", "b")), [node("a"), node("b"), node("c")], ""),
        ((pod("d1", "a"), pod("d2", "a", deletionTimestamp="now")), [node("a"), node("b")], ""),
        ((pod("d1", "a"), pod("waits", "")), [node("a"), node("b")], ""),
        ((pod("d1", "a"), pod("lost", "gone")), [node("a"), node("b")], ""),
        (BOTH, [node("a"), node("b", {})], ""),
        (BOTH, [node("a"), node("b", unschedulable=True)], ""),
        (BOTH, [node("a"), node("b", labels={"os": "linux"})], ""),
        (BOTH, [node("a"), node("b", labels={"kubernetes.io/hostname": "b"})], ""),
        (BOTH, [node("a"), node("b", taints=[MASTER])], ""),
    ],
)
def test_which_one_goes(pods: Any, nodes: Any, gone: str) -> None:
    """The youngest where two stand on one machine, and another one would take it."""
    found = SPREAD.superfluous(deployment(), list(pods), nodes)
    assert (found["metadata"]["name"] if found else "") == gone


@pytest.mark.parametrize(
    ("toleration", "taint", "is_borne"),
    [
        ({"key": MASTER["key"], "operator": "Exists", "effect": "NoSchedule"}, MASTER, True),
        ({"key": MASTER["key"], "operator": "Exists"}, MASTER, True),
        ({"operator": "Exists"}, MASTER, True),
        ({"key": "k", "value": "v"}, {"key": "k", "value": "v", "effect": "NoExecute"}, True),
        ({"key": "k", "value": "w"}, {"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, MASTER, False),
        ({"key": MASTER["key"], "operator": "Exists", "effect": "NoExecute"}, MASTER, False),
        ({"key": "k"}, {"key": "other", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_taints(toleration: Any, taint: Any, is_borne: bool) -> None:
    nodes = [node("a"), node("b", taints=[taint])]
    found = SPREAD.superfluous(deployment(tolerations=[toleration]), list(BOTH), nodes)
    assert bool(found) is is_borne


@pytest.mark.parametrize(
    "rules",
    [
        (),
        ({**RULE, "whenUnsatisfiable": "ScheduleAnyway"},),
        ({**RULE, "topologyKey": "zone"},),
        ({**RULE, "maxSkew": 2},),
    ],
)
def test_who_does_not_have_to_be_spread(rules: Any) -> None:
    assert SPREAD.superfluous(deployment(rules), list(BOTH), [node("a"), node("b")]) is None


class World:
    """An API server, and a scheduler that obeys the rule.

    :param slow: looks until a new pod is ready; -1 is never.
    :param refusals: how many evictions the budget does not let happen.
    """

    def __init__(self, nodes: Any, pods: Any, slow: int = 1, refusals: int = 0) -> None:
        self.nodes, self.pods, self.made = list(nodes), list(pods), 0
        self.slow, self.refusals, self.looks = slow, refusals, 0
        self.deployments = [deployment((), 9), deployment(replicas=len(self.pods))]

    def list_objects(
        self, version: str, kind: str, namespace: str = "", kubeconfig: str = ""
    ) -> Any:
        assert kubeconfig == "k"
        assert namespace == ("" if kind == "Node" else "kube-system")
        self.looks += kind == "Pod"
        if self.made and self.looks == self.slow:
            self.pods[-1]["status"] = READY
        return {"Deployment": self.deployments, "Node": self.nodes, "Pod": self.pods}[kind]

    def evict(self, gone: Any, kubeconfig: str) -> str:
        assert kubeconfig == "k"
        if self.refusals:
            self.refusals -= 1
            return "the budget is against it"
        self.pods.remove(gone)
        self.made, self.looks = self.made + 1, 0
        counts = self.counts()
        self.pods.append(pod(f"new{self.made}", min(sorted(counts), key=counts.get), {}))  # type: ignore[arg-type]
        return ""

    def counts(self) -> dict[str, int]:
        places = [one["spec"]["nodeName"] for one in self.pods]
        return {
            one["metadata"]["name"]: places.count(one["metadata"]["name"]) for one in self.nodes
        }

    def spread(self, timeout: float = 30.0) -> Any:
        salt = {
            "metalk8s_kubernetes.list_objects": self.list_objects,
            "metalk8s_drain.evict": self.evict,
        }
        module = load("_modules/metalk8s_spread", salt=salt)
        module.PAUSE = 0
        return types.SimpleNamespace(module=module, answer=lambda: module.spread(timeout, "k"))


def test_two_that_stood_on_one_machine() -> None:
    """One goes, and what comes after it is waited for; again, nothing changes."""
    world = World([node("a"), node("b")], BOTH, slow=5, refusals=2)
    assert world.spread().answer() == {"changed": True, "evicted": ["kube-system/d2"]}
    assert world.looks >= world.slow
    assert world.counts() == {"a": 1, "b": 1}
    assert world.spread().answer() == {"changed": False, "evicted": []}


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"slow": -1}, r"^The replicas of d do not become ready on machines of their own: see "),
        ({"refusals": 99}, r"of their own \(the budget is against it\): see kubectl --namespace"),
    ],
)
def test_it_does_not_wait_for_ever(case: Any, said: str) -> None:
    spread = World([node("a"), node("b")], BOTH, **case).spread(timeout=0.0)
    with pytest.raises(spread.module.SpreadError, match=said):
        spread.answer()


@hypothesis.given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 2), st.integers(0, 3)
)
def test_any_replicas_are_spread(counts: list[int], refusals: int, slow: int) -> None:
    """However they stood; and no more go than have to."""
    machines = [node(f"m{number}") for number in range(len(counts))]
    pods = [pod(f"p{i}-{j}", f"m{i}") for i, count in enumerate(counts) for j in range(count)]
    world = World(machines, pods, slow, refusals)
    world.slow = max(1, slow)
    answer = world.spread().answer()
    found = world.counts().values()
    assert sum(found) == sum(counts)
    assert max(found) - min(found) <= 1
    least, more = divmod(sum(counts), len(counts))
    wanted = sorted([least + 1] * more + [least] * (len(counts) - more), reverse=True)
    needed = sum(max(0, a - b) for a, b in zip(sorted(counts, reverse=True), wanted, strict=True))
    assert len(answer["evicted"]) == needed


def test_the_pods_that_answer_for_names_are_spread() -> None:
    """As their Deployment is rendered; its update takes one away before it adds one."""
    golden = "render/golden/debian-12/files/metalk8s/dns/files/objects.yaml"
    text = (pathlib.Path(__file__).parents[2] / golden).read_text()
    [names] = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    labels = names["spec"]["selector"]["matchLabels"]
    pods = [{**one, "metadata": {**one["metadata"], "labels": labels}} for one in BOTH]
    there = {"kubernetes.io/os": "linux"}
    nodes = [
        node(name, labels={**there, "kubernetes.io/hostname": name}, taints=[MASTER])
        for name in ("a", "b")
    ]
    found = SPREAD.superfluous(names, pods, nodes)
    assert found
    assert found["metadata"]["name"] == "d2"
    [rule] = names["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert rule["labelSelector"]["matchLabels"] == labels
    assert names["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
