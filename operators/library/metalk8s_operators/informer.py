"""A copy of one kind of objects, kept up to date by list and watch.

Of an object, only what the program wants of it stays in memory. The copy changes in one step: a
list that was cut in the middle is not seen. Whoever cannot reach the API server keeps what it knew.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from metalk8s_operators.backoff import Backoff
from metalk8s_operators.client import ApiError, Client, Object

Kept = TypeVar("Kept")

GONE = http.client.GONE
PAGE = 50  # objects of one answer: a Node is 15 KB of JSON
SHORT = 1.0  # seconds: a watch that ends sooner, and without a word, has failed


@dataclass(frozen=True)
class Rhythm:
    """When to ask again.

    :param watch: seconds after which a watch ends and the next begins.
    :param resync: seconds after which everything is listed anew, whatever was watched.
    """

    watch: float = 300.0
    resync: float = 1800.0


class Informer(Generic[Kept]):
    """The copy. ``run`` belongs into a thread; everything else may be called from others.

    :param path: of the collection, ``/api/v1/nodes``.
    :param keep: what to keep of an object; ``None`` nothing.
    :param changed: is called when the copy is another one.
    :param said: is called with what went wrong.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        keep: Callable[[Object], Kept | None],
        changed: Callable[[], None],
        said: Callable[[str], None],
        *,
        rhythm: Rhythm | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._client, self._path, self._keep = client, path, keep
        self._changed, self._said = changed, said
        self._rhythm, self._backoff = rhythm or Rhythm(), backoff or Backoff()
        self._lock = threading.Lock()
        self._copy: dict[str, Kept] | None = None
        self._version, self._listed = "", 0.0
        self.errors = 0

    def copy(self) -> Mapping[str, Kept] | None:
        """Return what is known, by ``namespace/name`` or ``name``; ``None`` before a first list."""
        with self._lock:
            return None if self._copy is None else dict(self._copy)

    def run(self, stop: threading.Event) -> None:
        """List, watch, and begin again, until told to stop."""
        while not stop.is_set():
            try:
                self._round()
            except ApiError as error:
                if error.status == GONE:
                    self._version = ""
                self.errors += 1
                self._said(str(error))
                stop.wait(max(error.pause, self._backoff.pause()))

    def _round(self) -> None:
        if not self._version or time.monotonic() - self._listed > self._rhythm.resync:
            self._list()
        began = time.monotonic()
        heard = self._watch()
        if not heard and time.monotonic() - began < SHORT:
            raise ApiError(0, f"{self._path}: the watch ended at once")
        self._backoff.reset()

    def _list(self) -> None:
        found: dict[str, Kept] = {}
        query = {"limit": str(PAGE)}
        while True:
            document = self._client.get(self._path, query)
            for item in document.get("items") or []:
                self._store(found, item)
            metadata = document.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        self._version = str(metadata.get("resourceVersion", ""))
        if not self._version:
            raise ApiError(0, f"{self._path}: the list has no resourceVersion")
        self._listed = time.monotonic()
        self._replace(found)

    def _store(self, copy: dict[str, Kept], item: Object) -> None:
        kept = self._keep(item)
        if kept is None:
            copy.pop(_key(item), None)
        else:
            copy[_key(item)] = kept

    def _replace(self, found: dict[str, Kept]) -> None:
        with self._lock:
            is_same = self._copy == found
            self._copy = found
        if not is_same:
            self._changed()

    def _watch(self) -> bool:
        """Follow what changes; tell whether there was a word."""
        # Not all programs of a cluster at the same moment.
        seconds = int(self._rhythm.watch * random.uniform(0.8, 1.2))  # noqa: S311 -- no secret
        query = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, seconds)),
        }
        heard = False
        for event in self._client.lines(self._path, query):
            self._take(event)
            self._backoff.reset()
            heard = True
        return heard

    def _take(self, event: Object) -> None:
        kind, item = event.get("type"), event.get("object")
        if not isinstance(item, dict):
            raise ApiError(0, f"{self._path}: an event without an object")
        if kind == "ERROR":
            raise ApiError(int(item.get("code") or 0), f"{self._path}: {item.get('message')}")
        # An object that lacks it would make the next watch begin anywhere.
        self._version = str((item.get("metadata") or {}).get("resourceVersion") or self._version)
        if kind == "BOOKMARK":
            return
        found = dict(self._copy or {})
        if kind == "DELETED":
            found.pop(_key(item), None)
        else:
            self._store(found, item)
        self._replace(found)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
