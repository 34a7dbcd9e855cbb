"""The objects of the cluster, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from metalk8s_operators.client import Client
from metalk8s_operators.informer import Informer
from metalk8s_operators.report import say

from metalk8s_dns import objects
from metalk8s_dns.objects import Endpoint, Pod, Service


class Cluster:
    """What the API server tells.

    :param changed: is called when something is another.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._services: Informer[Service] = Informer(
            client, "/api/v1/services", objects.service, changed, _say
        )
        self._endpoints: Informer[tuple[Endpoint, ...]] = Informer(
            client, "/api/v1/endpoints", objects.endpoints, changed, _say
        )
        self._pods: Informer[Pod] = Informer(client, "/api/v1/pods", objects.pod, changed, _say)

    def follow(self, stop: threading.Event) -> list[threading.Thread]:
        """Watch, in threads of their own, until told to stop."""
        informers = {
            "services": self._services.run,
            "endpoints": self._endpoints.run,
            "pods": self._pods.run,
        }
        threads = [
            threading.Thread(target=run, args=(stop,), name=name, daemon=True)
            for name, run in informers.items()
        ]
        for thread in threads:
            thread.start()
        return threads

    def services(self) -> Mapping[str, Service] | None:
        """Return the Services by ``namespace/name``."""
        return self._services.copy()

    def endpoints(self) -> Mapping[str, tuple[Endpoint, ...]] | None:
        """Return what is behind Services, by ``namespace/name``."""
        return self._endpoints.copy()

    def pods(self) -> Mapping[str, Pod] | None:
        """Return the pods by ``namespace/name``."""
        return self._pods.copy()

    def errors(self) -> int:
        """Return how often the API server failed."""
        return self._services.errors + self._endpoints.errors + self._pods.errors


def _say(what: str) -> None:
    say("warning", what)
