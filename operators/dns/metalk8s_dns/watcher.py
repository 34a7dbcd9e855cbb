"""The program: hears of objects, compares, and changes what differs.

What Knot has stays when the program ends or hears nothing: who asks does not need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.report import Health, say

from metalk8s_dns import records
from metalk8s_dns.authority import AuthorityError, Change, Held
from metalk8s_dns.cache import CacheError
from metalk8s_dns.catalog import Catalog
from metalk8s_dns.objects import Endpoint, Pod, Service
from metalk8s_dns.records import Record

GATHER = 0.03  # seconds after a change: what changes meanwhile goes together
COMPARE = 5.0  # seconds after which it looks whether Knot still has what it got
NAME = "metalk8s_dns"


class Known(Protocol):
    """What is known of the cluster; each is ``None`` before a first list."""

    def services(self) -> Mapping[str, Service] | None:
        """Return the Services by ``namespace/name``."""

    def endpoints(self) -> Mapping[str, tuple[Endpoint, ...]] | None:
        """Return the Endpoints."""

    def pods(self) -> Mapping[str, Pod] | None:
        """Return the pods."""

    def errors(self) -> int:
        """Return how often the API server failed."""


class Zones(Protocol):
    """Where the records go."""

    def read(self, zone: str) -> Held:
        """Return what a zone has."""

    def serials(self, zones: tuple[str, ...]) -> dict[str, str]:
        """Return the serials of zones."""

    def apply(self, zone: str, before: Held, change: Change) -> Held:
        """Change a zone."""


class Answers(Protocol):
    """Who keeps answers."""

    def forget(self, changed: frozenset[str], zones: frozenset[str]) -> None:
        """Let nobody get an old answer for a name."""


class Watcher:
    """One pod's.

    :param heard: is set when there may be something to do.
    """

    def __init__(
        self,
        catalog: Catalog,
        known: Known,
        zones: Zones,
        answers: Answers,
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._catalog, self._known = catalog, known
        self._zones, self._answers = zones, answers
        self._health, self._heard = health, heard
        self._held: dict[str, Held] = {}
        self._cut: frozenset[str] = frozenset()  # Services that it has been said of
        self._numbers = {"changes": 0.0, "failures": 0.0, "records": 0.0, "seconds": 0.0}

    def run(self, stop: threading.Event) -> None:
        """Compare at every word, and every few seconds, until told to stop.

        After a while without changes, one is written at once; those that follow it soon, together.
        """
        backoff = Backoff(0.2, COMPARE)
        while not stop.is_set():
            self._heard.clear()
            before, is_fine = self._numbers["changes"], self.compare()
            if is_fine:
                backoff.reset()
            if not is_fine or self._numbers["changes"] != before:
                stop.wait(GATHER)
            self._heard.wait(COMPARE if is_fine else backoff.pause())

    def compare(self) -> bool:
        """Compare once, and change what differs; tell whether all is as it should be."""
        try:
            reason = self._compare()
        except AuthorityError as error:
            self._numbers["failures"] += 1
            self._held = {}  # what it has now is not known
            reason = str(error)
            say("error", reason)
        numbers = {**self._numbers, "api_errors": self._known.errors()}
        self._health.beat(reason, {f"{NAME}_{name}": value for name, value in numbers.items()})
        return not reason

    def _compare(self) -> str:
        services, endpoints = self._known.services(), self._known.endpoints()
        pods = self._known.pods()
        if services is None or endpoints is None or pods is None:
            return "the API server has not told of all Services, Endpoints and pods yet"
        began = time.monotonic()
        wanted = self._catalog.update(services, endpoints, pods)
        self._say_cut(frozenset(self._catalog.cut))
        self._look()
        names = frozenset(
            name for zone, some in wanted.items() for name in self._change(zone, some)
        )
        self._numbers["records"] = sum(len(some) for some in wanted.values())
        if names:
            self._forget(names)
            self._numbers["seconds"] = time.monotonic() - began
            seconds = round(time.monotonic() - began, 3)
            say("info", "changed", names=len(names), seconds=seconds)
        return ""

    def _say_cut(self, cut: frozenset[str]) -> None:
        """Name each Service whose records are too many, once until they no longer are."""
        for name in sorted(cut - self._cut):
            what = f"Service {name} would have more than {records.MOST} records"
            say("warning", f"{what}: the last are left out; give it fewer endpoints or named ports")
        self._cut = cut

    def _look(self) -> None:
        """Read the zones that are not as they were left: Knot was not there, or began anew."""
        serials = self._zones.serials(self._catalog.zones) if self._held else {}
        for zone in self._catalog.zones:
            held = self._held.get(zone)
            if held is None or held.serial != serials.get(zone):
                self._held[zone] = self._zones.read(zone)

    def _change(self, zone: str, wanted: AbstractSet[Record]) -> set[str]:
        """Change a zone; return the names that have changed."""
        before = self._held[zone]
        change = Change(before.records - wanted, frozenset(wanted - before.records))
        if before.serial and not (change.removed or change.added):
            return set()
        self._held[zone] = self._zones.apply(zone, before, change)
        self._numbers["changes"] += 1
        return {record.owner for record in change.removed | change.added}

    def _forget(self, names: frozenset[str]) -> None:
        try:
            self._answers.forget(names, frozenset(self._catalog.zones))
        except CacheError as error:  # it forgets by itself, when the TTL is over
            self._numbers["failures"] += 1
            say("warning", str(error))
