"""What users hear: the status of their Ingresses, and Events for what has no effect."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from metalk8s_operators.client import ApiError, Client
from metalk8s_operators.report import say

from metalk8s_ingress.cluster import API, Seen
from metalk8s_ingress.model import Model, Problem
from metalk8s_ingress.objects import Ingress, Status
from metalk8s_ingress.settings import Settings

MERGE = "application/merge-patch+json"
REASON = "Rejected"
LONGEST = 1000  # characters of an Event's message; the API takes 1024
# Seconds without a change of an Ingress before its status is written: who has just read it may be
# about to write it, and would be refused.
QUIET = 1.0
# Seconds after which it is written to an Ingress that does not rest.
PATIENCE = 10.0
EVENTS = 20  # for an Ingress, between two of its changes


class _Waiting(NamedTuple):
    """An Ingress whose status is to be another.

    :param status: what it is.
    :param rests: since when the Ingress has not changed.
    :param waits: since when its status is to be another.
    """

    status: Status
    rests: float
    waits: float

    @property
    def is_due(self) -> bool:
        now = time.monotonic()
        return now - self.rests >= QUIET or now - self.waits >= PATIENCE


class Reports:
    """Of all pods that know the same, the one on the first machine speaks.

    Two that do not agree for a moment who that is say the same.
    """

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings, self._client = settings, client
        self._said: set[Problem] = set()
        self._waiting: dict[str, _Waiting] = {}
        self.errors = 0

    def tell(self, seen: Seen, model: Model, problems: list[Problem]) -> bool:
        """Tell what is new; return whether the API server has all of it."""
        machines = self._machines(seen)
        self._said &= set(problems)
        if not machines:
            return True  # not yet, nobody speaks
        if machines[0] != self._settings.node:
            # Who speaks has said it.
            self._said |= set(problems)
            return True
        found = {seen.nodes[name].at(self._settings.plane) for name in machines}
        wanted = tuple(sorted(filter(None, found), key=_number))
        ingresses = {one.key: one for one in model.accepted}
        late = self._statuses(ingresses, seen.statuses, wanted) if wanted else []
        late += [
            self._event(ingresses[one.ingress], one)
            for one in _few(problems)
            if one not in self._said and one.ingress in ingresses
        ]
        return all(late)

    def _machines(self, seen: Seen) -> list[str]:
        """Return the machines whose pods take requests."""
        return sorted(
            {
                node
                for subset in seen.endpoints.get(self._settings.service) or ()
                for _, node in subset.addresses
                if node in seen.nodes
            }
        )

    def _statuses(
        self, ingresses: Mapping[str, Ingress], known: Mapping[str, Status], wanted: tuple[str, ...]
    ) -> list[bool]:
        """Write those that are to be others; return of each whether the API server has it."""
        now, waiting = time.monotonic(), {}
        for key in ingresses:
            status = known.get(key, Status())
            before = self._waiting.get(key, _Waiting(status, now, now))
            if status.addresses != wanted:
                rests = before.rests if before.status == status else now
                waiting[key] = _Waiting(status, rests, before.waits)
        self._waiting = waiting
        return [
            one.is_due and self._status(ingresses[key], wanted)
            for key, one in self._waiting.items()
        ]

    def _status(self, one: Ingress, wanted: tuple[str, ...]) -> bool:
        path = f"{API}/namespaces/{one.namespace}/ingresses/{one.name}/status"
        status = {"loadBalancer": {"ingress": [{"ip": address} for address in wanted]}}
        return self._send("PATCH", path, {"status": status}, MERGE)

    def _event(self, one: Ingress, problem: Problem) -> bool:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # By its content: said twice, by whoever, it is one.
        digest = hashlib.sha256(f"{one.uid} {problem.message}".encode()).hexdigest()
        name = f"{one.name[:200]}.{digest[:16]}"
        event = {
            "metadata": {"name": name, "namespace": one.namespace},
            "involvedObject": {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "namespace": one.namespace,
                "name": one.name,
                "uid": one.uid,
            },
            "type": "Warning",
            "reason": REASON,
            "message": problem.message[:LONGEST],
            "source": {"component": self._settings.controller},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        if not self._send("POST", f"/api/v1/namespaces/{one.namespace}/events", event):
            return False
        self._said.add(problem)
        return True

    def _send(
        self, method: str, path: str, document: Mapping[str, object],
        content: str = "application/json",
    ) -> bool:  # fmt: skip
        try:
            self._client.write(method, path, dict(document), content)
        except ApiError as error:
            if error.status in (404, 409):  # it has gone, or somebody has said it
                return True
            self.errors += 1
            say("warning", str(error))
            return False
        return True


def _few(problems: list[Problem]) -> list[Problem]:
    """Return no more of an Ingress than somebody reads."""
    count: dict[str, int] = {}
    found = []
    for one in problems:
        count[one.ingress] = count.get(one.ingress, 0) + 1
        if count[one.ingress] <= EVENTS:
            found.append(one)
    return found


def _number(text: str) -> tuple[int, int]:
    found = ip_address(text)
    return found.version, int(found)
