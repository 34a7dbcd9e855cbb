"""The program that writes addresses into the status of Services. One copy of it does."""

from __future__ import annotations

import dataclasses
import http.client
import threading
import time
from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv4Address
from typing import Protocol

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.client import ApiError, Client, Object
from metalk8s_operators.report import Health, say

from metalk8s_load_balancer import notes
from metalk8s_load_balancer.allocation import Decision, Refusal, Reserved, allocate, changes
from metalk8s_load_balancer.notes import About, Note
from metalk8s_load_balancer.objects import POOL, ROUTER, Given, Service, service
from metalk8s_load_balancer.pools import Pool

COMPARE = 30.0  # seconds after which it compares, whatever it heard
AGAIN = 30.0  # seconds after which it says again what the API server did not take
SHOWN = 200  # characters of the API server's answer, in an Event
NAME = "metalk8s_load_balancer"
# About one object: others are not refused for it. Somebody may have filled its annotations.
REFUSED = (
    http.client.BAD_REQUEST,
    http.client.REQUEST_ENTITY_TOO_LARGE,
    http.client.UNPROCESSABLE_ENTITY,
)


class Known(Protocol):
    """What the API server tells; ``None`` before it has."""

    @property
    def errors(self) -> int:
        """How often the API server failed."""

    def services(self) -> Mapping[str, Service] | None:
        """Return those that have to do with addresses."""

    def pools(self) -> Mapping[str, Pool] | None:
        """Return the pools."""

    def machines(self) -> Mapping[str, frozenset[IPv4Address]] | None:
        """Return the addresses of machines."""


class Allocator:
    """The copy that leads.

    :param leads: whether it still does.
    :param reserved: what is nobody's, besides the addresses of machines.
    :param heard: is set when there may be something to do.
    """

    def __init__(
        self,
        client: Client,
        known: Known,
        leads: Callable[[], bool],
        reserved: Reserved,
        health: Health,
        heard: threading.Event,
    ) -> None:
        self._client, self._known, self._leads = client, known, leads
        self._reserved, self._health, self._heard = reserved, health, heard
        # What was written, until the API server tells of it: the version before, and what is there.
        self._written: dict[str, tuple[str, Service | None]] = {}
        self._given: Mapping[str, Given] = {}
        self._said: dict[About, Note] = {}
        self._unsaid: dict[About, Note] = {}
        self._again = 0.0  # when it tries those once more
        self._numbers = {"writes": 0.0, "failures": 0.0, "addresses": 0.0, "refused": 0.0}

    def run(self, stop: threading.Event) -> None:
        """Compare at every word, and every half minute, until told to stop or to lead no longer."""
        backoff = Backoff(0.5, COMPARE)
        while not stop.is_set() and self._leads():
            self._heard.clear()
            if self.compare():
                backoff.reset()
                patience = COMPARE
            else:
                patience = backoff.pause()
            self._heard.wait(patience)

    def compare(self) -> bool:
        """Compare once, and write what differs; tell whether all is as it should be.

        One object that the API server refuses is tried again, and keeps nobody from being ready.
        """
        before = self._numbers["failures"]
        try:
            reason = self._compare()
        except ApiError as error:
            reason = self._fail(error)
        numbers = {**self._numbers, "api_errors": float(self._known.errors)}
        self._health.beat(reason, {f"{NAME}_{name}": value for name, value in numbers.items()})
        return not reason and not self._unsaid and self._numbers["failures"] == before

    def _fail(self, error: ApiError) -> str:
        self._numbers["failures"] += 1
        say("warning", str(error))
        return str(error)

    def _compare(self) -> str:
        services, pools = self._known.services(), self._known.pools()
        machines = self._known.machines()
        if services is None or pools is None or machines is None:
            return "the API server has not told of all Services, pools and Nodes yet"
        now = self._now(services)
        claimed = frozenset[IPv4Address]().union(*machines.values())
        reserved = dataclasses.replace(self._reserved, claimed=claimed)
        decision = allocate(now, pools.values(), reserved, self._given)
        self._given = decision.given
        failed: dict[str, Refusal] = {}
        for one, wanted in changes(now, decision):
            try:
                self._write(one, wanted)
            except ApiError as error:
                if error.status not in REFUSED:
                    raise
                failed[one.key] = Refusal("StatusRefused", self._fail(error)[:SHOWN])
        self._numbers["addresses"] = len(decision.given)
        self._numbers["refused"] = len(decision.refused)
        self._explain(now, pools.values(), decision, failed)
        return ""

    def _now(self, told: Mapping[str, Service]) -> list[Service]:
        """Return the Services as they are, of which the API server may not have told yet."""
        now = dict(told)
        for key, (before, written) in list(self._written.items()):
            if key not in told or told[key].version != before:
                del self._written[key]
            elif written is None:
                del now[key]
            else:
                now[key] = written
        return list(now.values())

    def _write(self, one: Service, wanted: Given | None) -> None:
        """Write a status, unless somebody has changed the Service meanwhile.

        :raises ApiError: it was not written, for another reason.
        """
        if not self._leads():
            raise ApiError(0, "another copy of this program leads now")
        path = f"/api/v1/namespaces/{one.namespace}/services/{one.name}/status"
        try:
            after = self._client.write("PATCH", path, _patch(one, wanted))
        except ApiError as error:
            if error.status in (http.client.CONFLICT, http.client.NOT_FOUND):
                return  # the API server tells of it, and all is decided anew
            raise
        self._written[one.key] = (one.version, service(after))
        self._heard.set()  # somebody may wait for what this one had
        self._numbers["writes"] += 1
        address = str(wanted.address) if wanted else ""
        say("info", "gave" if wanted else "took back", service=one.key, address=address)

    def _explain(
        self,
        services: Collection[Service],
        pools: Collection[Pool],
        decision: Decision,
        failed: Mapping[str, Refusal],
    ) -> None:
        """Say what is new: why Services have no address, what of a pool is not understood.

        :param failed: why the API server did not take a status.
        """
        found = {note.about: note for one in pools for note in _about_pool(one)}
        for one in services:
            about = About("v1", "Service", one.namespace, one.name, one.uid)
            refusal = failed.get(one.key) or decision.refused.get(one.key)
            former = self._unsaid.get(about) or self._said.get(about)
            given = decision.given.get(one.key)
            if refusal is not None:
                found[about] = Note(about, "Warning", refusal.reason, refusal.message)
            elif given is not None and given != one.given:
                message = f"{given.address} of pool {given.pool}"
                found[about] = Note(about, "Normal", "AddressAssigned", message)
            elif given is not None and former:
                found[about] = former
        self._say(found)

    def _say(self, found: Mapping[About, Note]) -> None:
        """Say each note that is new; those that the API server refuses again later."""
        now = time.monotonic()
        held: Mapping[About, Note] = self._unsaid if now < self._again else {}
        said: dict[About, Note] = {}
        unsaid: dict[About, Note] = {}
        for about, note in found.items():
            if self._said.get(about) == note:
                said[about] = note
            elif held.get(about) == note:
                unsaid[about] = note
            else:
                try:
                    notes.post(self._client, note)
                    said[about] = note
                except ApiError as error:
                    self._fail(error)
                    unsaid[about] = note
                    if now >= self._again:
                        self._again = now + AGAIN
                    if not error.status:  # nobody answers: each other one would take seconds
                        held = found
        self._said, self._unsaid = said, unsaid


def _about_pool(pool: Pool) -> list[Note]:
    if not pool.problems:
        return []
    about = About("metalk8s.scality.com/v1alpha1", "LoadBalancerPool", "", pool.name, pool.uid)
    return [Note(about, "Warning", "BadAddresses", f"left out: {'; '.join(pool.problems)}")]


def _patch(one: Service, wanted: Given | None) -> Object:
    annotations = {
        POOL: wanted.pool if wanted else None,
        ROUTER: str(wanted.router) if wanted and wanted.router else None,
    }
    ingress = [{"ip": str(wanted.address)}] if wanted else None
    return {
        "metadata": {"resourceVersion": one.version, "annotations": annotations},
        "status": {"loadBalancer": {"ingress": ingress}},
    }
