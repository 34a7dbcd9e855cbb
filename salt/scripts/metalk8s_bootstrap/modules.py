"""Modules of the running kernel: which are there, and why one cannot be had.

Files: ``/sys/module``, ``/lib/modules/<release>``, ``modprobe.d(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from metalk8s_bootstrap.machine import Machine

LISTS = ("modules.dep", "modules.builtin")
CONFIGURATIONS = ("etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d")
# What administrators have run in place of loading a module.
REFUSAL = re.compile(r"^\s*install\s+(\S+)\s+(?:/usr)?/bin/(?:true|false)\b")
LOCK = "proc/sys/kernel/modules_disabled"


@dataclass(frozen=True)
class Modules:
    """The modules of a machine's kernel.

    :param known: names of those that can be loaded or are built in; ``None`` where nothing says it.
    :param refused: names of those that modprobe is told not to load, with the file that tells it.
    """

    machine: Machine
    known: frozenset[str] | None
    refused: dict[str, str]

    @classmethod
    def of(cls, machine: Machine) -> Modules:
        """Read what a machine's kernel has."""
        folder = f"lib/modules/{machine.release}"
        is_listed = any(machine.exists(f"{folder}/{name}") for name in LISTS)
        lines = "".join(machine.text(f"{folder}/{name}") for name in LISTS).splitlines()
        known = frozenset(map(_name, lines)) if is_listed else None
        return cls(machine, known, dict(_refused(machine)))

    def why_not(self, name: str, sign: str = "") -> str:
        """Say why a module is not to be had; empty when it is.

        :param sign: what is there when it is loaded. One that is loaded on demand needs none: where
            nothing tells which there are, it is believed to be there.
        """
        if self.machine.exists(sign or f"sys/module/{name}"):
            return ""
        if self.machine.text(LOCK).strip() == "1":
            return "is not loaded, and kernel.modules_disabled keeps it out"
        if name in self.refused:
            return f"is switched off by {self.refused[name]}"
        is_there = name in self.known if self.known is not None else not sign
        return "" if is_there else f"is not there ({self.machine.release})"


def _name(line: str) -> str:
    """Return the name of a module by its line in ``modules.dep`` or ``modules.builtin``."""
    file = line.partition(":")[0].rpartition("/")[2]
    return file.partition(".")[0].replace("-", "_")


def _refused(machine: Machine) -> Iterator[tuple[str, str]]:
    for folder in CONFIGURATIONS:
        for path in sorted((machine.root / folder).glob("*.conf")):
            name = f"{folder}/{path.name}"
            for line in machine.text(name).splitlines():
                match = REFUSAL.match(line)
                if match:
                    yield match[1].replace("-", "_"), f"/{name}"
