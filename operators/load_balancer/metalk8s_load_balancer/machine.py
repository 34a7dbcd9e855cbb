"""The machine itself: its interfaces, its addresses, its packet filter."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from metalk8s_load_balancer import filters

TIMEOUT = 20  # seconds, for one program


class MachineError(Exception):
    """A program of the machine did not do what it was told."""


def run(argv: Sequence[str | Path], text: str = "") -> str:
    """Run a program and return what it says.

    :raises MachineError: it is missing, takes too long, or fails.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{words[0]}: {error}") from error
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()
        raise MachineError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return done.stdout


def interface_of(address: IPv4Address) -> str:
    """Return the interface that has an address of this machine.

    :raises MachineError: none has.
    """
    for link in json.loads(run(["ip", "-json", "-4", "address"])):
        if any(one.get("local") == str(address) for one in link.get("addr_info") or []):
            return str(link["ifname"])
    raise MachineError(f"no interface of this machine has {address}, which is its Node's")


class Leftovers:
    """Addresses that a keepalived was given, in a file: one that was killed leaves them behind.

    The next one does not know them as its own, and by then another machine may have them.

    :param file: goes when the machine starts anew, as the addresses do.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def expect(self, addresses: Sequence[IPv4Address], interface: str) -> None:
        """Note addresses before keepalived hears of them."""
        known = dict.fromkeys(self._read())
        known.update(dict.fromkeys((str(one), interface) for one in addresses))
        text = "".join(f"{address} {device}\n" for address, device in known)
        self._file.write_text(text, encoding="ascii")

    def clear(self) -> list[str]:
        """Take the noted addresses away, while no keepalived runs; return those that were there."""
        found = []
        for address, device in self._read():
            if f"inet {address}/32 " in run(["ip", "-oneline", "-4", "address"]):
                run(["ip", "address", "delete", f"{address}/32", "dev", device])
                found.append(address)
        self._file.unlink(missing_ok=True)
        return found

    def _read(self) -> list[tuple[str, str]]:
        if not self._file.is_file():
            return []
        lines = self._file.read_text(encoding="ascii").splitlines()
        return [(words[0], words[1]) for line in lines if len(words := line.split()) > 1]


class Filter:
    """Our table in the packet filter; made anew when somebody took it away."""

    def __init__(self) -> None:
        self._loaded = ""

    def apply(self, text: str) -> bool:
        """Let the table be as a text says, or not be there; tell whether that changed anything.

        :raises MachineError: ``nft`` does not take it.
        """
        if text == self._loaded and (not text or self._is_there()):
            return False
        if text or self._is_there():
            run(["nft", "--file", "-"], text or filters.REMOVAL)
        self._loaded = text
        return True

    def _is_there(self) -> bool:
        try:
            run(["nft", "list", "table", "ip", filters.TABLE])
        except MachineError:
            return False
        return True
