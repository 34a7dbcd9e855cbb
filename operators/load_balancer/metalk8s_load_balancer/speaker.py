"""The program of each machine: lets keepalived bring addresses of Services to it.

Without the API server, all stays as it was: machines hear each other by VRRP.
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say

from metalk8s_load_balancer import filters, keepalived, machine
from metalk8s_load_balancer.machine import Filter, MachineError
from metalk8s_load_balancer.objects import Node
from metalk8s_load_balancer.placement import Place, Seen, places
from metalk8s_load_balancer.settings import Settings

COMPARE = 15.0  # seconds after which it compares, whatever it heard
GATHER = 0.1  # seconds: what changes together is one reload
TIMEOUT = 2.0  # seconds, for kube-proxy to say that it works
NAME = "metalk8s_load_balancer"


class Known(Protocol):
    """What the API server tells."""

    @property
    def errors(self) -> int:
        """How often the API server failed."""

    def seen(self) -> Seen | None:
        """Return what is known, or nothing before enough is."""


class Router(Protocol):
    """What brings addresses to the machine."""

    @property
    def is_running(self) -> bool:
        """Whether it runs."""

    def apply(self, text: str, addresses: Sequence[IPv4Address], interface: str) -> str:
        """Let it do what a configuration says."""

    def stop(self) -> None:
        """Let it end."""


class Speaker:
    """One machine's.

    :param heard: is set when there may be something to do.
    """

    def __init__(
        self,
        settings: Settings,
        known: Known,
        router: Router,
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._settings, self._known, self._router = settings, known, router
        self._filter = Filter()
        self._health, self._heard = health, heard
        self._numbers = {"reloads": 0.0, "failures": 0.0, "candidates": 0.0, "preferred": 0.0}

    def run(self, stop: threading.Event) -> None:
        """Compare at every word, and every few seconds, until told to stop; then give all away."""
        backoff = Backoff(0.2, COMPARE)
        while not stop.is_set():
            self._heard.clear()
            if self.compare():
                backoff.reset()
                patience = COMPARE
            else:
                patience = backoff.pause()
            if self._heard.wait(patience):
                stop.wait(GATHER)
        self._router.stop()
        self._filter.apply("")

    def compare(self) -> bool:
        """Compare once, and change what differs; tell whether all is as it should be."""
        try:
            reason = self._compare()
        except (MachineError, OSError) as error:
            self._numbers["failures"] += 1
            reason = str(error)
            say("error", reason)
        numbers = {**self._numbers, "api_errors": float(self._known.errors)}
        self._health.beat(reason, {f"{NAME}_{name}": value for name, value in numbers.items()})
        return not reason

    def _compare(self) -> str:
        seen = self._known.seen()
        if seen is None:
            return "the API server has not told of all pools, Services, Endpoints and Nodes yet"
        everywhere = places(seen)
        own = keepalived.held(everywhere, self._settings.node)
        here = self._here(own)
        if here is None:
            self._apply("", (), "")
            self._filter.apply("")
            self._count(())
            return ""
        if not self._router.is_running:
            self._ask_kube_proxy()
        interface = machine.interface_of(here.address)
        addresses = [one.address for one in own]
        header = self._settings.header
        # First: an address is never here without it.
        self._filter.apply(filters.render(addresses, here.address, header))
        self._apply(keepalived.render(everywhere, here, interface, header), addresses, interface)
        self._count(own)
        return ""

    def _here(self, own: Sequence[Place]) -> Node | None:
        """Return this machine, when an address may come to it."""
        name = self._settings.node
        return next((node for one in own for node in one.nodes if node.name == name), None)

    def _apply(self, text: str, addresses: Sequence[IPv4Address], interface: str) -> None:
        done = self._router.apply(text, addresses, interface)
        if done:
            self._numbers["reloads"] += 1
            say("info", done, addresses=[str(one) for one in addresses], interface=interface)

    def _ask_kube_proxy(self) -> None:
        """Bring no address to a machine where nobody knows the way to a Service yet.

        :raises OSError: kube-proxy does not say that it works.
        """
        if self._settings.kube_proxy:
            with urllib.request.urlopen(self._settings.kube_proxy, timeout=TIMEOUT):  # noqa: S310
                pass

    def _count(self, own: Sequence[Place]) -> None:
        self._numbers["candidates"] = len(own)
        preferred = [one for one in own if one.nodes[0].name == self._settings.node]
        self._numbers["preferred"] = len(preferred)
