"""What the cluster says of its machines: the Node objects, as pillar of every minion.

For the Salt master, and for calls without one on the bootstrap machine. An API server that does not
answer is no reason to forget what is known: the last good answer is on disk.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import pathlib
from typing import Any

log = logging.getLogger(__name__)

ROLE = "node-role.kubernetes.io/"
OURS = "metalk8s.scality.com/"
# Other labels of that prefix are for people, as kubeadm's `control-plane`.
ROLES = ("bootstrap", "etcd", "infra", "master", "node")
PLAIN = "node"  # what a machine without a label is


def ext_pillar(
    minion_id: str,  # noqa: ARG001 - Salt hands them over by position
    pillar: dict[str, Any],  # noqa: ARG001
    kubeconfig: str,
    kept: str,
    authorities: str = "",
    keys: str = "",
    keep: bool = True,
) -> dict[str, Any]:
    """Give a minion what there is to know of all machines, none of it secret.

    :param kubeconfig: of a user who may list Nodes; without the file, there is no cluster yet.
    :param kept: where the last good answer is.
    :param authorities: folder of ``<name>.crt``, which everybody trusts.
    :param keys: folder of public keys that packages are signed with.
    :param keep: write the last good answer, too.
    """
    known: dict[str, Any] = {"nodes": _nodes(kubeconfig, pathlib.Path(kept), keep)}
    for name, folder, pattern in (
        ("authorities", authorities, "*.crt"),
        ("signing_keys", keys, "*"),
    ):
        if folder:
            known[name] = _texts(pathlib.Path(folder), pattern)
    return {"metalk8s": known}


def described(node: dict[str, Any]) -> dict[str, Any]:
    """Say of a Node what the states want to know.

    :return: ``roles``, ``version`` of MetalK8s, ``address`` in the control plane,
        ``workload_address`` and ``pod_cidr``, empty while nobody has said them.
    """
    metadata = node["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    roles = {label.removeprefix(ROLE) for label in labels if label.startswith(ROLE)}
    addresses = (node.get("status") or {}).get("addresses") or []
    internal = [entry["address"] for entry in addresses if entry["type"] == "InternalIP"]
    said = annotations.get(f"{OURS}ssh-host", "")
    return {
        "roles": sorted(roles.intersection(ROLES)) or [PLAIN],
        "version": labels.get(f"{OURS}version", ""),
        "address": said if _is_address(said) else next(iter(internal), ""),
        "workload_address": annotations.get(f"{OURS}workload-address", ""),
        "pod_cidr": (node.get("spec") or {}).get("podCIDR") or "",
    }


def _nodes(kubeconfig: str, kept: pathlib.Path, keep: bool) -> dict[str, Any]:
    if not pathlib.Path(kubeconfig).is_file():
        return _read(kept)
    try:
        found = __salt__["metalk8s_kubernetes.list_objects"]("v1", "Node", kubeconfig=kubeconfig)
    except Exception as error:  # of any kind: what was known is better than nothing
        log.warning("The API server does not say which machines there are: %s", error)
        return _read(kept)
    nodes = {node["metadata"]["name"]: described(node) for node in found}
    if keep and nodes != _read(kept):
        _write(kept, nodes)
    return nodes


def _read(kept: pathlib.Path) -> dict[str, Any]:
    try:
        nodes = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return nodes if isinstance(nodes, dict) else {}


def _write(kept: pathlib.Path, nodes: dict[str, Any]) -> None:
    # Several processes of the master do this at the same time.
    beside = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(nodes, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        beside.replace(kept)
    except OSError as error:
        log.warning("%s cannot be written: %s", kept, error)


def _texts(folder: pathlib.Path, pattern: str) -> dict[str, str]:
    texts = {}
    for file in sorted(file for file in folder.rglob(pattern) if file.is_file()):
        name = str(file.relative_to(folder)).removesuffix(".crt").replace("/", "-")
        with contextlib.suppress(UnicodeDecodeError):  # the same key in binary
            texts[name] = file.read_text(encoding="ascii")
    return texts


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False
