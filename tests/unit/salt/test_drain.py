"""Pods that leave a node, by an API that is stood in for where HTTP begins."""

from __future__ import annotations

import types
import urllib.parse
from typing import Any

import pytest

from .loader import load
from .test_kubernetes import Cluster, cluster, kubernetes, merged

__all__ = ("cluster", "kubernetes")  # fixtures

NODE = "/api/v1/nodes/n"


def pod(name: str, owner: str = "ReplicaSet", phase: str = "Running", **more: Any) -> Any:
    metadata = {"name": name, "namespace": "apps", "uid": f"uid-{name}", **more}
    if owner:
        other = {"kind": "Nobody", "controller": False}
        metadata["ownerReferences"] = [other, {"kind": owner, "controller": True}]
    return {"metadata": metadata, "status": {"phase": phase}}


class Node:
    """An API server of one node: pods need some looks to end, and budgets some attempts."""

    def __init__(self, cluster: Cluster, *pods: Any) -> None:
        cluster.objects[NODE] = {"metadata": {"name": "n"}, "spec": {}}
        self.answer_else, self.cluster = cluster.answer, cluster
        self.pods = {one["metadata"]["name"]: one for one in pods}
        self.looks: dict[str, int] = {}
        self.budget: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.evictions: list[dict[str, Any]] = []

    def answer(self, method: str, target: str, body: Any, content: str) -> tuple[int, Any]:
        url = urllib.parse.urlsplit(target)
        if url.path == "/api/v1/pods":
            assert urllib.parse.parse_qs(url.query) == {"fieldSelector": ["spec.nodeName=n"]}
            return 200, {"kind": "PodList", "items": self.look()}
        if url.path.endswith("/eviction"):
            return self.evict(url.path.split("/")[-2], body)
        if method == "PATCH" and url.path in self.cluster.objects:
            assert content == "application/merge-patch+json"
            self.cluster.objects[url.path] = merged(self.cluster.objects[url.path], body)
            return 200, self.cluster.objects[url.path]
        return self.answer_else(method, target, body, content)

    def look(self) -> list[Any]:
        for name in [name for name, left in self.looks.items() if left == 0]:
            del self.pods[name], self.looks[name]
        self.looks = {name: left - 1 for name, left in self.looks.items()}
        return list(self.pods.values())

    def evict(self, name: str, body: Any) -> tuple[int, Any]:
        if name in self.refused:
            return self.refused[name], {"kind": "Status", "message": f"{self.refused[name]} it is"}
        if self.budget.get(name):
            self.budget[name] -= 1
            return 429, {"kind": "Status", "message": "it would violate the budget"}
        self.evictions.append(body)
        self.pods[name]["metadata"]["deletionTimestamp"] = "now"
        self.looks[name] = 2
        return 201, {"kind": "Status", "status": "Success"}

    def evicted(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.evictions]


@pytest.fixture
def drain(kubernetes: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the module; give ``of``, which puts pods on the node."""
    module = load("_modules/metalk8s_drain", salt={"metalk8s_kubernetes.call": kubernetes.call})
    module.PAUSE = 0

    def of(*pods: Any) -> Node:
        node = Node(cluster, *pods)
        monkeypatch.setattr(cluster, "answer", node.answer)
        return node

    return types.SimpleNamespace(module=module, of=of)


def test_all_go_that_can_run_elsewhere(drain: Any, cluster: Cluster) -> None:
    """Those of files and of each node stay; those that end already are waited for."""
    node = drain.of(
        pod("web"),
        pod("store", "StatefulSet"),
        pod("etcd-n", "Node", annotations={"kubernetes.io/config.mirror": "hash"}),
        pod("proxy", "DaemonSet"),
        pod("job", "Job", "Succeeded"),
        pod("done", "", "Failed"),
        pod("ending", deletionTimestamp="now"),
    )
    node.looks["ending"] = 4
    answer = drain.module.drain("n")
    gone = ["apps/done", "apps/job", "apps/store", "apps/web"]
    assert answer == {"changed": True, "evicted": gone}
    assert sorted(node.pods) == ["etcd-n", "proxy"]
    assert sorted(node.evicted()) == ["done", "job", "store", "web"]
    assert node.evictions[0] == {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "apps"},
        "deleteOptions": {"preconditions": {"uid": "uid-web"}},
    }
    assert cluster.objects[NODE]["spec"] == {"unschedulable": True}
    assert drain.module.drain("n") == {"changed": False, "evicted": []}
    assert drain.module.uncordon("n") == {"changed": True}
    assert cluster.objects[NODE]["spec"] == {}
    assert drain.module.uncordon("n") == {"changed": False}


def test_what_nothing_would_run_again(drain: Any, cluster: Cluster) -> None:
    """It is named before anything is changed, and goes when that is wanted."""
    node = drain.of(pod("b", ""), pod("a", ""), pod("web"))
    with pytest.raises(drain.module.DrainError, match=r"elsewhere: apps/a, apps/b\. Delete them"):
        drain.module.drain("n")
    assert (node.evictions, cluster.objects[NODE]["spec"]) == ([], {})
    assert drain.module.drain("n", force=True, grace=3)["changed"] is True
    assert {one["deleteOptions"]["gracePeriodSeconds"] for one in node.evictions} == {3}
    assert node.pods == {}


def test_budgets(drain: Any) -> None:
    """They are waited for, until the time is over; then the pods are named, with reasons."""
    node = drain.of(pod("web"), pod("late"))
    node.budget = {"web": 25}
    assert drain.module.drain("n")["evicted"] == ["apps/late", "apps/web"]
    node = drain.of(pod("web"), pod("late", deletionTimestamp="now"))
    node.budget = {"web": 1000}
    with pytest.raises(drain.module.DrainError) as caught:
        drain.module.drain("n", timeout=-1)
    assert str(caught.value) == (
        "After -1 s, n still has pods: the API lets these not go: apps/web (it would violate the "
        "budget); these have not ended: apps/late. It gets no new ones; drain it again when they "
        "may go, or uncordon it."
    )


def test_pods_that_are_others_by_now(drain: Any) -> None:
    """Gone meanwhile, or made anew under the same name: the next look tells."""
    node = drain.of(pod("gone"), pod("other"), pod("web"))
    node.refused = {"gone": 404, "other": 409}
    node.looks = {"gone": 1, "other": 1}
    drain.module.drain("n")
    assert node.evicted() == ["web"]
    node = drain.of(pod("web"))
    node.refused = {"web": 500}
    with pytest.raises(drain.module.DrainError, match="apps/web cannot be evicted: 500 it is"):
        drain.module.drain("n")


def test_nodes_that_are_not_there(drain: Any, cluster: Cluster) -> None:
    """To forget one twice is no error; to drain it is. What else goes wrong is told."""
    drain.of()
    assert drain.module.forget_node("n") == {"changed": True}
    assert drain.module.forget_node("n") == {"changed": False}
    for function in (drain.module.drain, drain.module.uncordon):
        with pytest.raises(drain.module.DrainError, match=r"The cluster has no node n\."):
            function("n")
    cluster.down = True
    for function in (drain.module.drain, drain.module.uncordon, drain.module.forget_node):
        with pytest.raises(Exception, match="does not answer"):
            function("n")
