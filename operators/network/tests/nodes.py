"""Nodes as the API has them, and what the program is told."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

from metalk8s_pod_network.settings import Settings

PODS = "10.233.0.0/16"
MACHINES = ("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")


def node(name, address, pods, *, workload="", created="2026-11-01T00:00:00Z", more=()):
    """Return a Node; ``pods`` may be ``None``, as before the controller manager saw it."""
    addresses = [{"type": "Hostname", "address": name}]
    addresses += [{"type": "InternalIP", "address": one} for one in (address, *more) if one]
    metadata = {"name": name, "creationTimestamp": created}
    if workload:
        metadata["annotations"] = {"metalk8s.scality.com/workload-address": workload}
    spec = {} if pods is None else {"podCIDR": pods, "podCIDRs": [pods]}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"addresses": addresses},
    }


def settings(name="here", **other):
    """Return what the program on a machine is told."""
    told = {
        "api": "http://127.0.0.1:1",
        "node": name,
        "pods": IPv4Network(PODS),
        "machines": tuple(map(IPv4Network, MACHINES)),
        "vxlan_id": 4097,
        "vxlan_port": 4789,
        "health_port": 0,
        "cni": Path("/nowhere"),
        "network": "metalk8s",
        "header": "Generated.",
        "sandboxes": Path("/nowhere"),
    }
    return Settings(**{**told, **other})
