"""What a run meets: an API server with Nodes, journal and lease, and minions that answer."""

from __future__ import annotations

import copy
import datetime
import json
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .loader import load
from .test_kubernetes import RESOURCES, Cluster
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes

JOURNAL = "/api/v1/namespaces/kube-system/configmaps/metalk8s-journal"
LEASES = "/apis/coordination.k8s.io/v1"
LEASE = f"{LEASES}/namespaces/kube-system/leases/metalk8s-orchestration"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
STATES = {
    "a": {"__run_num__": 0, "__id__": "Do it", "result": True, "changes": {"x": 1}, "comment": ""},
    "b": {"__run_num__": 1, "__id__": "Have it", "result": True, "changes": {}, "comment": ""},
}
UTILITIES = ("apiserver", "doctor", "journal", "minions", "nodes", "plan", "turn")
# Of a master: whoever it is to serve is told of it first.
DEPLOYMENT = [
    "check",
    "enrol",
    "answer",
    "modules",
    "neighbours-boot",
    "mark",
    "highstate",
    "ready",
    "spread",
    "record",
]


class KilledError(BaseException):
    """The process is gone: nothing of it is caught, nothing is put in order."""


def node(name: str, *roles: str, ready: bool = True, version: str = "2.4.0") -> dict[str, Any]:
    labels = {f"node-role.kubernetes.io/{role}": "" for role in roles}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "metalk8s.scality.com/version": version}},
        "spec": {},
        "status": {"conditions": [READY] if ready else []},
    }


class World:
    """An API server with objects, and minions that answer from a table."""

    def __init__(self, api: Cluster) -> None:
        self.api = api
        self.jobs: list[tuple[str, str, list[Any]]] = []
        self.members = [member("boot")]
        self.answers: dict[tuple[str, str], Callable[..., Any]] = {
            ("boot", "metalk8s_etcd.status"): lambda: self.members,
            ("boot", "metalk8s_enrolment.check"): lambda _: {"problems": [], "facts": {"a": 1}},
            ("boot", "metalk8s_enrolment.enrol"): lambda _: {"changed": True, "comment": "in"},
            ("boot", "metalk8s_enrolment.forget"): lambda _: {"changed": True, "comment": "out"},
            ("boot", "metalk8s_drain.drain"): lambda _: {"changed": True, "evicted": ["a/b"]},
            ("boot", "metalk8s_drain.forget_node"): self.forget_node,
            ("boot", "metalk8s_roles.record"): lambda *_: {"changed": True, "comment": ""},
            ("boot", "metalk8s_spread.spread"): lambda: {
                "changed": True,
                "evicted": ["kube-system/d"],
            },
        }
        for name in ("boot", "w"):
            self.answers[name, "test.ping"] = lambda: True
            self.answers[name, "saltutil.sync_all"] = lambda saltenv: {"modules": ["modules.x"]}
            self.answers[name, "state.apply"] = self.apply
        self.put(node("boot", "bootstrap"))
        self.put(node("w", "master", ready=False))
        api.objects[JOURNAL] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "j", "namespace": "kube-system", "resourceVersion": "0"},
        }
        api.objects[JOURNAL]["metadata"]["name"] = "metalk8s-journal"
        api.objects[LEASE] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "metalk8s-orchestration",
                "namespace": "kube-system",
                "resourceVersion": "0",
            },
            "spec": {},
        }

    def put(self, one: dict[str, Any]) -> None:
        self.api.objects[f"/api/v1/nodes/{one['metadata']['name']}"] = one

    def forget_node(self, name: str) -> dict[str, Any]:
        gone = self.api.objects.pop(f"/api/v1/nodes/{name}", None)
        return {"changed": bool(gone), "comment": ""}

    def apply(self, names: str = "", **options: Any) -> Any:
        assert options == {"saltenv": "metalk8s-2.4.0", "queue": True}
        if not names:
            self.put(node("w", "master"))
        return copy.deepcopy(STATES)

    def runs(self) -> list[dict[str, Any]]:
        data = self.api.objects[JOURNAL].get("data", {})
        return [json.loads(data[key]) for key in sorted(data)]

    def did(self, function: str) -> int:
        return sum(job[1] == function for job in self.jobs)

    # -- what Salt's LocalClient is -------------------------------------------------------------
    def cmd_iter_no_block(
        self, targets: list[str], function: str, arguments: Any = (), **settings: Any
    ) -> Iterator[Any]:
        assert settings["tgt_type"] == "list"
        for minion in targets:
            self.jobs.append((minion, function, list(arguments)))
            yield None
            answer = self.answers.get((minion, function))
            if answer is not None:
                yield from self.said(minion, answer, arguments, settings.get("kwarg") or {})

    def said(self, minion: str, answer: Any, arguments: Any, options: Any) -> Iterator[Any]:
        try:
            said = answer(*arguments, **options)
        except Exception as error:
            text = "The minion function caused an exception: Traceback (most recent call last):\n"
            yield {minion: {"ret": f"{text}  x\n{type(error).__name__}: {error}\n", "retcode": 1}}
            return
        if said is not LOST:
            yield {minion: {"ret": said, "retcode": 0}}

    def destroy(self) -> None:
        pass


LOST = object()


def member(name: str, **more: Any) -> dict[str, Any]:
    return {"id": "1", "name": name, "healthy": True, "learner": False, "peers": [], **more}


@pytest.fixture
def world(
    monkeypatch: pytest.MonkeyPatch, kubernetes: Any, cluster: Cluster, tmp_path: pathlib.Path
) -> World:
    """Stand in for Salt's own packages, which these modules import."""
    found = World(cluster)
    monkeypatch.setitem(
        RESOURCES, LEASES, [{"name": "leases", "kind": "Lease", "namespaced": True}]
    )
    functions = {
        f"metalk8s_kubernetes.{name}": getattr(kubernetes, name)
        for name in ("get", "list_objects", "replace", "why_not_ready")
    }

    class CommandExecutionError(Exception):
        pass

    def modules(opts: Any, whitelist: list[str]) -> Any:
        assert "metalk8s_kubernetes" in whitelist
        return functions

    fakes = {
        "salt": {},
        "salt.client": {"get_local_client": lambda mopts: found},
        "salt.exceptions": {"CommandExecutionError": CommandExecutionError},
        "salt.loader": {"minion_mods": modules},
    }
    for name, content in fakes.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            setattr(sys.modules["salt"], name.partition(".")[2], module)
    return found


class Runner:
    """The runners as one process of ``salt-run`` has them."""

    def __init__(self, kubeconfig: str) -> None:
        loaded = {name: load(f"_utils/metalk8s_{name}", context={}) for name in UTILITIES}
        loaded["apiserver"].KUBECONFIG = kubeconfig
        loaded["minions"].PAUSE = 0
        self.minions, self.turn = loaded["minions"], loaded["turn"]
        utilities = {
            f"metalk8s_{name}.{function}": getattr(module, function)
            for name, module in loaded.items()
            for function in dir(module)
            if isinstance(getattr(module, function), types.FunctionType)
        }
        self.deploy = load("_runners/metalk8s_deploy", utils=utilities)
        self.turn.PAUSE = self.deploy.PAUSE = 0.01
        self.now = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
        self.turn._now = self.deploy._now = lambda: self.now


@pytest.fixture
def runner(world: World, kubernetes: Any) -> Runner:
    return Runner(kubernetes.ADMINISTRATOR)


def steps(answer: dict[str, Any], done: bool | None = None) -> list[str]:
    return [one["id"] for one in answer["steps"] if done is None or one["done"] is done]
