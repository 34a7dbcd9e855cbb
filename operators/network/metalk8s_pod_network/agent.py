"""The program: hears of Nodes and of the kernel, compares, and changes what differs.

What is in the kernel stays when the program ends: packets do not need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say

from metalk8s_pod_network import cni, machine, plan
from metalk8s_pod_network.isolation.filters import Table
from metalk8s_pod_network.isolation.isolation import Isolation, Known
from metalk8s_pod_network.kernel import KernelError
from metalk8s_pod_network.peers import Peer, believed
from metalk8s_pod_network.plan import NotYetError
from metalk8s_pod_network.settings import Settings
from metalk8s_pod_network.wanted import Wanted

COMPARE = 30.0  # seconds after which it compares, whatever it heard
PAUSE = 0.5  # seconds between two comparisons: a pod that starts is a dozen words of the kernel
NAME = "metalk8s_pod_network"


class Data(Protocol):
    """Where packets go."""

    def links(self) -> list[dict[str, Any]]:
        """Return the interfaces."""

    def apply(self, wanted: Wanted, links: Sequence[dict[str, Any]]) -> list[str]:
        """Change what differs."""

    def isolate(self, table: Table) -> list[str]:
        """Let the table of policies be this one."""


class Agent:
    """One machine's.

    :param heard: is set when there may be something to do.
    """

    def __init__(
        self,
        settings: Settings,
        known: Known[Peer],
        isolation: Isolation,
        data: Data,
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._settings, self._known = settings, known
        self._isolation = isolation
        self._data, self._health = data, health
        self._problems: list[str] = []
        self._heard = heard
        self._numbers = {"changes": 0.0, "comparisons": 0.0, "failures": 0.0, "machines": 0.0}

    def run(self, stop: threading.Event, pause: float = PAUSE) -> None:
        """Compare at every word, and every half minute, until told to stop."""
        backoff = Backoff(1.0, COMPARE)
        while not stop.is_set():
            self._heard.clear()
            if self.compare():
                backoff.reset()
                patience = COMPARE
            else:
                patience = backoff.pause()
            stop.wait(pause)
            self._heard.wait(patience)

    def compare(self) -> bool:
        """Compare once, and change what differs; tell whether all is as it should be."""
        self._numbers["comparisons"] += 1
        try:
            reason = self._compare()
        except (KernelError, NotYetError, OSError) as error:
            self._numbers["failures"] += 1
            reason = str(error)
            say("error", reason)
        self._health.beat(reason, self._metrics())
        return not reason

    def _compare(self) -> str:
        nodes = self._known.copy()
        if nodes is None:
            return "the API server has not told of any machine yet"
        peers, problems = believed(
            nodes.values(), self._settings.node, self._settings.pods, self._settings.machines
        )
        self._tell(problems)
        links = self._data.links()
        wanted = plan.plan(self._settings, peers, machine.interfaces(links))
        began = time.monotonic()
        done = self._data.apply(wanted, links)
        done += self._data.isolate(self._isolation.table(peers))
        # Last: from now on the engine starts pods.
        if cni.write(self._settings.cni, cni.render(self._settings, wanted)):
            done.append(f"wrote {self._settings.cni}")
        if done:
            seconds = round(time.monotonic() - began, 3)
            say("info", "changed", machines=len(peers), seconds=seconds, changes=done)
        self._numbers["changes"] += len(done)
        self._numbers["machines"] = len(peers)
        return ""

    def _tell(self, problems: list[str]) -> None:
        """Say each problem when it is new."""
        for problem in problems:
            if problem not in self._problems:
                say("warning", problem)
        self._problems = problems

    def _metrics(self) -> dict[str, float]:
        numbers = {
            **self._numbers,
            "left_out": len(self._problems),
            "api_errors": self._known.errors + self._isolation.errors,
        }
        return {f"{NAME}_{name}": float(value) for name, value in numbers.items()}
