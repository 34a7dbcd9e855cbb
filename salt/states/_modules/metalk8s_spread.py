"""Replicas that stand on one machine though they are to stand on several; through the API.

The scheduler looks at a pod once. A Deployment of ours whose pods are to be on different machines
says so by a ``topologySpreadConstraint`` that it has to obey: replicas that came to be when there
was one machine stay there until one of them is evicted.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

NAMESPACE = "kube-system"
BY_MACHINE = "kubernetes.io/hostname"
PAUSE = 1.0  # seconds between two looks
TIMEOUT = 300  # seconds in which all replicas have to be ready again
KEEPING_OUT = ("NoSchedule", "NoExecute")
FINISHED = ("Succeeded", "Failed")


class SpreadError(Exception):
    """Replicas stay on one machine, or are missing; the text says which and what to do."""


def spread(timeout: float = TIMEOUT, kubeconfig: str = "") -> dict[str, Any]:
    """Let replicas of our Deployments stand on different machines; wait until they are ready there.

    One pod of a Deployment goes at a time, as PodDisruptionBudgets let it.

    :param timeout: seconds, for each Deployment.
    :return: ``changed``, and ``evicted``: the pods, ``namespace/name``.
    :raises SpreadError: a pod may not go, or what comes after it is not ready.
    """
    evicted: list[str] = []
    for deployment in _list("apps/v1", "Deployment", kubeconfig):
        until = time.monotonic() + timeout
        while pod := _superfluous(deployment, kubeconfig):
            refusal = __salt__["metalk8s_drain.evict"](pod, kubeconfig=kubeconfig)
            if not refusal:
                evicted.append(f"{NAMESPACE}/{pod['metadata']['name']}")
            _await(deployment, refusal, until, kubeconfig)
    return {"changed": bool(evicted), "evicted": sorted(evicted)}


def superfluous(
    deployment: dict[str, Any], pods: list[dict[str, Any]], nodes: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Choose the pod that has to go, if another machine is to have one in its place.

    :param pods: of the namespace, any.
    :return: of the fullest machine, the youngest.
    """
    template = deployment["spec"]["template"]["spec"]
    if not (skew := _skew(template)):
        return None
    there: dict[str, list[dict[str, Any]]] = {
        node["metadata"]["labels"][BY_MACHINE]: [] for node in nodes if _takes(node, template)
    }
    if not there:
        return None
    names = {n["metadata"]["name"]: n["metadata"].get("labels", {}).get(BY_MACHINE) for n in nodes}
    for pod in _replicas(deployment, pods):
        if machine := names.get(pod["spec"].get("nodeName")):
            there.setdefault(machine, []).append(pod)
    fullest = max(sorted(there), key=lambda machine: len(there[machine]))
    least = min(len(found) for found in there.values())
    if len(there[fullest]) - least <= skew:
        return None
    return max(there[fullest], key=lambda pod: _age(pod["metadata"]))


def is_whole(deployment: dict[str, Any], pods: list[dict[str, Any]]) -> bool:
    """Tell whether as many replicas are ready as there shall be."""
    ready = Counter(_is_ready(pod) for pod in _replicas(deployment, pods))
    return bool(ready[True] >= deployment["spec"].get("replicas", 1))


def _superfluous(deployment: dict[str, Any], kubeconfig: str) -> dict[str, Any] | None:
    if not _skew(deployment["spec"]["template"]["spec"]):
        return None
    call = __salt__["metalk8s_kubernetes.list_objects"]
    nodes = call("v1", "Node", kubeconfig=kubeconfig)
    return superfluous(deployment, _list("v1", "Pod", kubeconfig), nodes)


def _await(deployment: dict[str, Any], refusal: str, until: float, kubeconfig: str) -> None:
    """Wait until all replicas are ready: only then may one go, or the next one."""
    while True:
        time.sleep(PAUSE)
        is_over = time.monotonic() > until
        if is_whole(deployment, _list("v1", "Pod", kubeconfig)) and not (refusal and is_over):
            return
        if is_over:
            name, reason = deployment["metadata"]["name"], f" ({refusal})" if refusal else ""
            raise SpreadError(
                f"The replicas of {name} do not become ready on machines of their own{reason}: see "
                f"kubectl --namespace {NAMESPACE} describe pods. Once they are, try again."
            )


def _skew(template: dict[str, Any]) -> int:
    """Return by how many pods machines may differ; 0 where nobody has to care."""
    rules = template.get("topologySpreadConstraints", [])
    hard = [one for one in rules if one["whenUnsatisfiable"] == "DoNotSchedule"]
    return min((one["maxSkew"] for one in hard if one["topologyKey"] == BY_MACHINE), default=0)


def _takes(node: dict[str, Any], template: dict[str, Any]) -> bool:
    """Tell whether the scheduler may send such pods to a machine."""
    labels, spec = node["metadata"].get("labels", {}), node.get("spec", {})
    wanted = template.get("nodeSelector", {}).items()
    taints = [taint for taint in spec.get("taints", []) if taint["effect"] in KEEPING_OUT]
    return (
        BY_MACHINE in labels
        and all(labels.get(key) == value for key, value in wanted)
        and not spec.get("unschedulable")
        and _is_ready(node)
        and all(any(_bears(one, t) for one in template.get("tolerations", [])) for t in taints)
    )


def _bears(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", taint["key"]) == taint["key"]
    value = taint.get("value", "")
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], value)


def _replicas(deployment: dict[str, Any], pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pick the pods of a Deployment, without those that end."""
    labels = deployment["spec"]["selector"]["matchLabels"].items()
    return [
        pod
        for pod in pods
        if labels <= pod["metadata"].get("labels", {}).items()
        and "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") not in FINISHED
    ]


def _is_ready(one: dict[str, Any]) -> bool:
    conditions = one.get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def _age(metadata: dict[str, Any]) -> tuple[str, str]:
    return str(metadata.get("creationTimestamp", "")), metadata["name"]


def _list(api_version: str, kind: str, kubeconfig: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = __salt__["metalk8s_kubernetes.list_objects"](
        api_version, kind, NAMESPACE, kubeconfig
    )
    return found
