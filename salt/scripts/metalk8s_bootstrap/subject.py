"""What is checked before a bootstrap, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from metalk8s_bootstrap.configuration import Configuration
from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.medium import Medium
from metalk8s_bootstrap.problems import Problem

RECORD = "var/lib/metalk8s/bootstrap.version"


@dataclass(frozen=True)
class Subject:
    """What is checked."""

    configuration: Configuration
    machine: Machine
    medium: Medium

    @property
    def begun(self) -> str:
        """Version whose bootstrap was begun here; empty when none was."""
        return self.machine.text(RECORD).strip()


Check = Callable[[Subject], Iterator[Problem]]
