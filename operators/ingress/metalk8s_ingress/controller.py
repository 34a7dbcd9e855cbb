"""The program: hears of objects, compares, and lets HAProxy be as they say.

What HAProxy does goes on when the program ends or hears nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say

from metalk8s_ingress import model as models
from metalk8s_ingress.cluster import Seen
from metalk8s_ingress.haproxy import ProxyError
from metalk8s_ingress.model import Model, Objects, Pem, Problem, Unusable
from metalk8s_ingress.objects import WORKLOAD_ADDRESS, Ingress
from metalk8s_ingress.proxy import Proxy, RejectedError
from metalk8s_ingress.reports import Reports
from metalk8s_ingress.secrets import Secrets
from metalk8s_ingress.settings import Settings

GATHER = 0.05  # seconds: what changes meanwhile goes together
COMPARE = 5.0  # seconds after which it looks whether HAProxy still is the one that was told
SECRETS = 3.0  # seconds that a change waits for Secrets that it names
CULPRITS = 20  # Ingresses that are left out at a time because HAProxy does not take them
NAME = "metalk8s_ingress"


class Known(Protocol):
    """What is known of the cluster."""

    def seen(self) -> Seen | None:
        """Return everything; ``None`` before all first lists."""

    def errors(self) -> int:
        """Return how often the API server failed."""


class Controller:
    """One pod's.

    :param heard: is set when there may be something to do.
    """

    def __init__(
        self,
        settings: Settings,
        known: Known,
        secrets: Secrets,
        proxy: Proxy,
        reports: Reports,
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._settings, self._known, self._secrets = settings, known, secrets
        self._proxy, self._reports = proxy, reports
        self._health, self._heard = health, heard
        self._ingresses: list[Ingress] = []
        # Ingresses that HAProxy does not take, each with the Secrets that it named then.
        self._culprits: dict[Ingress, Mapping[str, Pem | Unusable | None]] = {}
        self._problems: list[Problem] = []
        self._numbers = {"changes": 0.0, "failures": 0.0, "rejected": 0.0, "seconds": 0.0}
        self._has_begun = False
        self._asked = 0.0  # when Secrets were, by the clock that only goes forward

    def run(self, stop: threading.Event) -> None:
        """Compare at every word, and every few seconds, until told to stop."""
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

    def compare(self) -> bool:
        """Compare once, and change what differs; tell whether all is as it should be."""
        is_told = True
        try:
            reason, is_told = self._compare()
        except (ProxyError, RejectedError, OSError) as error:
            self._numbers["failures"] += 1
            reason = str(error)
            say("error", f"HAProxy goes on with what it had: {reason}")
        # One that takes requests is not to be left out for a change that it has not taken.
        self._health.beat("" if self._has_begun else reason, self._metrics(bool(reason)))
        return is_told and not reason

    def _compare(self) -> tuple[str, bool]:
        seen = self._known.seen()
        if seen is None:
            return "the API server has not told of all objects yet", True
        objects = self._objects(seen)
        if not objects.address:
            return (
                f"the API server has not told where {self._settings.node} is reached yet: expected "
                f"an IP address in its status and, if it has one, its annotation {WORKLOAD_ADDRESS}"
            ), True
        ingresses = models.ours(objects, self._settings.controller)
        wanted = models.secrets(objects, ingresses) | {self._settings.fallback}
        began = time.monotonic()
        # For the first time without any Ingress, too: there is a certificate for who has none.
        if not self._asked or ingresses != self._ingresses:
            self._secrets.want(wanted, anew=True)
            self._ingresses, self._asked = ingresses, began
        # Who names a Secret that nobody has read yet is not told that it is not there.
        is_late = self._has_begun and began - self._asked > SECRETS
        if not is_late and not self._secrets.is_complete(wanted):
            return "the API server has not given the Secrets of Ingresses yet", True
        made, is_other = self._apply(objects, ingresses)
        self._has_begun = True
        if is_other:
            self._numbers["changes"] += 1
            self._numbers["seconds"] = time.monotonic() - began
            seconds = round(self._numbers["seconds"], 3)
            say("info", "changed", ingresses=len(ingresses), backends=len(made.backends),
                reloads=self._proxy.reloads, seconds=seconds)  # fmt: skip
        return "", self._tell(seen, made)

    def _objects(self, seen: Seen) -> Objects:
        here = seen.nodes.get(self._settings.node)
        machines = {address for node in seen.nodes.values() for address in node}
        return Objects(
            seen.ingresses,
            seen.classes,
            seen.services,
            seen.endpoints,
            self._secrets.copy(),
            here.at(self._settings.plane) if here else "",
            frozenset((one, port) for one in machines for port in self._settings.closed),
            self._settings.namespaces,
        )

    def _apply(self, objects: Objects, ingresses: list[Ingress]) -> tuple[Model, bool]:
        """Let HAProxy be as all Ingresses say, without those that it does not take."""
        self._culprits = {
            one: named
            for one, named in self._culprits.items()
            if one in ingresses and named == _named(objects, one)
        }
        fine = [one for one in ingresses if one not in self._culprits]
        made = self._build(objects, fine)
        try:
            return made, self._proxy.apply(made)
        except RejectedError as error:
            say("error", f"HAProxy does not take it, whose fault is it? {error}")
            self._blame(objects, fine)
        fine = [one for one in ingresses if one not in self._culprits]
        made = self._build(objects, fine)
        return made, self._proxy.apply(made)

    def _build(self, objects: Objects, ingresses: list[Ingress]) -> Model:
        return models.build(objects, ingresses, self._settings.fallback)

    def _blame(self, objects: Objects, fine: list[Ingress]) -> None:
        """Find the Ingresses without which HAProxy would start.

        :raises RejectedError: it is none's fault, or of too many.
        """
        why = ""
        for _ in range(CULPRITS):
            why = self._proxy.check(self._build(objects, fine))
            if not why:
                return
            good, bad = 0, len(fine)  # so many of the oldest are fine, and so many are not
            if self._proxy.check(self._build(objects, [])):
                break
            while bad - good > 1:
                middle = (good + bad) // 2
                if self._proxy.check(self._build(objects, fine[:middle])):
                    bad = middle
                else:
                    good = middle
            culprit = fine[good]
            self._culprits[culprit] = _named(objects, culprit)
            say("error", "an Ingress is left out", ingress=culprit.key, why=why)
            fine = fine[:good] + fine[bad:]
        raise RejectedError(f"no Ingress alone is why HAProxy would not start: {why}")

    def _tell(self, seen: Seen, made: Model) -> bool:
        problems = made.problems + [
            Problem(one.key, "HAProxy would not start with it: all of it is left out")
            for one in self._culprits
        ]
        before = frozenset(self._problems)
        for one in problems:
            if one not in before:
                say("warning", one.message, ingress=one.ingress)
        self._problems = problems
        self._numbers["rejected"] = len(problems)
        everything = Model(accepted=self._ingresses)
        return self._reports.tell(seen, everything, problems)

    def _metrics(self, is_stuck: bool) -> dict[str, float]:
        numbers = {
            **self._numbers,
            "stuck": float(is_stuck and self._has_begun),
            "reloads": self._proxy.reloads,
            "told": self._proxy.told,
            "api_errors": self._known.errors() + self._secrets.errors + self._reports.errors,
        }
        return {f"{NAME}_{name}": float(value) for name, value in numbers.items()}


def _named(objects: Objects, one: Ingress) -> Mapping[str, Pem | Unusable | None]:
    """Return what an Ingress's Secrets hold: with others, HAProxy may take it."""
    return {key: objects.secrets.get(key) for key in models.secrets(objects, [one])}
