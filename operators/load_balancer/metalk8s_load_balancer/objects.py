"""What is kept of Services, Endpoints and Nodes: what addresses depend on, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

# On a Service, beside the address in its status: the pool, and the number of the virtual router.
POOL = "metalk8s.scality.com/load-balancer-pool"
ROUTER = "metalk8s.scality.com/virtual-router"
WORKLOAD_ADDRESS = "metalk8s.scality.com/workload-address"
# Kubernetes' own: no address comes to a Node that has it.
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"


@dataclass(frozen=True)
class Given:
    """What a Service has.

    :param pool: name of the pool it is of, or empty: somebody else gave it.
    :param router: number of the virtual router that brings it to a machine; 0: none.
    """

    address: IPv4Address
    pool: str = ""
    router: int = 0


@dataclass(frozen=True)
class Service:
    """A Service that wants an address, or has one.

    :param requested: ``spec.loadBalancerIP``, or empty.
    :param is_local: only machines with one of its pods may have the address.
    :param given: the first address in its status.
    :param is_marked: it carries what we write beside an address.
    """

    namespace: str
    name: str
    uid: str
    version: str
    created: str
    labels: Mapping[str, str] = field(hash=False)
    wants: bool
    requested: str
    is_local: bool
    given: Given | None
    is_marked: bool

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def age(self) -> tuple[str, str]:
        """Sorts older Services first."""
        return self.created, self.key


@dataclass(frozen=True)
class Node:
    """A machine.

    :param address: on the workload plane.
    :param is_steady: nothing says that it will be, or is, out of service.
    """

    name: str
    address: IPv4Address
    is_steady: bool = True
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


def service(item: dict[str, Any]) -> Service | None:
    """Read a Service; ``None`` when addresses have nothing to do with it."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    wants = spec.get("type") == "LoadBalancer" and not metadata.get("deletionTimestamp")
    given = _given(item)
    notes = metadata.get("annotations") or {}
    is_marked = POOL in notes or ROUTER in notes
    if not (wants or given or is_marked):
        return None
    return Service(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        version=str(metadata.get("resourceVersion") or ""),
        created=str(metadata.get("creationTimestamp") or ""),
        labels=dict(metadata.get("labels") or {}),
        wants=wants,
        requested=str(spec.get("loadBalancerIP") or ""),
        is_local=spec.get("externalTrafficPolicy") == "Local",
        given=given,
        is_marked=is_marked,
    )


def _given(item: dict[str, Any]) -> Given | None:
    status = (item.get("status") or {}).get("loadBalancer") or {}
    notes = item["metadata"].get("annotations") or {}
    for entry in status.get("ingress") or []:
        with contextlib.suppress(ValueError):
            router = str(notes.get(ROUTER, ""))
            return Given(
                IPv4Address(str(entry.get("ip"))),
                str(notes.get(POOL, "")),
                int(router) if router.isascii() and router.isdecimal() else 0,
            )
    return None


def ready_nodes(item: dict[str, Any]) -> frozenset[str] | None:
    """Return the Nodes with a ready endpoint of Endpoints; ``None`` when there are none."""
    found = {
        str(entry["nodeName"])
        for subset in item.get("subsets") or []
        for entry in subset.get("addresses") or []
        if entry.get("nodeName")
    }
    return frozenset(found) or None


def node(item: dict[str, Any]) -> Node | None:
    """Read a Node; ``None`` when no address may come to it."""
    metadata, status = item["metadata"], item.get("status") or {}
    if EXCLUDED in (metadata.get("labels") or {}):
        return None
    address = (metadata.get("annotations") or {}).get(WORKLOAD_ADDRESS)
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or []}
    is_cordoned = bool((item.get("spec") or {}).get("unschedulable"))
    try:
        return Node(
            str(metadata["name"]),
            IPv4Address(str(address)),
            conditions.get("Ready") == "True" and not is_cordoned,
            dict(metadata.get("labels") or {}),
        )
    except ValueError:
        return None


def machine_addresses(item: dict[str, Any]) -> frozenset[IPv4Address]:
    """Return all addresses that a Node has: no Service may have them."""
    told = [(item["metadata"].get("annotations") or {}).get(WORKLOAD_ADDRESS)]
    told += [entry.get("address") for entry in (item.get("status") or {}).get("addresses") or []]
    found = set()
    for text in told:
        with contextlib.suppress(ValueError):
            found.add(IPv4Address(str(text)))
    return frozenset(found)
