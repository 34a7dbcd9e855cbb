"""One of several copies of a program does the work: whoever holds a Lease.

Clocks of machines are not compared. Who does not lead waits until it has seen no renewal for the
whole time of the Lease; who leads, stops to do so well before.
"""

from __future__ import annotations

import datetime
import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from metalk8s_operators.client import ApiError, Client, Object


@dataclass(frozen=True)
class Terms:
    """Seconds of an election.

    :param lease: without a renewal after which another may lead.
    :param deadline: after its last renewal that who leads may still write. The rest of ``lease`` is
        for a write that is on its way (``client.WRITE_TIMEOUT``).
    :param retry: between two attempts.
    """

    lease: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


class Election:
    """One copy's part in it. ``run`` belongs into a thread; ``leads`` may be asked from others.

    :param path: of the Leases of a namespace, ``/apis/coordination.k8s.io/v1/namespaces/N/leases``.
    :param identity: name of this copy, which no other has.
    :param changed: is called when this copy begins to lead, and when it no longer does.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        name: str,
        identity: str,
        changed: Callable[[], None],
        said: Callable[[str], None],
        *,
        terms: Terms | None = None,
    ) -> None:
        self._client, self._path, self._name = client, path, name
        self._identity, self._changed, self._said = identity, changed, said
        self._terms = terms or Terms()
        self._renewed: float | None = None
        self._seen: tuple[object, object] = (None, None)
        self._since = 0.0
        self._was_leading = False

    def leads(self) -> bool:
        """Tell whether this copy may write now."""
        renewed = self._renewed
        return renewed is not None and time.monotonic() - renewed < self._terms.deadline

    def run(self, stop: threading.Event) -> None:
        """Take the Lease when it is free, and renew it, until told to stop; then give it back."""
        while not stop.is_set():
            try:
                self._try()
            except ApiError as error:
                if error.status != http.client.CONFLICT:
                    self._said(str(error))
            self._tell()
            stop.wait(self._terms.retry)
        if self.leads():
            self._give_back()

    def _try(self) -> None:
        began = time.monotonic()
        lease = self._read()
        if lease is None:
            self._client.write("POST", self._path, self._wanted({}, None))
        else:
            spec = lease.get("spec") or {}
            if not self._may_take(spec, began):
                self._renewed = None
                return
            self._client.write("PUT", self._where(), self._wanted(lease["metadata"], spec))
        # From before the question: the others count from when they see the answer to it.
        self._renewed = began

    def _may_take(self, spec: Object, now: float) -> bool:
        holder = spec.get("holderIdentity")
        record = (holder, spec.get("renewTime"))
        if record != self._seen:
            self._seen, self._since = record, now
        if not holder or holder == self._identity:
            return True
        lease = float(spec.get("leaseDurationSeconds") or self._terms.lease)
        return now - self._since >= lease

    def _wanted(self, metadata: Object, spec: Object | None) -> Object:
        # resourceVersion: who was slower than another gets 409.
        kept = {key: metadata[key] for key in ("resourceVersion",) if key in metadata}
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = spec or {}
        is_mine = before.get("holderIdentity") == self._identity
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, **kept},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._terms.lease)),
                "renewTime": now,
                "acquireTime": before.get("acquireTime") if is_mine else now,
                "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not is_mine),
            },
        }

    def _give_back(self) -> None:
        """Let another one lead at once."""
        self._renewed = None
        try:
            lease = self._read()
            if lease and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                self._client.write("PUT", self._where(), lease)
        except ApiError as error:
            self._said(str(error))
        self._tell()

    def _read(self) -> Object | None:
        try:
            return self._client.get(self._where(), {})
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise

    def _where(self) -> str:
        return f"{self._path}/{self._name}"

    def _tell(self) -> None:
        leads = self.leads()
        if leads != self._was_leading:
            self._was_leading = leads
            self._changed()
