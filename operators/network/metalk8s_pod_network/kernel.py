"""The kernel of this machine: read, compared, and changed where it differs.

Programs: ``ip``, ``bridge``, ``nft``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from metalk8s_pod_network import difference, packets
from metalk8s_pod_network.isolation import filters, script
from metalk8s_pod_network.isolation.filters import Table
from metalk8s_pod_network.settings import DEVICE, PROTOCOL
from metalk8s_pod_network.wanted import Wanted

TIMEOUT = 30  # seconds, for one program
# program and arguments, text for its standard input -> its output
Run = Callable[[Sequence[str], str], str]


class KernelError(Exception):
    """A program did not do what it was told; says which, and what it said."""


def run(argv: Sequence[str], text: str = "") -> str:
    """Run a program.

    :raises KernelError: it failed.
    """
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelError(f"{argv[0]}: {error}") from error
    if done.returncode:
        raise KernelError(f"{' '.join(argv)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


class Kernel:
    """What there is, and the way to what is to be.

    :param execute: runs the programs.
    """

    def __init__(self, execute: Run = run) -> None:
        self._run = execute
        # What was written last, and how the kernel shows it.
        self._table, self._shown = script.EMPTY, ""

    def links(self) -> list[dict[str, Any]]:
        """Return all interfaces with their addresses."""
        return self._json(["ip", "-j", "-d", "address", "show"])

    def apply(self, wanted: Wanted, links: Sequence[dict[str, Any]]) -> list[str]:
        """Change what differs; nothing in the way of what goes on.

        :param links: as ``links`` gives them.
        :return: what was done.
        :raises KernelError: something could not be done; the rest is.
        """
        steps: list[Callable[[], list[str]]] = [
            lambda: self._packets(wanted),
            lambda: self._tunnel(wanted, links),
            lambda: self._ends(wanted),
            lambda: self._routes(wanted),
            lambda: self._rules(wanted),
        ]
        if wanted.tunnel is None:
            # the last that goes: routes and the table would name what is not there
            steps = [steps[3], steps[4], steps[1], steps[0]]
        done: list[str] = []
        problems: list[str] = []
        for step in steps:
            try:
                done += step()
            except KernelError as error:
                problems.append(str(error))
        if problems:
            raise KernelError("; ".join(problems))
        return done

    def isolate(self, table: Table) -> list[str]:
        """Let the table of policies be another one, in one step; or as it was.

        :return: what was done.
        :raises KernelError: it could not be done.
        """
        if self._shown and self._show_policies() == self._shown:
            texts = script.change(self._table, table)
        else:
            texts = script.whole(table, self._names())
        if not texts:
            return []
        self._shown, problems = "", []
        try:
            self._load(texts)
        except KernelError as error:
            # Names are not all: what somebody else has put there under them need not fit.
            problems = [f"made anew, since {error}"]
            texts = script.anew(table)
            self._load(texts)
        self._table, self._shown = table, self._show_policies()
        lines = "".join(texts).count("\n")
        return [*problems, f"{lines} lines of nft for {filters.TABLE}"]

    def _load(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._run(["nft", "-f", "-"], text)

    def _names(self) -> script.Names | None:
        name = (filters.FAMILY, filters.TABLE)
        if not self._is_there(*name):
            return script.Names()
        return script.read(self._json_object(["nft", "-j", "-t", "list", "table", *name]))

    def _show_policies(self) -> str:
        if not self._is_there(filters.FAMILY, filters.TABLE):
            return ""
        return self._run(["nft", "-s", "list", "table", filters.FAMILY, filters.TABLE], "")

    def _is_there(self, family: str, name: str) -> bool:
        listed = self._json_object(["nft", "-j", "list", "tables"])
        tables = [item["table"] for item in listed["nftables"] if "table" in item]
        return any((table["family"], table["name"]) == (family, name) for table in tables)

    def _packets(self, wanted: Wanted) -> list[str]:
        name = (packets.FAMILY, packets.TABLE)
        there = self._is_there(*name)
        listing = self._json_object(["nft", "-j", "list", "table", *name]) if there else None
        commands = packets.commands(listing, wanted.packets)
        if commands:
            self._run(["nft", "-j", "-f", "-"], json.dumps({"nftables": commands}))
        return [f"nft {json.dumps(command)}" for command in commands]

    def _tunnel(self, wanted: Wanted, links: Sequence[dict[str, Any]]) -> list[str]:
        return self._batch("ip", difference.tunnel(difference.read_tunnel(links), wanted.tunnel))

    def _ends(self, wanted: Wanted) -> list[str]:
        neighbours = self._json(["ip", "-j", "neighbour", "show", "dev", DEVICE])
        forwarding = self._json(["bridge", "-j", "fdb", "show", "dev", DEVICE])
        changes = difference.ends(*difference.read_ends(neighbours, forwarding), wanted.ends)
        return [*self._batch("ip", changes.ip), *self._batch("bridge", changes.bridge)]

    def _routes(self, wanted: Wanted) -> list[str]:
        show = ["ip", "-N", "-j", "route", "show", "table", "all", "proto", str(PROTOCOL)]
        present = difference.read_routes(self._json(show))
        return self._batch("ip", difference.routes(present, wanted.routes))

    def _rules(self, wanted: Wanted) -> list[str]:
        present = difference.read_rules(self._json(["ip", "-N", "-j", "rule", "show"]))
        return self._batch("ip", difference.rules(present, wanted.rules))

    def _batch(self, program: str, lines: Sequence[str]) -> list[str]:
        """Give a program its lines; one that fails does not keep the next from being done."""
        if lines:
            self._run([program, "-force", "-batch", "-"], "".join(f"{line}\n" for line in lines))
        return [f"{program} {line}" for line in lines]

    def _json(self, argv: Sequence[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._run(argv, "") or "[]")
        return [entry for entry in found if entry]

    def _json_object(self, argv: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._run(argv, "") or "{}")
        return found
