"""Whom a machine asks for names, as its ``resolv.conf`` says."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from metalk8s_dns.names import address


def read(
    text: str, ours: Iterable[IPv4Address | IPv6Address]
) -> tuple[IPv4Address | IPv6Address, ...]:
    """Return the name servers of a ``resolv.conf``, without those that would ask us.

    :param ours: addresses of our own. Those of loopback are a pod's own, too.
    """
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            # An address of a link (fe80::1%eth0) is no neighbour of a pod.
            one = address(words[1])
            if one and not (one.is_loopback or one.is_link_local or one in ours):
                found.append(one)
    return tuple(dict.fromkeys(found))
