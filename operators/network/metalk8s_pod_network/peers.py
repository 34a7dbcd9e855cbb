"""The machines of the cluster, as their Nodes tell, and which of what they tell is believed.

A kubelet writes its own Node: its addresses, its annotations, and its podCIDR when it registers.
Whoever has broken into one machine must not draw the traffic of others to it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

# Where the pods of a machine are reached, if not at the address that its kubelet announces.
ANNOTATION = "metalk8s.scality.com/workload-address"


@dataclass(frozen=True)
class Peer:
    """A machine.

    :param addresses: the first is where its pods are reached.
    :param created: when its Node was, as the API writes it.
    """

    name: str
    addresses: tuple[IPv4Address, ...]
    pods: tuple[IPv4Network, ...]
    created: str = ""

    @property
    def address(self) -> IPv4Address:
        """Where its pods are reached."""
        return self.addresses[0]


def peer(node: dict[str, Any]) -> Peer | None:
    """Read a Node; ``None`` while it has no address or no range of pods yet."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    announced = (node.get("status") or {}).get("addresses") or []
    told = [
        (metadata.get("annotations") or {}).get(ANNOTATION),
        *(entry.get("address") for entry in announced if entry.get("type") == "InternalIP"),
    ]
    addresses = [one for text in told if (one := _address(text)) is not None]
    ranges = spec.get("podCIDRs") or [spec.get("podCIDR")]
    pods = [found for text in ranges if (found := _network(text)) is not None]
    if not addresses or not pods:
        return None
    return Peer(
        str(metadata["name"]),
        tuple(dict.fromkeys(addresses)),
        tuple(pods),
        str(metadata.get("creationTimestamp") or ""),
    )


def believed(
    peers: Iterable[Peer], own: str, pods: IPv4Network, machines: Iterable[IPv4Network]
) -> tuple[list[Peer], list[str]]:
    """Take the machines whose ranges and addresses can be theirs: this one, then the oldest first.

    :param own: name of this machine.
    :param pods: network that all ranges are in.
    :param machines: networks that addresses are in.
    :return: those, and a sentence on each of the others.
    """
    taken: list[Peer] = []
    problems: list[str] = []
    networks = tuple(machines)
    for one in sorted(peers, key=lambda p: (p.name != own, p.created, p.name)):
        problem = _problem(one, taken, pods, networks)
        if problem:
            problems.append(f"Node {one.name} is left out: {problem}")
        else:
            taken.append(one)
    return taken, problems


def _problem(
    one: Peer, taken: list[Peer], pods: IPv4Network, machines: tuple[IPv4Network, ...]
) -> str:
    for range_ in one.pods:
        if not range_.subnet_of(pods):
            return f"its pods' range {range_} is not in {pods}"
    for address in one.addresses:
        if address in pods or not any(address in network for network in machines):
            known = ", ".join(map(str, machines))
            return f"its address {address} is in none of the machines' networks ({known})"
    for other in taken:
        shared = set(one.addresses) & set(other.addresses)
        if shared:
            return f"its address {min(shared)} is {other.name}'s"
        for range_ in one.pods:
            if any(range_.overlaps(theirs) for theirs in other.pods):
                return f"its pods' range {range_} is {other.name}'s"
    return ""


def _address(text: str | None) -> IPv4Address | None:
    try:
        return ipaddress.IPv4Address(text or "")
    except ValueError:
        return None  # IPv6, a name


def _network(text: str | None) -> IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text or "")
    except ValueError:
        return None
