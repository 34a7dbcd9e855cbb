"""Routers of the site that machines tell of addresses: ``BGPPeer``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from metalk8s_load_balancer.objects import Node

PATH = "/apis/metalk8s.scality.com/v1alpha1/bgppeers"


@dataclass(frozen=True)
class Peer:
    """A router.

    :param own_as: number of the cluster's autonomous system.
    :param password_key: of the Secret with passwords; empty: there is none.
    :param hold: seconds of silence after which each side takes the other for dead.
    :param bfd: whether both notice that within a third of a second.
    :param labels: of the machines that tell it.
    """

    name: str
    address: IPv4Address
    own_as: int
    peer_as: int
    password_key: str = ""
    hold: int = 9
    bfd: bool = False
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def is_for(self, node: Node) -> bool:
        """Tell whether a machine tells this router."""
        return all(node.labels.get(key) == value for key, value in self.labels.items())


def peer(item: dict[str, Any]) -> Peer | None:
    """Read a router; ``None`` when it is about to go."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    if metadata.get("deletionTimestamp"):
        return None
    return Peer(
        name=str(metadata["name"]),
        address=IPv4Address(str(spec["peerAddress"])),
        own_as=int(spec["ownAS"]),
        peer_as=int(spec["peerAS"]),
        password_key=str(spec.get("passwordKey") or ""),
        hold=int(spec.get("holdTime") or 9),
        bfd=bool(spec.get("bfd")),
        labels=dict((spec.get("nodeSelector") or {}).get("matchLabels") or {}),
    )
