"""Names of the DNS: what one may look like, and how addresses are written as names.

A name here is absolute: in lower case, with a dot at its end.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address

# 63 characters of a label: RFC 1035, 2.3.4
NAME = re.compile(r"(?:[-_a-z0-9]{1,63}\.)*[-_a-z0-9]{1,63}\.?")
LONGEST = 253  # characters of a name without its last dot: 255 bytes on the wire
OCTET = 8  # bits of one label of a reverse name


def is_valid(name: str) -> bool:
    """Tell whether an absolute name can be in a zone."""
    return len(name) - 1 <= LONGEST and NAME.fullmatch(name) is not None


def address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address; ``None`` when it is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def written(one: IPv4Address | IPv6Address) -> str:
    """Write an address as Knot does."""
    family = socket.AF_INET if one.version == 4 else socket.AF_INET6
    return socket.inet_ntop(family, one.packed)


def dashed(one: IPv4Address | IPv6Address) -> str:
    """Write an address as one label."""
    return written(one).replace(".", "-").replace(":", "-")


def reverse(one: IPv4Address | IPv6Address) -> str:
    """Return the name that an address has in the reverse tree."""
    return f"{one.reverse_pointer}."


def reverse_zones(network: IPv4Network) -> tuple[str, ...]:
    """Return the zones of the reverse tree for a network.

    They begin at whole octets, the smallest that hold it: 10.96.0.0/12 has sixteen. One of less
    than 256 addresses shares the zone of its /24.
    """
    octets = min(3, max(1, -(-network.prefixlen // OCTET)))
    bits = octets * OCTET
    if network.prefixlen > bits:
        networks = [network.supernet(new_prefix=bits)]
    else:
        networks = list(network.subnets(new_prefix=bits))
    return tuple(_reverse_zone(one, octets) for one in networks)


def _reverse_zone(network: IPv4Network, octets: int) -> str:
    numbers = str(network.network_address).split(".")[:octets]
    return f"{'.'.join(reversed(numbers))}.in-addr.arpa."


def zone_of(name: str, zones: frozenset[str]) -> str:
    """Return the closest zone that a name is in, or an empty string."""
    rest = name
    while rest:
        if rest in zones:
            return rest
        rest = rest.partition(".")[2]
    return ""
