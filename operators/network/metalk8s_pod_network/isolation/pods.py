"""Pods and Namespaces: what policies ask of them, and no more, since there are thousands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metalk8s_pod_network.isolation.policies import PROTOCOLS, UNKNOWN

Labels = tuple[tuple[str, str], ...]
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has, or will have, an address of its own.

    :param address: empty before its kubelet has told.
    :param ports: name, protocol and number of those that have a name.
    :param created: when it was, as the API writes it.
    """

    namespace: str
    name: str
    labels: Labels
    address: str = ""
    node: str = ""
    ports: tuple[tuple[str, int, int], ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace.

    :param leaving: it is being deleted, and what is in it goes in any order.
    """

    labels: Labels = ()
    leaving: bool = False


def namespace(item: Mapping[str, Any]) -> Namespace:
    """Read a Namespace."""
    return Namespace(labels(item), bool(item["metadata"].get("deletionTimestamp")))


def pod(item: Mapping[str, Any]) -> Pod | None:
    """Read a Pod; ``None``: its address is its machine's, or, since it is over, another's."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    if spec.get("hostNetwork") or status.get("phase") in FINISHED:
        return None
    return Pod(
        sys.intern(metadata["namespace"]),
        metadata["name"],
        labels(item),
        status.get("podIP") or "",
        sys.intern(spec.get("nodeName") or ""),
        tuple(
            (port["name"], PROTOCOLS.get(port.get("protocol") or "TCP", UNKNOWN),
             int(port["containerPort"]))
            for container in spec.get("containers") or []
            for port in container.get("ports") or []
            if port.get("name")
        ),
        metadata.get("creationTimestamp") or "",
    )  # fmt: skip


def labels(item: Mapping[str, Any]) -> Labels:
    """Read the labels of an object; equal words are kept once."""
    found = item["metadata"].get("labels") or {}
    return tuple(sorted((sys.intern(key), sys.intern(value)) for key, value in found.items()))
