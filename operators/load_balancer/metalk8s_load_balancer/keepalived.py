"""The configuration of keepalived: the addresses that this machine may have, by VRRP (RFC 5798).

One virtual router for each address. Machines of one address hear each other by unicast; the one
that is first in its order has the address, for as long as it is heard.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address

from metalk8s_load_balancer.objects import Node
from metalk8s_load_balancer.placement import MACHINES, Place
from metalk8s_load_balancer.pools import LAYER2

# Seconds between two words of who has the address. Silence of three, and a part of a fourth that
# is smaller the more preferred a machine is, and the next one has it: after 2 s at most.
INTERVAL = 0.5


def held(places: Iterable[Place], node: str) -> tuple[Place, ...]:
    """Return the places that a machine has a part in, in the order of their virtual routers."""
    own = (
        one
        for one in places
        if one.announce == LAYER2 and any(other.name == node for other in one.nodes)
    )
    return tuple(sorted(own, key=lambda one: one.router))


def render(places: Iterable[Place], node: Node, interface: str, header: str) -> str:
    """Return the configuration of one machine; empty when no address may come to it.

    :param interface: that has the machine's own address.
    """
    own = held(places, node.name)
    if not own:
        return ""
    routers = "".join(_router(one, node, interface) for one in own)
    return f"""# {header}
global_defs {{
    router_id {node.name}
    vrrp_version 3
    # Others of the network forget, or have not heard: they are told again.
    vrrp_garp_master_refresh 60
}}
{routers}"""


def _router(place: Place, node: Node, interface: str) -> str:
    rank = [one.name for one in place.nodes].index(node.name)
    peers = [one.address for one in place.nodes if one.name != node.name]
    return f"""
# {place.service}
vrrp_instance router_{place.router} {{
    interface {interface}
    state BACKUP
    priority {MACHINES - rank}
    virtual_router_id {place.router}
    advert_int {INTERVAL}
    unicast_src_ip {node.address}
    unicast_peer {{
{_peers(peers, node.address)}    }}
    virtual_ipaddress {{
        {place.address}/32 dev {interface}
    }}
}}
"""


def _peers(peers: list[IPv4Address], own: IPv4Address) -> str:
    # Without any, it would send to a multicast group. Who is alone tells itself, and nobody listens
    # (filters.py).
    return "".join(f"        {one}\n" for one in peers or [own])
