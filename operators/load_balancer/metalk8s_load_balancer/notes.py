"""Events of the API: what a person reads who asks why a Service has no address."""

from __future__ import annotations

import datetime
import hashlib
import http.client
from dataclasses import dataclass

from metalk8s_operators.client import ApiError, Client, Object

COMPONENT = "metalk8s-load-balancer"


@dataclass(frozen=True)
class About:
    """An object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class Note:
    """What is said of it.

    :param kind: ``Normal`` or ``Warning``.
    """

    about: About
    kind: str
    reason: str
    message: str


def post(client: Client, note: Note) -> None:
    """Say it; what was said before, and is kept still, gets the new time.

    :raises ApiError: the API server does not take it.
    """
    namespace = note.about.namespace or "default"
    path = f"/api/v1/namespaces/{namespace}/events"
    event = _event(note, namespace)
    try:
        client.write("POST", path, event)
    except ApiError as error:
        if error.status != http.client.CONFLICT:
            raise
        again = {"lastTimestamp": event["lastTimestamp"]}
        client.write("PATCH", f"{path}/{event['metadata']['name']}", again)


def _event(note: Note, namespace: str) -> Object:
    about = note.about
    said = "\n".join((about.uid, note.reason, note.message))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": about.uid,
            **({"namespace": about.namespace} if about.namespace else {}),
        },
        "type": note.kind,
        "reason": note.reason,
        "message": note.message,
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
