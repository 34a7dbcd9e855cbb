"""Which machines an address comes to, and in which order: the same on all of them.

Each address has an order of machines of its own (rendezvous hashing): addresses spread, and of a
machine that goes only its own move. What is cordoned or not ready comes last, yet is not left out:
VRRP notices by itself who is dead, and who only lost the API server serves on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from metalk8s_load_balancer.allocation import ROUTERS
from metalk8s_load_balancer.objects import Node, Service
from metalk8s_load_balancer.peers import Peer
from metalk8s_load_balancer.pools import LAYER2, Pool

# Of one address: VRRP has 254 priorities for machines whose own it is not.
MACHINES = 254


@dataclass(frozen=True)
class Place:
    """Where an address is.

    :param announce: how machines of the network learn of it.
    :param nodes: that may have it, the preferred one first.
    """

    address: IPv4Address
    service: str
    announce: str
    router: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Seen:
    """What is known of the cluster.

    :param endpoints: Nodes with a ready endpoint, by ``namespace/name`` of the Service.
    :param peers: routers of the site that are told of addresses.
    :param networks: of the workload plane. An address in one of them is for machines of it only:
        others of the network find nobody else by ARP.
    """

    services: Collection[Service]
    pools: Mapping[str, Pool]
    nodes: Collection[Node]
    endpoints: Mapping[str, frozenset[str]]
    networks: tuple[IPv4Network, ...] = ()
    peers: Collection[Peer] = ()


def places(
    seen: Seen, before: Iterable[Place] = (), reserved: Collection[int] = ()
) -> tuple[Place, ...]:
    """Return all addresses that a pool of ours has given, each once.

    Of two with one number, the one of before has it, and the other one waits for the allocator.
    Machines may remember different things; but an address has the same place on all of them, or
    none: they are as many machines that hear each other, or less, and never two holders.

    :param before: what it returned the last time.
    :param reserved: numbers of virtual routers that somebody else uses.
    """
    found: dict[IPv4Address, Place] = {}
    for service in sorted(seen.services, key=lambda one: one.age):
        given = service.given
        if given is None or not service.wants or given.address in found:
            continue
        pool = seen.pools.get(given.pool)
        if pool is None or not pool.has(given.address):
            continue
        if pool.announce != LAYER2:
            nodes = _order(given.address, _eligible(service, given.address, pool.announce, seen))
            found[given.address] = Place(given.address, service.key, pool.announce, 0, nodes)
        elif given.router in ROUTERS and given.router not in reserved:
            nodes = _order(given.address, _eligible(service, given.address, LAYER2, seen))
            place = Place(given.address, service.key, LAYER2, given.router, nodes[:MACHINES])
            found[given.address] = place
    had = {(one.address, one.router) for one in before}
    holders: dict[int, Place] = {}
    for one in sorted(found.values(), key=lambda one: (one.address, one.router) not in had):
        if one.announce == LAYER2:
            holders.setdefault(one.router, one)
    return tuple(
        one for one in found.values() if one.announce != LAYER2 or holders[one.router] is one
    )


def _eligible(service: Service, address: IPv4Address, announce: str, seen: Seen) -> list[Node]:
    nodes = list(seen.nodes)
    shared = [network for network in seen.networks if address in network]
    if shared and announce == LAYER2:
        nodes = [node for node in nodes if any(node.address in network for network in shared)]
    if service.is_local:
        having = seen.endpoints.get(service.key, frozenset())
        nodes = [node for node in nodes if node.name in having]
    return nodes


def _order(address: IPv4Address, nodes: Iterable[Node]) -> tuple[Node, ...]:
    def rank(node: Node) -> tuple[bool, bytes]:
        digest = hashlib.sha256(f"{address} {node.name}".encode()).digest()
        return not node.is_steady, digest

    return tuple(sorted(nodes, key=rank))
