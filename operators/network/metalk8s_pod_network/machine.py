"""Interfaces of the machine, as ``ip -j -d addr`` tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from metalk8s_pod_network.settings import DEVICE

ONE_ADDRESS = 32  # length of the prefix


@dataclass(frozen=True)
class Interface:
    """An interface that is up, with its addresses of IPv4."""

    name: str
    mtu: int
    addresses: tuple[IPv4Interface, ...]


def interfaces(links: Iterable[dict[str, Any]]) -> tuple[Interface, ...]:
    """Read the machine's interfaces; loopback, our tunnel and pods' own have nothing to tell."""
    found = []
    for link in links:
        addresses = tuple(
            IPv4Interface(f"{entry['local']}/{entry['prefixlen']}")
            for entry in link.get("addr_info") or []
            if entry.get("family") == "inet" and entry.get("scope") == "global"
        )
        if addresses and link["ifname"] != DEVICE and "UP" in link["flags"]:
            found.append(Interface(link["ifname"], int(link["mtu"]), addresses))
    return tuple(found)


def beside(address: IPv4Address, known: Iterable[Interface]) -> str:
    """Return the interface in whose network an address is, the smallest network first."""
    fitting = [
        (-own.network.prefixlen, interface.name)
        for interface in known
        for own in interface.addresses
        if address in own.network and own.network.prefixlen < ONE_ADDRESS
    ]
    return min(fitting)[1] if fitting else ""


def holder(address: IPv4Address, known: Iterable[Interface]) -> Interface | None:
    """Return the interface that has an address."""
    for interface in known:
        if any(own.ip == address for own in interface.addresses):
            return interface
    return None
