"""What a Node object says of a machine, as plans need it."""

from __future__ import annotations

from typing import Any

ROLE = "node-role.kubernetes.io/"
VERSION = "metalk8s.scality.com/version"
ADDRESS = "metalk8s.scality.com/ssh-host"
APPLIED = "metalk8s.scality.com/applied-roles"
# kubeadm's label for what the label master says as well.
IGNORED = {"control-plane"}
# Reason of a condition that nobody but the node controller has ever written.
SILENT = "NodeStatusNeverUpdated"


def described(node: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan's machine, and its address."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    ready = condition(node, "Ready")
    return {
        "name": metadata["name"],
        "roles": roles(labels),
        "version": labels.get(VERSION, ""),
        "is_deployed": bool(ready) and ready.get("reason") != SILENT,
        "is_ready": ready.get("status") == "True",
        "address": address(node),
        "is_schedulable": not (node.get("spec") or {}).get("unschedulable", False),
        "applied": applied(node),
    }


def address(node: dict[str, Any]) -> str:
    """Return the address in the control plane: the operator's, or else the kubelet's."""
    said = (node["metadata"].get("annotations") or {}).get(ADDRESS, "")
    addresses = (node.get("status") or {}).get("addresses") or []
    internal = [one["address"] for one in addresses if one["type"] == "InternalIP"]
    return said or next(iter(internal), "")


def roles(labels: dict[str, str]) -> list[str]:
    """Return the roles that labels give, sorted; without one, a machine is a node."""
    found = {label.removeprefix(ROLE) for label in labels if label.startswith(ROLE)}
    return sorted(found - IGNORED) or ["node"]


def applied(node: dict[str, Any]) -> list[str]:
    """Return the roles that the last deployment wrote down, sorted; none before the first.

    A kubelet may change its own Node's annotations. With a lie, its machine is cleaned once more,
    or keeps what it has.
    """
    said = (node["metadata"].get("annotations") or {}).get(APPLIED, "")
    return sorted(role for role in said.split(",") if role)


def condition(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition of a Node, empty when it has none of the kind."""
    conditions: list[dict[str, Any]] = (node.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})
