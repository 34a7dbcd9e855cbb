"""Which of a machine's own addresses is on which network."""

from __future__ import annotations

import ipaddress
import pathlib
import re
from typing import Any

# A domain, RFC 1035 with the underscores that sites have.
LABEL = "[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(\.{LABEL})*\.?")
NAME_LENGTH = 253
RESOLVER = pathlib.Path("/etc/resolv.conf")
# What systemd-resolved answers on, and the file in which it says whom it asks itself.
STUB, RESOLVED = "127.0.0.53", pathlib.Path("/run/systemd/resolve/resolv.conf")


def address_in(cidrs: list[str], shared: str = "", known: str = "") -> dict[str, str]:
    """Find the first of the networks that this machine has an address in.

    :param cidrs: networks, tried in turn.
    :param shared: an address that may be another machine's next; not taken where there is another.
    :param known: the address that others know this machine by; it goes before all, if it is there.
    :return: ``address`` and ``interface`` that has it; empty when there is none.
    """
    found = [_addresses(ipaddress.ip_network(cidr)) for cidr in cidrs]
    for one in (one for network in found for one in network):
        if one["address"] == known:
            return one
    first = next((network for network in found if network), [])
    return min(first, key=lambda one: one["address"] == shared) if first else {}


def _addresses(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> list[dict[str, str]]:
    return [
        {"address": address, "interface": interface}
        for interface, addresses in sorted(__grains__["ip4_interfaces"].items())
        for address in addresses
        if ipaddress.ip_address(address) in network
    ]


def machines(
    nodes: dict[str, Any], name: str, roles: list[str], address: str
) -> list[tuple[str, list[str], str]]:
    """List this machine and the others of the cluster that have an address.

    :return: name, roles and address of each.
    """
    others = [
        (other, node["roles"], node["address"])
        for other, node in sorted(nodes.items())
        if other != name and node["address"]
    ]
    return [(name, roles, address), *others]


def in_order(addresses: list[str]) -> list[str]:
    """Sort addresses as numbers, each once."""
    return [str(address) for address in sorted({ipaddress.ip_address(one) for one in addresses})]


def nth_address(cidr: str, number: int) -> str:
    """Give an address of a network by its number; 0 is the network's own."""
    return str(ipaddress.ip_network(cidr)[number])


def resolver() -> str:
    """Give the file of the resolvers that a pod can reach, as kubeadm chooses it."""
    lines = RESOLVER.read_text(encoding="utf-8").splitlines() if RESOLVER.is_file() else []
    words = [line.split() for line in lines]
    servers = [row[1] for row in words if row[:1] == ["nameserver"] and len(row) > 1]
    return str(RESOLVED if servers == [STUB] and RESOLVED.is_file() else RESOLVER)


def site_zones(zones: dict[str, list[str]]) -> list[str]:
    """Write which servers of the site know which names, as the program that feeds Knot reads it.

    :param zones: the parameter ``dns.zones``: a domain and the addresses of its servers.
    :return: ``domain=address,address``, sorted.
    :raises ValueError: naming every entry that is not right.
    """
    problems = []
    for zone, servers in zones.items():
        if not NAME.fullmatch(str(zone)) or len(str(zone)) > NAME_LENGTH:
            problems.append(f"{zone} is no domain")
        if not isinstance(servers, list) or not servers:
            problems.append(f"{zone} has no list of addresses")
            continue
        problems += [f"{one} of {zone} is no address" for one in servers if not _is_address(one)]
    if problems:
        raise ValueError(f"dns.zones: {'; '.join(problems)}")
    return [f"{zone}={','.join(servers)}" for zone, servers in sorted(zones.items())]


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return isinstance(text, str)
