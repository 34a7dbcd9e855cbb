"""Which of a machine's own addresses is on which network."""

from __future__ import annotations

import ipaddress
import pathlib

RESOLVER = pathlib.Path("/etc/resolv.conf")
# What systemd-resolved answers on, and the file in which it says whom it asks itself.
STUB, RESOLVED = "127.0.0.53", pathlib.Path("/run/systemd/resolve/resolv.conf")


def address_in(cidrs: list[str], shared: str = "") -> dict[str, str]:
    """Find the first of the networks that this machine has an address in.

    :param cidrs: networks, tried in turn.
    :param shared: an address that may be another machine's next; not taken where there is another.
    :return: ``address`` and ``interface`` that has it; empty when there is none.
    """
    for cidr in cidrs:
        network = ipaddress.ip_network(cidr)
        found = [
            {"address": address, "interface": interface}
            for interface, addresses in sorted(__grains__["ip4_interfaces"].items())
            for address in addresses
            if ipaddress.ip_address(address) in network
        ]
        if found:
            return min(found, key=lambda one: one["address"] == shared)
    return {}


def nth_address(cidr: str, number: int) -> str:
    """Give an address of a network by its number; 0 is the network's own."""
    return str(ipaddress.ip_network(cidr)[number])


def resolver() -> str:
    """Give the file of the resolvers that a pod can reach, as kubeadm chooses it."""
    lines = RESOLVER.read_text(encoding="utf-8").splitlines() if RESOLVER.is_file() else []
    words = [line.split() for line in lines]
    servers = [row[1] for row in words if row[:1] == ["nameserver"] and len(row) > 1]
    return str(RESOLVED if servers == [STUB] and RESOLVED.is_file() else RESOLVER)
