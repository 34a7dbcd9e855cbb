"""Pods that leave a node, and the node that leaves the cluster; through the Kubernetes API."""

from __future__ import annotations

import time
import urllib.parse
from typing import Any

PAUSE = 1.0  # seconds between two looks
TIMEOUT = 600  # seconds in which all pods have to be gone
MIRROR = "kubernetes.io/config.mirror"  # of what the kubelet runs from a file
NOT_FOUND, CONFLICT, BUSY = 404, 409, 429
FINISHED = ("Succeeded", "Failed")


class DrainError(Exception):
    """A node keeps pods; the text says which and what to do."""


def drain(
    name: str,
    timeout: int = TIMEOUT,
    force: bool = False,
    grace: int | None = None,
    kubeconfig: str = "",
) -> dict[str, Any]:
    """Let no pod come to a node, and all go that can run elsewhere; wait until they are gone.

    Pods of DaemonSets and of files stay. What a pod has in an ``emptyDir`` goes with it. A
    PodDisruptionBudget is respected, for as long as the time lasts.

    :param timeout: seconds.
    :param force: also evict pods that nothing makes anew elsewhere.
    :param grace: seconds that each pod gets to end; its own number by default.
    :return: ``changed``, and ``evicted``: the pods, ``namespace/name``.
    :raises DrainError: there is no such node, or pods stay.
    """
    lone = [_label(pod) for pod in _leaving(name, kubeconfig) if _is_lone(pod)]
    if lone and not force:
        raise DrainError(
            f"Nothing would run these pods of {name} elsewhere: {', '.join(sorted(lone))}. Delete "
            "them, or drain with force=True, and they are lost."
        )
    changed = _set_unschedulable(name, True, kubeconfig)
    evicted: set[str] = set()
    until = time.monotonic() + timeout
    while pods := _leaving(name, kubeconfig):
        blocked = {}
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            reason = evict(pod, grace, kubeconfig)
            if reason:
                blocked[_label(pod)] = reason
            else:
                evicted.add(_label(pod))
        if time.monotonic() > until:
            raise DrainError(_complaint(name, pods, blocked, timeout))
        time.sleep(PAUSE)
    return {"changed": changed or bool(evicted), "evicted": sorted(evicted)}


def uncordon(name: str, kubeconfig: str = "") -> dict[str, Any]:
    """Let pods come to a node again.

    :raises DrainError: there is no such node.
    """
    return {"changed": _set_unschedulable(name, False, kubeconfig)}


def forget_node(name: str, kubeconfig: str = "") -> dict[str, Any]:
    """Delete a Node; the pods that the API still has of it go with it."""
    try:
        _call("DELETE", _node(name), None, kubeconfig)
    except Exception as error:
        if _status(error) != NOT_FOUND:
            raise
        return {"changed": False}
    return {"changed": True}


def evict(pod: dict[str, Any], grace: int | None = None, kubeconfig: str = "") -> str:
    """Ask for the end of one pod; say why it is not granted for now.

    :param grace: as for ``drain``.
    :raises DrainError: it will not be granted.
    """
    metadata = pod["metadata"]
    options: dict[str, Any] = {"preconditions": {"uid": metadata["uid"]}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    body = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    try:
        _call("POST", path, body, kubeconfig)
    except Exception as error:
        if _status(error) == BUSY:
            return str(error)
        if _status(error) not in (NOT_FOUND, CONFLICT):  # gone by now, or another of that name
            raise DrainError(f"{_label(pod)} cannot be evicted: {error}") from error
    return ""


def _set_unschedulable(name: str, wanted: bool, kubeconfig: str) -> bool:
    """Cordon a node or not; say whether that is a change."""
    try:
        node = _call("GET", _node(name), None, kubeconfig)
    except Exception as error:
        if _status(error) != NOT_FOUND:
            raise
        raise DrainError(f"The cluster has no node {name}.") from error
    if bool(node.get("spec", {}).get("unschedulable")) == wanted:
        return False
    _call("PATCH", _node(name), {"spec": {"unschedulable": wanted or None}}, kubeconfig)
    return True


def _leaving(name: str, kubeconfig: str) -> list[dict[str, Any]]:
    """List the pods of a node that have to go."""
    selector = urllib.parse.quote(f"spec.nodeName={name}", safe="")
    pods = _call("GET", f"/api/v1/pods?fieldSelector={selector}", None, kubeconfig)["items"]
    return [
        pod
        for pod in pods
        if MIRROR not in pod["metadata"].get("annotations", {}) and _controller(pod) != "DaemonSet"
    ]


def _complaint(name: str, pods: list[dict[str, Any]], blocked: dict[str, str], timeout: int) -> str:
    kept = [f"{label} ({reason})" for label, reason in sorted(blocked.items())]
    ending = sorted(_label(pod) for pod in pods if _label(pod) not in blocked)
    parts = []
    if kept:
        parts.append(f"the API lets these not go: {', '.join(kept)}")
    if ending:
        parts.append(f"these have not ended: {', '.join(ending)}")
    return (
        f"After {timeout} s, {name} still has pods: {'; '.join(parts)}. It gets no new ones; drain "
        "it again when they may go, or uncordon it."
    )


def _is_lone(pod: dict[str, Any]) -> bool:
    """Tell whether a drain would lose a pod; one that somebody has deleted is lost already."""
    is_leaving = "deletionTimestamp" in pod["metadata"]
    is_over = is_leaving or pod.get("status", {}).get("phase") in FINISHED
    return not is_over and not _controller(pod)


def _controller(pod: dict[str, Any]) -> str:
    """Name the kind of what makes a pod anew; nothing where nothing does."""
    owners = pod["metadata"].get("ownerReferences", [])
    return next((owner["kind"] for owner in owners if owner.get("controller")), "")


def _label(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _node(name: str) -> str:
    return f"/api/v1/nodes/{urllib.parse.quote(name, safe='')}"


def _status(error: Exception) -> int:
    """Tell the status of HTTP: the class of the error is another module's."""
    return int(getattr(error, "status", 0))


def _call(method: str, path: str, body: object, kubeconfig: str) -> Any:
    return __salt__["metalk8s_kubernetes.call"](method, path, body, kubeconfig)
