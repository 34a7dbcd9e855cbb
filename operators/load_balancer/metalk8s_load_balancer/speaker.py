"""The program of each machine: lets keepalived bring addresses to it, or BIRD tell of them.

Without the API server, all stays as it was: machines hear each other by VRRP.
"""

from __future__ import annotations

import functools
import threading
import urllib.request
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from typing import Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say

from metalk8s_load_balancer import bird, filters, keepalived, machine
from metalk8s_load_balancer.bird import PasswordError
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


class Program(Protocol):
    """What brings addresses to the machine, or tells routers of them."""

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
        programs: tuple[Program, Program],
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._settings, self._known = settings, known
        self._keepalived, self._bird = programs
        self._filter = Filter()
        self._health, self._heard = health, heard
        self._places: tuple[Place, ...] = ()
        self._numbers = dict.fromkeys(
            ("candidates", "failures", "preferred", "reloads", "told"), 0.0
        )

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
        self._keepalived.stop()
        self._bird.stop()
        self._filter.apply("")

    def compare(self) -> bool:
        """Compare once, and change what differs; tell whether all is as it should be."""
        seen = self._known.seen()
        if seen is None:
            reason = "the API server has not told of all that has to do with addresses yet"
        else:
            reason = "; ".join(self._follow(seen))
        numbers = {**self._numbers, "api_errors": float(self._known.errors)}
        self._health.beat(reason, {f"{NAME}_{name}": value for name, value in numbers.items()})
        return not reason

    def _follow(self, seen: Seen) -> list[str]:
        """Let the machine be as it should; return what went wrong."""
        reserved = self._settings.reserved.routers
        everywhere = self._places = places(seen, self._places, reserved)
        here = next((node for node in seen.nodes if node.name == self._settings.node), None)
        held = keepalived.held(everywhere, self._settings.node) if here else ()
        told = bird.told(everywhere, self._settings.node) if here else ()
        addresses = [*(one.address for one in held), *told]
        steps: list[Callable[[], object]] = [
            lambda: self._bring(everywhere, here, [one.address for one in held]),
            lambda: self._tell(seen, here, told),
        ]
        filtering = filters.render(addresses, here.address, self._settings.header) if here else ""
        guard = functools.partial(self._filter.apply, filtering if addresses else "")
        # An address is never here without its rules.
        steps.insert(0 if addresses else len(steps), guard)
        preferred = [one for one in held if one.nodes[0].name == self._settings.node]
        numbers = {"candidates": len(held), "preferred": len(preferred), "told": len(told)}
        self._numbers.update(numbers)
        return [problem for step in steps if (problem := self._try(step))]

    def _try(self, step: Callable[[], object]) -> str:
        """Take a step, whatever becomes of the others; return what went wrong."""
        try:
            step()
        except (MachineError, PasswordError, OSError) as error:
            self._numbers["failures"] += 1
            say("error", str(error))
            return str(error)
        return ""

    def _bring(
        self, everywhere: Sequence[Place], here: Node | None, addresses: Sequence[IPv4Address]
    ) -> None:
        if here is None or not addresses:
            self._apply(self._keepalived, "", (), "")
            return
        interface = machine.interface_of(here.address)
        text = keepalived.render(everywhere, here, interface, self._settings.header)
        self._apply(self._keepalived, text, addresses, interface)

    def _tell(self, seen: Seen, here: Node | None, addresses: Sequence[IPv4Address]) -> None:
        text = ""
        if here is not None:
            header = self._settings.header
            text = bird.render(addresses, seen.peers, here, self._password, header)
        self._apply(self._bird, text, addresses, "")

    def _password(self, key: str) -> str:
        file = self._settings.passwords / key
        try:
            return file.read_text(encoding="ascii").removesuffix("\n")
        except (OSError, ValueError) as error:
            raise PasswordError(f"the password {key} of BGP cannot be read: {file}") from error

    def _apply(
        self, program: Program, text: str, addresses: Sequence[IPv4Address], interface: str
    ) -> None:
        if text and not program.is_running:
            self._ask_kube_proxy()
        done = program.apply(text, addresses, interface)
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
