"""NetworkPolicies: what one says, in values of our own.

Source: ``networking.k8s.io/v1`` of Kubernetes 1.20.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from metalk8s_pod_network.isolation.selectors import Selector, selector

# Numbers of IP, for the names that the API has.
PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}
UNKNOWN = 255  # reserved: no packet has it


@dataclass(frozen=True)
class Port:
    """A port of a rule.

    :param port: a number, the name that a pod gave one, or ``None``: each of the protocol.
    """

    protocol: int
    port: int | str | None = None


@dataclass(frozen=True)
class Block:
    """Addresses from the first to the last of a network, without others.

    :param inside: first and last address, as numbers.
    :param without: the same of each exception.
    """

    inside: tuple[int, int]
    without: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Party:
    """Who is at the other end: pods, or addresses.

    :param namespaces: ``None``: the policy's own.
    :param pods: ``None``: all pods of the namespaces.
    """

    namespaces: Selector | None = None
    pods: Selector | None = None
    block: Block | None = None


@dataclass(frozen=True)
class Rule:
    """What is allowed: any of the ports with any of the parties; all of them where there is none.

    :param anybody: no party is named. One that names only what is not in IPv4 allows nobody.
    """

    ports: tuple[Port, ...] = ()
    parties: tuple[Party, ...] = ()
    anybody: bool = False


@dataclass(frozen=True)
class Policy:
    """One policy.

    :param ingress: ``None``: it does not say anything of what pods get.
    :param egress: ``None``: nor of what they send.
    """

    namespace: str
    pods: Selector
    ingress: tuple[Rule, ...] | None
    egress: tuple[Rule, ...] | None


def policy(item: Mapping[str, Any]) -> Policy:
    """Read a NetworkPolicy."""
    spec = item.get("spec") or {}
    ingress, egress = spec.get("ingress") or [], spec.get("egress") or []
    # The API server writes the default when it stores one; older objects may lack it.
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if egress else [])]
    return Policy(
        item["metadata"]["namespace"],
        selector(spec.get("podSelector") or {}),
        _rules(ingress, "from") if "Ingress" in types else None,
        _rules(egress, "to") if "Egress" in types else None,
    )


def _rules(items: Iterable[Mapping[str, Any]], parties: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            tuple(_port(port) for port in item.get("ports") or []),
            tuple(found for one in item.get(parties) or [] if (found := _party(one))),
            anybody=not item.get(parties),
        )
        for item in items
    )


def _port(item: Mapping[str, Any]) -> Port:
    return Port(PROTOCOLS.get(item.get("protocol") or "TCP", UNKNOWN), item.get("port"))


def _party(item: Mapping[str, Any]) -> Party | None:
    """Read who may; ``None``: nobody whom this network knows."""
    if item.get("ipBlock"):
        try:
            return Party(block=_block(item["ipBlock"]))
        except ValueError:  # IPv6, or an exception that cannot be read
            return None
    namespaces, pods = item.get("namespaceSelector"), item.get("podSelector")
    if namespaces is None and pods is None:
        return None
    return Party(
        None if namespaces is None else selector(namespaces),
        None if pods is None else selector(pods),
    )


def _block(item: Mapping[str, Any]) -> Block:
    return Block(_bounds(item["cidr"]), tuple(_bounds(text) for text in item.get("except") or []))


def _bounds(text: str) -> tuple[int, int]:
    # The API takes a network with bits of a host, and octets with zeros before them.
    address, _, length = text.partition("/")
    octets = ".".join(str(int(octet)) for octet in address.split("."))
    network = IPv4Network(f"{octets}/{length}", strict=False)
    return int(network.network_address), int(network.broadcast_address)
