"""From the machines of the cluster and this one's interfaces to what its kernel is to have.

A machine in a network of this one is the next hop to its pods; others are behind the tunnel. What a
pod sends to a machine itself takes the way to that machine's pods: so the answer comes back the way
the question went, and a router between the networks never sees the address of a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from metalk8s_pod_network import machine
from metalk8s_pod_network.machine import Interface
from metalk8s_pod_network.peers import Peer
from metalk8s_pod_network.settings import DEVICE, OVERHEAD, PREFERENCE, TABLE, Settings
from metalk8s_pod_network.wanted import End, Packets, Route, Rule, Tunnel, Wanted


class NotYetError(Exception):
    """There is no place for this machine in the network of pods; says why."""


def plan(settings: Settings, peers: Sequence[Peer], interfaces: Sequence[Interface]) -> Wanted:
    """Say what is to be there.

    :param peers: as ``peers.believed`` gives them.
    :raises NotYetError: this machine is none of them, or has not the address that its Node has.
    """
    own = next((peer for peer in peers if peer.name == settings.node), None)
    if own is None:
        raise NotYetError(
            f"the API server has no Node {settings.node} with an address and a podCIDR"
        )
    outside = machine.holder(own.address, interfaces)
    if outside is None:
        raise NotYetError(f"no interface of this machine has the address {own.address} of its Node")
    others = [peer for peer in peers if peer is not own]
    far = [peer for peer in others if not machine.beside(peer.address, interfaces)]
    mtu = outside.mtu - OVERHEAD
    back = inner(own) if far else ""
    routes = {_nowhere(settings.pods)}
    for peer in others:
        routes.update(_routes(peer, machine.beside(peer.address, interfaces), back))
    beyond = any(route.table == TABLE for route in routes)
    tunnel = (settings.vxlan_port, DEVICE) if far else None
    addresses = frozenset(address for peer in peers for address in peer.addresses)
    return Wanted(
        packets=Packets(settings.pods, addresses, tunnel),
        ranges=own.pods,
        mtu=mtu,
        routes=frozenset(routes),
        rules=frozenset(_rules(own.pods) if beyond else ()),
        tunnel=_tunnel(settings, own, mtu) if far else None,
        ends=frozenset(End(inner(peer), hardware(peer), str(peer.address)) for peer in far),
    )


def inner(peer: Peer) -> str:
    """Return the address of a machine's end of the tunnel: the first of its range, no pod's."""
    return str(peer.pods[0].network_address)


def hardware(peer: Peer) -> str:
    """Return the Ethernet address of that end: made of the inner one, so that nobody has to ask.

    The first byte says that it is nobody's product and one machine's.
    """
    octets = peer.pods[0].network_address.packed
    return ":".join(f"{octet:02x}" for octet in (0x0E, 0x4D, *octets))


def _nowhere(pods: IPv4Network) -> Route:
    # A pod that is not there is refused here: nothing for it leaves by the default route.
    return Route(str(pods), kind="unreachable")


def _routes(peer: Peer, interface: str, back: str) -> Iterable[Route]:
    """Return the ways to a machine's pods, and those of pods to its own addresses."""
    via = str(peer.address) if interface else inner(peer)
    device = interface or DEVICE
    for pods in peer.pods:
        # Without it, this machine would ask with an address that is answered outside the tunnel.
        source = "" if interface else back
        yield Route(str(pods), via=via, device=device, onlink=not interface, source=source)
    for address in peer.addresses:
        if not (interface and address == peer.address):
            yield Route(str(address), TABLE, via=via, device=device, onlink=not interface)


def _rules(pods: Iterable[IPv4Network]) -> Iterable[Rule]:
    return (Rule(str(one), TABLE, PREFERENCE) for one in pods)


def _tunnel(settings: Settings, own: Peer, mtu: int) -> Tunnel:
    return Tunnel(
        settings.vxlan_id, settings.vxlan_port, hardware(own), mtu, inner(own), str(own.address)
    )
