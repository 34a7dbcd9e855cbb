"""HAProxy, by its sockets: what one that runs can be told, and when it has to be started anew.

Commands used: ``haproxy -c``, for the opinion of one that does not run.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from metalk8s_ingress import configuration
from metalk8s_ingress.model import Server
from metalk8s_ingress.orders import Orders

PROGRAM = "haproxy"
TIMEOUT = 10.0  # seconds, for one answer
CHECK = 60.0  # seconds, for the opinion of one that reads everything
RELOAD = 30.0  # seconds until the next one takes requests
LOOK = 0.02  # seconds between two looks whether it does
ROOM = 8000  # bytes that several words may have together: half of what HAProxy takes
# Bytes that one word may have, such as a certificate and its key; 2.6 takes less than 16,384.
LONGEST = 16000
# What it says when a server got another address, or had it already.
FINE = ("IP changed from", "port changed from", "no need to change", "nothing changed",
        "New server registered")  # fmt: skip


class ProxyError(Exception):
    """HAProxy did not do what it was told."""


class Haproxy:
    """The HAProxy of this pod.

    :param worker: socket of the one that takes requests.
    :param master: socket of the one that starts it.
    """

    def __init__(self, worker: Path, master: Path) -> None:
        self._worker, self._master = worker, master

    def check(self, file: Path) -> None:
        """Let another HAProxy read a configuration.

        :raises ProxyError: with the first complaint.
        """
        try:
            done = subprocess.run(
                [PROGRAM, "-c", "-f", str(file)],
                capture_output=True, text=True, check=False, timeout=CHECK,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProxyError(f"{PROGRAM} -c -f {file}: {error}") from error
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "[ALERT]" in line]
            raise ProxyError(f"{file}: {' '.join(said[:1]) or done.stderr[-300:]}")

    def process(self) -> str:
        """Return which one takes requests.

        :raises ProxyError: none does.
        """
        said = dict(
            line.split(": ", 1) for line in self._ask("show info").splitlines() if ": " in line
        )
        return f"{said.get('Pid')} {said.get('Start_time_sec')}"

    def reload(self) -> str:
        """Start one with the files as they are now, and let the other one finish.

        :raises ProxyError: no other one takes requests after a while.
        """
        before = self.process()
        end = time.monotonic() + RELOAD
        # Who starts them is away for a moment after the last time.
        _until(end, lambda: _talk(self._master, "show proc\n"))
        _talk(self._master, "reload\n")
        now = before
        while now == before:
            if time.monotonic() > end:
                raise ProxyError(f"no other process takes requests {RELOAD:.0f} s after a reload")
            time.sleep(LOOK)
            now = _until(end, self.process)
        return now

    def obey(self, orders: Orders) -> None:
        """Let the one that takes requests be as its files say.

        :raises ProxyError: it refuses something; nobody knows what it has.
        """
        lines = self._lines() if orders.past else {}
        self._set_servers(orders)
        self._set_certificates(orders)
        for name, table in orders.maps.items():
            self._set_map(name, table)
        for line in (line for name in orders.past for line in lines.get(name, ())):
            self._say(f"del ssl crt-list {configuration.LIST} {line}", "deleted in crtlist")
        for name in orders.gone:
            self._say(f"del ssl cert {name}", "deleted")

    def _set_servers(self, orders: Orders) -> None:
        words = [word for change in orders.places for word in _place_words(*change)]
        words += [word for change in orders.servers for word in _server_words(*change)]
        for some in _chunks(words, ";"):
            for line in self._ask(some).splitlines():
                if line and not line.startswith(FINE):
                    raise ProxyError(f"{some[:80]}: {line}")

    def _set_map(self, name: str, lines: Iterable[str]) -> None:
        """Let a map be another one, at once."""
        said = self._ask(f"prepare map {name}")
        version = said.rpartition(":")[2].strip()
        if not version.isdigit():
            raise ProxyError(f"prepare map {name}: {said}")
        for some in _chunks(lines, "\n"):
            self._say(f"add map @{version} {name} <<\n{some}\n")
        self._say(f"commit map @{version} {name}")

    def _set_certificates(self, orders: Orders) -> None:
        for name in orders.new:
            self._say(f"new ssl cert {name}", "New empty certificate store")
        for name, pem in {**orders.new, **orders.certificates}.items():
            self._say(f"set ssl cert {name} <<\n{pem}", "Transaction")
            self._say(f"commit ssl cert {name}", "Success")
        for name, hosts in orders.hosts.items():
            self._say(f"add ssl crt-list {configuration.LIST} <<\n{name} {hosts}\n", "Success")

    def _lines(self) -> dict[str, list[str]]:
        """Return by certificate what its lines of the list are called."""
        found: dict[str, list[str]] = {}
        for line in self._ask(f"show ssl crt-list -n {configuration.LIST}").splitlines():
            called = line.split(" ")[0]
            found.setdefault(called.rpartition(":")[0], []).append(called)
        return found

    def _say(self, words: str, expected: str = "") -> None:
        """Tell it one thing.

        :raises ProxyError: its answer is another than what is expected: empty, or with a word.
        """
        begin = words.splitlines()[0]
        if len(words) > LONGEST:
            raise ProxyError(f"{begin}: {len(words)} bytes are too long to be told")
        said = self._ask(words)
        if expected not in said if expected else said:
            raise ProxyError(f"{begin}: {said.splitlines()[:1] or 'no answer'}")

    def _ask(self, words: str) -> str:
        return _talk(self._worker, f"{words}\n")


def _until(end: float, ask: Callable[[], str]) -> str:
    """Ask until there is an answer."""
    while True:
        try:
            return ask()
        except ProxyError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK)


def _place_words(backend: str, number: int, server: Server | None) -> Iterator[str]:
    place = f"{backend}/{configuration.server(number)}"
    yield f"add server {place} {configuration.literal(server)}"
    if server:
        yield f"set server {place} state ready"


def _server_words(backend: str, number: int, server: Server | None) -> Iterator[str]:
    place = f"{backend}/{configuration.server(number)}"
    if server is None:
        yield f"set server {place} state maint"
        return
    address, port = server
    yield f"set server {place} addr {address} port {port}"
    yield f"set server {place} state ready"


def _chunks(words: Iterable[str], separator: str) -> Iterator[str]:
    """Join words to as few texts as HAProxy takes."""
    found: list[str] = []
    size = 0
    for word in words:
        if found and size + len(word) + 1 > ROOM:
            yield separator.join(found)
            found, size = [], 0
        found.append(word)
        size += len(word) + 1
    if found:
        yield separator.join(found)


def _talk(path: Path, words: str) -> str:
    """Say something and hear all of the answer."""
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(TIMEOUT)
            stream.connect(str(path))
            stream.sendall(words.encode("ascii"))
            stream.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: stream.recv(65536), b""))
    except OSError as error:
        raise ProxyError(f"{path}: {error}") from error
    return said.decode("utf-8", "replace").strip()
