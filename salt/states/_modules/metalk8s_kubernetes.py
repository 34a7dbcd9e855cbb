"""The Kubernetes API, spoken over HTTPS with the certificate of a kubeconfig.

Objects are handed over with server-side apply: the API server itself merges, and a dry run of it is
how a change is foreseen.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import pathlib
import ssl
import tempfile
import time
import urllib.parse
from typing import Any

import yaml

ADMINISTRATOR = "/etc/kubernetes/admin.conf"
MANAGER = "metalk8s"
# In memory, for what OpenSSL takes from a file only: the second one where the first is read-only.
PRIVATE = "/run"
SHARED = "/dev/shm"  # noqa: S108  (mkstemp makes a file that nobody else can open)
TIMEOUT = 30  # seconds, for one answer
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
NOT_FOUND = 404
CONFLICT = 409
BUSY = 429  # too many requests: the API server names the seconds to wait
ATTEMPTS = 10
# Seconds that an API server may be away while something is applied: it starts, it is restarted, or
# its virtual address moves. What is applied twice is applied once.
OUTAGE = 60.0
PAUSE = 0.5  # seconds between two questions
AWAY = "metalk8s_kubernetes.away"  # in Salt's context: one that was waited for in vain


class ApiError(Exception):
    """The API server did not do what it was asked; ``status`` is that of HTTP, 0 without answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_away(self) -> bool:
        """Whether there was nobody to answer, or nobody behind that."""
        return not self.status or self.status >= http.client.INTERNAL_SERVER_ERROR


class Client:
    """A user of one API server, by default the administrator; knows the kinds it asked about.

    :param patience: seconds for which one that is away is asked again.
    """

    def __init__(self, kubeconfig: str, patience: float = 0) -> None:
        self.patience = patience
        self.plurals: dict[tuple[str, str], dict[str, Any]] = {}
        file = pathlib.Path(kubeconfig or ADMINISTRATOR)
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        self.server = urllib.parse.urlsplit(cluster["server"])
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
        self.tls = ssl.create_default_context(cadata=trusted)
        folder = PRIVATE if os.access(PRIVATE, os.W_OK) else SHARED
        descriptor, name = tempfile.mkstemp(prefix=".kubeconfig-", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(base64.b64decode(user["client-certificate-data"]))
                stream.write(base64.b64decode(user["client-key-data"]))
            self.tls.load_cert_chain(name)
        finally:
            pathlib.Path(name).unlink()

    def call(
        self, method: str, path: str, body: object = None, content: str = "application/json"
    ) -> Any:
        """Ask, and again while the API server is away, for as long as there is patience.

        :raises ApiError: no answer, or one that is not a success.
        """
        until = time.monotonic() + self.patience
        while True:
            try:
                return self._call(method, path, body, content)
            except ApiError as error:
                if not error.is_away or time.monotonic() > until:
                    raise
            time.sleep(PAUSE)

    def _call(self, method: str, path: str, body: object, content: str) -> Any:
        """Ask, and again for as long as the API server is too busy."""
        for _ in range(ATTEMPTS):
            status, said, pause = self._ask(method, path, body, content)
            if status != BUSY:
                break
            time.sleep(pause)
        if status >= http.client.MULTIPLE_CHOICES:
            raise ApiError(status, _message(said))
        return json.loads(said) if said.startswith("{") else said

    def _ask(self, method: str, path: str, body: object, content: str) -> tuple[int, str, float]:
        """Ask once; return the status, the answer, and how long to wait before asking again."""
        connection = http.client.HTTPSConnection(
            self.server.hostname or "", self.server.port, context=self.tls, timeout=TIMEOUT
        )
        try:
            text = None if body is None else json.dumps(body)
            headers = {"Accept": "application/json", "Content-Type": content}
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            said = answer.read().decode("utf-8")
            pause = float(answer.getheader("Retry-After") or 1)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"{self.server.netloc} does not answer: {error}") from error
        finally:
            connection.close()
        return answer.status, said, pause

    def path(self, api_version: str, kind: str, name: str, namespace: str = "") -> str:
        """Name an object as the API does.

        :raises ApiError: the API has no such kind.
        """
        resource, root = self._kind(api_version, kind)
        middle = f"/namespaces/{namespace or 'default'}" if resource["namespaced"] else ""
        return f"{root}{middle}/{resource['name']}/{name}"

    def collection(self, api_version: str, kind: str, namespace: str = "") -> str:
        """Name all objects of a kind, those of one namespace or of all.

        :raises ApiError: the API has no such kind.
        """
        resource, root = self._kind(api_version, kind)
        middle = f"/namespaces/{namespace}" if namespace and resource["namespaced"] else ""
        return f"{root}{middle}/{resource['name']}"

    def _kind(self, api_version: str, kind: str) -> tuple[dict[str, Any], str]:
        """Return what the API says of a kind, and where its version begins."""
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        if (api_version, kind) not in self.plurals:
            found = [r for r in self.call("GET", root)["resources"] if r["kind"] == kind]
            own = [resource for resource in found if "/" not in resource["name"]]
            if not own:
                raise ApiError(NOT_FOUND, f"the API has no {kind} of {api_version}")
            self.plurals[(api_version, kind)] = own[0]
        return self.plurals[(api_version, kind)], root


def ready(kubeconfig: str = "") -> bool:
    """Tell whether the API server says of itself that it is ready."""
    try:
        return bool(Client(kubeconfig).call("GET", "/readyz") == "ok")
    except (OSError, ApiError):
        return False


def get(
    api_version: str,
    kind: str,
    name: str,
    namespace: str = "",
    kubeconfig: str = "",
) -> dict[str, Any] | None:
    """Read an object, or nothing when there is none."""
    client = Client(kubeconfig)
    try:
        found: dict[str, Any] = client.call("GET", client.path(api_version, kind, name, namespace))
    except ApiError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return found


def list_objects(
    api_version: str, kind: str, namespace: str = "", kubeconfig: str = ""
) -> list[dict[str, Any]]:
    """Read all objects of a kind.

    :param namespace: of all of them, when empty.
    :raises ApiError: the API has no such kind, or it does not answer.
    """
    client = Client(kubeconfig)
    found: list[dict[str, Any]] = client.call(
        "GET", client.collection(api_version, kind, namespace)
    )["items"]
    return found


def replace(wanted: dict[str, Any], kubeconfig: str = "") -> dict[str, Any] | None:
    """Let an object be exactly as it is given, unless somebody has changed it since it was read.

    :param wanted: as it was read, with its ``resourceVersion``, and changed.
    :return: as it is now, or nothing when somebody was faster.
    :raises ApiError: there is no such object, or the API server rejected it.
    """
    client, metadata = Client(kubeconfig), wanted["metadata"]
    path = client.path(
        wanted["apiVersion"], wanted["kind"], metadata["name"], metadata.get("namespace", "")
    )
    try:
        found: dict[str, Any] = client.call("PUT", path, wanted)
    except ApiError as error:
        if error.status == CONFLICT:
            return None
        raise
    return found


def apply(
    objects: list[dict[str, Any]], test: bool = False, kubeconfig: str = ""
) -> dict[str, dict[str, Any]]:
    """Let objects be as described, fields that are not described left alone.

    :param test: only say what would change.
    :return: what changed: name of the object → ``old`` and ``new``.
    :raises ApiError: the API server rejected an object, or was away for too long; those before it
        are applied.
    """
    # A run applies many times: it waits once for one that does not come back.
    client = Client(kubeconfig, 0 if test or __context__.pop(AWAY, False) else OUTAGE)
    changes = {}
    try:
        for wanted in objects:
            change = _apply_one(client, wanted, test)
            if change:
                changes[_label(wanted)] = change
    except ApiError as error:
        __context__[AWAY] = error.is_away
        raise
    return changes


def _apply_one(client: Client, wanted: dict[str, Any], test: bool) -> dict[str, Any]:
    metadata = wanted["metadata"]
    namespace = metadata.get("namespace", "")
    path = client.path(wanted["apiVersion"], wanted["kind"], metadata["name"], namespace)
    try:
        before = client.call("GET", path)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        before = None
    if before is None and test:
        return {"old": None, "new": wanted}  # its namespace may not be there for a dry run
    query = f"{path}?fieldManager={MANAGER}&force=true"
    if before is not None:
        foreseen = client.call("PATCH", f"{query}&dryRun=All", wanted, APPLY)
        if _lasting(foreseen) == _lasting(before):
            return {}
        if test:
            return {"old": _lasting(before), "new": _lasting(foreseen)}
    after = client.call("PATCH", query, wanted, APPLY)
    return {"old": before and _lasting(before), "new": _lasting(after)}


def delete(objects: list[dict[str, Any]], test: bool = False, kubeconfig: str = "") -> list[str]:
    """Take objects away, the last one first; namespaces stay, others live in them.

    :param test: only say what would go.
    :return: names of those that were there.
    """
    client = Client(kubeconfig)
    gone = []
    for unwanted in reversed([one for one in objects if one["kind"] != "Namespace"]):
        metadata = unwanted["metadata"]
        namespace = metadata.get("namespace", "")
        try:
            # Without its CustomResourceDefinition, a kind is not known either.
            path = client.path(
                unwanted["apiVersion"], unwanted["kind"], metadata["name"], namespace
            )
            client.call("GET" if test else "DELETE", path)
            gone.append(_label(unwanted))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
    return gone


def mark_node(
    name: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    taints: list[dict[str, str]],
    test: bool = False,
    kubeconfig: str = "",
) -> dict[str, Any]:
    """Give a node labels, annotations and taints, and take back what it once got from here.

    :return: what changes, as ``metalk8s_marks.plan`` says.
    :raises ApiError: there is no such node, or others change it all the time.
    """
    client = Client(kubeconfig)
    path = client.path("v1", "Node", name)
    for attempt in range(1, ATTEMPTS + 1):
        node = client.call("GET", path)
        changes, patch = __salt__["metalk8s_marks.plan"](node, labels, annotations, taints)
        if test or not changes:
            return changes
        try:
            client.call("PATCH", f"{path}?fieldManager={MANAGER}", patch, MERGE)
        except ApiError as error:
            # Somebody changed it since it was read: the list of taints may be another one.
            if error.status != CONFLICT or attempt == ATTEMPTS:
                raise
            continue
        return changes
    raise AssertionError("the last attempt returns or raises")


def why_not_ready(name: str, kubeconfig: str = "") -> str:
    """Say what keeps a node from being ready, or nothing when it is."""
    node = get("v1", "Node", name, kubeconfig=kubeconfig)
    if node is None:
        return "there is no such node"
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return "" if condition["status"] == "True" else str(condition["message"])
    return "it has not said anything yet"


def _lasting(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what changes with every look, and what is observed rather than wanted."""
    volatile = {"managedFields", "resourceVersion", "generation"}
    metadata = {k: v for k, v in document["metadata"].items() if k not in volatile}
    return {**{k: v for k, v in document.items() if k != "status"}, "metadata": metadata}


def _label(wanted: dict[str, Any]) -> str:
    metadata = wanted["metadata"]
    return "/".join(
        part for part in (wanted["kind"], metadata.get("namespace"), metadata["name"]) if part
    )


def _message(said: str) -> str:
    try:
        return str(json.loads(said)["message"])
    except (ValueError, KeyError, TypeError):
        return said.strip()


def call(method: str, path: str, body: object = None, kubeconfig: str = "") -> Any:
    """Ask the API for what no other function does; a ``PATCH`` is a JSON merge patch.

    :param path: with the query, as in ``/api/v1/pods?limit=1``.
    :raises ApiError: as for ``Client.call``.
    """
    content = MERGE if method == "PATCH" else "application/json"
    return Client(kubeconfig).call(method, path, body, content)
