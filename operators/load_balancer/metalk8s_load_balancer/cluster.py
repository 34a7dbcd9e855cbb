"""The objects of the cluster, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any, TypeVar

from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer
from metalk8s_operators.report import say

from metalk8s_load_balancer import objects, peers, pools
from metalk8s_load_balancer.objects import Node, Service
from metalk8s_load_balancer.placement import Seen
from metalk8s_load_balancer.pools import Pool

Kept = TypeVar("Kept")


class Cluster:
    """What the allocator knows.

    :param changed: is called when something is another.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        def informer(path: str, keep: Callable[[dict[str, Any]], Kept | None]) -> Informer[Kept]:
            return Informer(client, path, keep, changed, _say)

        self._services = informer("/api/v1/services", objects.service)
        self._pools = informer(pools.PATH, pools.pool)
        self._machines = informer("/api/v1/nodes", objects.machine_addresses)

    def follow(self, stop: threading.Event) -> None:
        """Watch, in threads of their own, until told to stop."""
        for run in (self._services.run, self._pools.run, self._machines.run):
            threading.Thread(target=run, args=(stop,), daemon=True).start()

    def services(self) -> Mapping[str, Service] | None:
        """Return the Services that have to do with addresses, by ``namespace/name``."""
        return self._services.copy()

    def pools(self) -> Mapping[str, Pool] | None:
        """Return the pools by name."""
        return self._pools.copy()

    def machines(self) -> Mapping[str, frozenset[IPv4Address]] | None:
        """Return the addresses of machines, by the names of their Nodes."""
        return self._machines.copy()

    @property
    def errors(self) -> int:
        """How often the API server failed."""
        return self._services.errors + self._pools.errors + self._machines.errors


class Surroundings:
    """What a speaker knows. Before there is a pool, it watches pools and nothing else.

    :param networks: of the workload plane.
    """

    def __init__(
        self, client: Client, changed: Callable[[], None], networks: tuple[IPv4Network, ...]
    ) -> None:
        def informer(path: str, keep: Callable[[dict[str, Any]], Kept | None]) -> Informer[Kept]:
            return Informer(client, path, keep, changed, _say)

        self._networks = networks
        self._pools = informer(pools.PATH, pools.pool)
        self._services = informer("/api/v1/services", objects.service)
        self._endpoints = informer("/api/v1/endpoints", objects.ready_nodes)
        self._nodes: Informer[Node] = informer("/api/v1/nodes", objects.node)
        self._peers = informer(peers.PATH, peers.peer)
        self._is_following = False
        self._stop = threading.Event()

    def follow(self, stop: threading.Event) -> None:
        """Watch, in threads of their own, until told to stop."""
        self._stop = stop
        self._begin(self._pools.run)

    def seen(self) -> Seen | None:
        """Return what is known, or nothing before enough is."""
        known = self._pools.copy()
        if known is None:
            return None
        if not known and not self._is_following:
            return Seen((), {}, (), {})
        if not self._is_following:
            self._is_following = True
            for informer in (self._services, self._endpoints, self._nodes, self._peers):
                self._begin(informer.run)
        services, endpoints = self._services.copy(), self._endpoints.copy()
        nodes, routers = self._nodes.copy(), self._peers.copy()
        if services is None or endpoints is None or nodes is None or routers is None:
            return None
        return Seen(
            tuple(services.values()),
            known,
            tuple(nodes.values()),
            endpoints,
            self._networks,
            tuple(routers.values()),
        )

    def _begin(self, run: Callable[[threading.Event], None]) -> None:
        threading.Thread(target=run, args=(self._stop,), daemon=True).start()

    @property
    def errors(self) -> int:
        """How often the API server failed."""
        of_pools = self._pools.errors + self._services.errors
        return of_pools + self._endpoints.errors + self._nodes.errors + self._peers.errors


def _say(what: str) -> None:
    say("warning", what)
