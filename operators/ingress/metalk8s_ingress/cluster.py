"""The objects of the cluster, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer
from metalk8s_operators.report import say

from metalk8s_ingress import objects
from metalk8s_ingress.objects import Ingress, IngressClass, Node, Service, Status, Subset

Kept = TypeVar("Kept")
API = "/apis/networking.k8s.io/v1"


@dataclass(frozen=True)
class Seen:
    """Everything, at one moment, by ``namespace/name`` or name."""

    ingresses: Mapping[str, Ingress]
    statuses: Mapping[str, Status]
    classes: Mapping[str, IngressClass]
    services: Mapping[str, Service]
    endpoints: Mapping[str, tuple[Subset, ...]]
    nodes: Mapping[str, Node]


class Cluster:
    """What the API server tells.

    :param changed: is called when something is another.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        def inform(path: str, keep: Callable[[dict[str, Any]], Kept]) -> Informer[Kept]:
            return Informer(client, path, keep, changed, lambda what: say("warning", what))

        self._ingresses = inform(f"{API}/ingresses", _both)
        self._classes = inform(f"{API}/ingressclasses", objects.ingress_class)
        self._services = inform("/api/v1/services", objects.service)
        self._endpoints = inform("/api/v1/endpoints", objects.endpoints)
        self._nodes = inform("/api/v1/nodes", objects.node)
        self._all: tuple[Informer[Any], ...] = (
            self._ingresses, self._classes, self._services, self._endpoints, self._nodes,
        )  # fmt: skip

    def follow(self, stop: threading.Event) -> None:
        """Watch, in threads of their own, until told to stop."""
        for one in self._all:
            threading.Thread(target=one.run, args=(stop,), daemon=True).start()

    def seen(self) -> Seen | None:
        """Return everything; ``None`` before all first lists."""
        ingresses, classes = self._ingresses.copy(), self._classes.copy()
        services, endpoints = self._services.copy(), self._endpoints.copy()
        nodes = self._nodes.copy()
        if ingresses is None or classes is None or services is None:
            return None
        if endpoints is None or nodes is None:
            return None
        return Seen(
            {key: one for key, (one, _) in ingresses.items()},
            {key: some for key, (_, some) in ingresses.items()},
            classes,
            services,
            endpoints,
            nodes,
        )

    def errors(self) -> int:
        """Return how often the API server failed."""
        return sum(one.errors for one in self._all)


def _both(item: dict[str, Any]) -> tuple[Ingress, Status]:
    return objects.ingress(item), objects.status(item)
