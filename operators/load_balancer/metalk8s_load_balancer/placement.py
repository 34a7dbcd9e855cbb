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


def places(seen: Seen) -> tuple[Place, ...]:
    """Return all addresses that a pool of ours has given, each once."""
    found: dict[IPv4Address, Place] = {}
    routers: set[int] = set()
    for service in sorted(seen.services, key=lambda one: one.age):
        given = service.given
        if given is None or not service.wants or given.address in found:
            continue
        pool = seen.pools.get(given.pool)
        if pool is None or not pool.has(given.address):
            continue
        if pool.announce == LAYER2 and (not given.router or given.router in routers):
            continue  # the annotation is not what the allocator wrote: it will be
        routers.add(given.router)
        nodes = _order(given.address, _eligible(service, given.address, pool.announce, seen))
        if pool.announce == LAYER2:
            nodes = nodes[:MACHINES]
        found[given.address] = Place(given.address, service.key, pool.announce, given.router, nodes)
    return tuple(found.values())


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
