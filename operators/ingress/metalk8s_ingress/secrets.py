"""Secrets that Ingresses name, each read by its name.

They are not listed and not watched: whoever stole this program's token would know all of them. So
a change is seen after the seconds between two looks, or when an Ingress changes.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from metalk8s_operators.client import ApiError, Client

from metalk8s_ingress import certificates
from metalk8s_ingress.model import Pem, Unusable

NOT_FOUND = 404
RETRY = 2.0  # seconds, after the API server did not answer


class Secrets:
    """The copies. ``run`` belongs into a thread; everything else may be called from others.

    :param folder: in memory, where a key may be for a moment.
    :param poll: seconds between two looks.
    :param changed: is called when there is something else.
    :param said: is called with what went wrong.
    """

    def __init__(
        self,
        client: Client,
        folder: Path,
        poll: float,
        changed: Callable[[], None],
        said: Callable[[str], None],
    ) -> None:
        self._client, self._folder, self._poll = client, folder, poll
        self._changed, self._said = changed, said
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._wanted: frozenset[str] = frozenset()
        self._copy: dict[str, Pem | Unusable] = {}
        self._known: set[str] = set()
        self.errors = 0

    def want(self, wanted: frozenset[str], *, anew: bool = False) -> None:
        """Say which Secrets are needed.

        :param anew: look at all of them now.
        """
        with self._lock:
            is_new = anew or not wanted <= self._wanted
            self._wanted = wanted
        if is_new:
            self._asked.set()

    def copy(self) -> Mapping[str, Pem | Unusable]:
        """Return what is known, by ``namespace/name``; what is not there is left out."""
        with self._lock:
            return dict(self._copy)

    def is_complete(self, wanted: frozenset[str]) -> bool:
        """Tell whether each of some has been looked for at least once."""
        with self._lock:
            return wanted <= self._known

    def run(self, stop: threading.Event) -> None:
        """Look, and look again, until told to stop."""
        while not stop.is_set():
            self._asked.clear()
            is_complete = self.look()
            pause = self._poll if is_complete else min(RETRY, self._poll)
            # Not all machines of a cluster at the same moment.
            self._asked.wait(pause * random.uniform(0.8, 1.2))  # noqa: S311 -- no secret

    def look(self) -> bool:
        """Read all of them; tell whether that could be done for each."""
        with self._lock:
            wanted, before = self._wanted, dict(self._copy)
            known = self._known & wanted
        found: dict[str, Pem | Unusable] = {}
        is_complete = True
        for key in sorted(wanted):
            try:
                one = self._read(key, before.get(key))
            except ApiError as error:
                self.errors += 1
                self._said(str(error))
                is_complete = False
                one = before.get(key)
                # One that it does not give does not hold up the others.
                known = known | {key} if error.status else known
            except OSError as error:  # of the folder: it is full, or away
                self._said(f"Secret {key} could not be checked, and is tried again: {error}")
                is_complete = False
                one = before.get(key) or Unusable(f"it could not be checked: {error.strerror}")
                known = known | {key}
            else:
                known = known | {key}
            if one is not None:
                found[key] = one
        with self._lock:
            is_same = found == self._copy and known == self._known
            self._copy, self._known = found, set(known)
        if not is_same:
            self._changed()
        return is_complete

    def _read(self, key: str, before: Pem | Unusable | None) -> Pem | Unusable | None:
        namespace, _, name = key.partition("/")
        try:
            secret = self._client.get(f"/api/v1/namespaces/{namespace}/secrets/{name}", {})
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        found = certificates.read(secret, self._folder)
        if isinstance(found, Unusable) and isinstance(before, str):
            self._said(f"Secret {key}: {found.reason}; the one before holds")
            return before
        return found
