"""The HAProxy of this pod: what it has, and what it is to have.

What a running one can be told it is told; for the rest it is started anew, with files that another
one has read before, and the one that runs finishes its requests.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from metalk8s_operators.report import say

from metalk8s_ingress import configuration, orders, slots
from metalk8s_ingress.configuration import Files
from metalk8s_ingress.haproxy import Haproxy, ProxyError
from metalk8s_ingress.model import Model
from metalk8s_ingress.settings import Settings
from metalk8s_ingress.slots import Places
from metalk8s_ingress.versions import Versions


class RejectedError(Exception):
    """HAProxy would not start with such files; those before hold."""


class Proxy:
    """Keeps HAProxy as a model says."""

    def __init__(self, settings: Settings, haproxy: Haproxy) -> None:
        self._settings, self._haproxy = settings, haproxy
        self._versions = Versions(settings.versions, settings.current)
        self._places: dict[str, Places] = {}
        self._files: Files | None = None
        self._process = ""
        self._reloaded = 0.0  # when, by the clock that only goes forward
        self.reloads = 0
        self.told = 0

    def apply(self, model: Model) -> bool:
        """Let HAProxy do what a model says; tell whether that was something else.

        :raises RejectedError: it would not start with that; all is as before.
        :raises ProxyError: it does not answer, or not as it should.
        """
        places = slots.assign(self._places, model.backends)
        files = self._render(model, places)
        running = self._haproxy.process()
        is_known = self._files is not None and running == self._process
        if is_known and self._files is not None and files.texts == self._files.texts:
            return False
        if is_known and self._files is not None and files.frame == self._files.frame:
            self._tell(places, files, self._files)
        else:
            self._start(files, places)
        return True

    def check(self, model: Model) -> str:
        """Return why HAProxy would not start with a model; empty: it would."""
        places = slots.assign(self._places, model.backends)
        candidate = self._versions.write(self._render(model, places).texts)
        try:
            self._haproxy.check(candidate / configuration.MAIN)
        except ProxyError as error:
            return str(error)
        finally:
            self._versions.drop(candidate)
        return ""

    def _render(self, model: Model, places: Mapping[str, Places]) -> Files:
        fallback = model.fallback or self._settings.own_certificate.read_text(encoding="ascii")
        return configuration.render(self._settings, model, places, fallback)

    def _tell(self, places: Mapping[str, Places], files: Files, before: Files) -> None:
        # First the files: a HAProxy that dies meanwhile begins with them.
        self._versions.hold(self._versions.write(files.texts))
        try:
            self._haproxy.obey(orders.between(before, self._places, files, places))
        except ProxyError as error:
            say("warning", f"HAProxy is started anew: {error}")
            self._start_or_return(files, places, before)
            return
        self._files, self._places = files, dict(places)
        self.told += 1

    def _start_or_return(self, files: Files, places: Mapping[str, Places], before: Files) -> None:
        """Start it with files that hold already; they do not, if it does not take them."""
        try:
            self._start(files, places)
        except RejectedError:
            self._files = None  # it has some of both
            self._versions.hold(self._versions.write(before.texts))
            raise

    def _start(self, files: Files, places: Mapping[str, Places]) -> None:
        candidate = self._versions.write(files.texts)
        try:
            self._haproxy.check(candidate / configuration.MAIN)
        except ProxyError as error:
            self._versions.drop(candidate)
            raise RejectedError(str(error)) from error
        self._wait()
        self._versions.hold(candidate)
        self._files = None  # until it has them, nobody knows what it has
        self._process = self._haproxy.reload()
        self._reloaded = time.monotonic()
        self._files, self._places = files, dict(places)
        self.reloads += 1

    def _wait(self) -> None:
        """Let time pass between two reloads: each leaves a process with its connections."""
        if self._reloaded:
            left = self._reloaded + self._settings.pause - time.monotonic()
            time.sleep(max(0.0, left))
