"""Unbound, by its control socket: it forgets what has changed.

So it can keep answers of Knot, and whoever asks gets the new ones at once. An answer that was on
its way meanwhile may be the old one, until its TTL is over.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from metalk8s_dns import names

VERSION = "UBCT1"
TIMEOUT = 5  # seconds, for one word of Unbound
ONE_BY_ONE = 500  # names; for more of them, whole zones are forgotten
SAID = 4096  # bytes


class CacheError(Exception):
    """Unbound did not do what it was told."""


class Cache:
    """The Unbound of this pod."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def forget(self, changed: Iterable[str], zones: frozenset[str]) -> None:
        """Let nobody get an old answer for a name.

        An Unbound that is not there has nothing to forget.

        :param zones: that the names are in.
        :raises CacheError: it does not do so.
        """
        wanted = sorted(set(changed))
        if len(wanted) <= ONE_BY_ONE:
            commands = [f"flush {name}" for name in wanted]
        else:
            commands = [f"flush_zone {zone}" for zone in _zones(wanted, zones)]
        for command in commands:
            try:
                self._tell(command)
            except (FileNotFoundError, ConnectionRefusedError):
                return
            except OSError as error:
                raise CacheError(f"{self._control}: {command}: {error}") from error

    def _tell(self, command: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(TIMEOUT)
            control.connect(str(self._control))
            control.sendall(f"{VERSION} {command}\n".encode("ascii"))
            said = b""
            while more := control.recv(SAID):
                said += more
        if not said.startswith(b"ok"):
            what = said.decode("ascii", "replace").strip()
            raise CacheError(f"{self._control}: {command}: {what}")


def _zones(wanted: Iterable[str], zones: frozenset[str]) -> list[str]:
    return sorted({names.zone_of(name, zones) for name in wanted})
