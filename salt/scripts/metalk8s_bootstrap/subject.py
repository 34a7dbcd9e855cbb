"""What is checked before a bootstrap, and what a check is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from metalk8s_bootstrap import record
from metalk8s_bootstrap.configuration import Configuration
from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.medium import Medium
from metalk8s_bootstrap.problems import Problem

RECORD = record.PLACE


@dataclass(frozen=True)
class Subject:
    """What is checked."""

    configuration: Configuration
    machine: Machine
    medium: Medium

    @property
    def begun(self) -> str:
        """Version whose bootstrap was begun here; empty when none was."""
        return record.read(self.machine).version


Check = Callable[[Subject], Iterator[Problem]]
