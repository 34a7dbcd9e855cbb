"""Which of a machine's own addresses is on which network."""

from __future__ import annotations

import ipaddress
import pathlib

INTERFACES = pathlib.Path("/sys/class/net")


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


def mtu(interface: str) -> int:
    """Give the most that one packet may carry on an interface, in bytes."""
    return int((INTERFACES / interface / "mtu").read_text(encoding="ascii"))
