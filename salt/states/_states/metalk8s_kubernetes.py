"""What the API server of the cluster holds."""

from __future__ import annotations

import time
from typing import Any

import yaml

PAUSE = 0.5  # seconds between two questions


def answers(name: str, timeout: int = 600) -> dict[str, Any]:
    """Wait until the API server says of itself that it is ready.

    :param name: kubeconfig to ask with.
    :param timeout: seconds.
    """
    if __opts__["test"]:
        return _result(name, True, {}, "Nothing is waited for in a test")
    until = time.monotonic() + timeout
    while not __salt__["metalk8s_kubernetes.ready"](name):
        if time.monotonic() > until:
            return _result(name, False, {}, f"The API server is not ready after {timeout} s")
        time.sleep(PAUSE)
    return _result(name, True, {}, "The API server is ready")


def applied(name: str, source: str, context: dict[str, Any]) -> dict[str, Any]:
    """Let the objects of a file be in the cluster, as the file says.

    :param name: what they are together.
    :param source: Jinja template of YAML documents, one an object; gets ``context``.
    """
    try:
        changes = __salt__["metalk8s_kubernetes.apply"](
            _objects(source, context), test=__opts__["test"]
        )
    except Exception as error:
        return _result(name, False, {}, f"{type(error).__name__}: {error}")
    if not changes:
        return _result(name, True, {}, "The cluster has them all")
    verb = "would be" if __opts__["test"] else "were"
    comment = f"{', '.join(changes)} {verb} applied"
    return _result(name, None if __opts__["test"] else True, changes, comment)


def deleted(name: str, source: str, context: dict[str, Any]) -> dict[str, Any]:
    """Let the objects of a file not be in the cluster; without an API server there is none to mind.

    :param source: as for ``applied``. Namespaces stay.
    """
    if not __salt__["metalk8s_kubernetes.ready"]():
        return _result(name, True, {}, "There is no API server that had them")
    try:
        gone = __salt__["metalk8s_kubernetes.delete"](
            _objects(source, context), test=__opts__["test"]
        )
    except Exception as error:
        return _result(name, False, {}, f"{type(error).__name__}: {error}")
    if not gone:
        return _result(name, True, {}, "The cluster has none of them")
    verb = "would be" if __opts__["test"] else "were"
    result = None if __opts__["test"] else True
    return _result(name, result, {"deleted": gone}, f"{', '.join(gone)} {verb} deleted")


def node_marked(
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    timeout: int = 60,
) -> dict[str, Any]:
    """Give a node its labels, annotations and taints, once it has registered itself.

    :param timeout: seconds to wait for the node.
    """
    until = time.monotonic() + (0 if __opts__["test"] else timeout)
    while True:
        try:
            missing = __salt__["metalk8s_kubernetes.mark_node"](
                name, labels or {}, annotations or {}, taints or [], test=__opts__["test"]
            )
            break
        except Exception as error:
            if time.monotonic() > until:
                return _result(name, False, {}, f"{type(error).__name__}: {error}")
            time.sleep(PAUSE)
    if not missing:
        return _result(name, True, {}, f"Node {name} has its marks")
    verb = "would get" if __opts__["test"] else "got"
    comment = f"Node {name} {verb} {', '.join(missing)}"
    return _result(name, None if __opts__["test"] else True, missing, comment)


def node_ready(name: str, timeout: int = 180) -> dict[str, Any]:
    """Wait until a node says of itself that it is ready.

    :param timeout: seconds.
    """
    if __opts__["test"]:
        return _result(name, True, {}, "Nothing is waited for in a test")
    until = time.monotonic() + timeout
    while True:
        try:
            reason = __salt__["metalk8s_kubernetes.why_not_ready"](name)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        if not reason:
            return _result(name, True, {}, f"Node {name} is ready")
        if time.monotonic() > until:
            return _result(name, False, {}, f"Node {name} is not ready after {timeout} s: {reason}")
        time.sleep(PAUSE)


def _objects(source: str, context: dict[str, Any]) -> list[dict[str, Any]]:
    text = __salt__["slsutil.renderer"](
        path=source, default_renderer="jinja", saltenv=__env__, context=context
    )
    return [document for document in yaml.safe_load_all(text) if document]


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
