"""What is wrong before anything is changed: where, what, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Group(enum.IntEnum):
    """Kinds of problems; the number is the exit status (10 to 15 are those of verify.sh)."""

    PLATFORM = 20
    CONFIGURATION = 21
    NETWORK = 22
    NAME = 23
    RESOURCES = 24
    CONFLICT = 25
    SYSTEM = 26
    ARCHIVES = 27


# Not found by checks: somebody else is at it; a step failed.
LOCKED = 30
STEP_FAILED = 31


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    :param where: ``file:line``, or what of the machine.
    :param what: names the value.
    :param remedy: what the operator does.
    """

    group: Group
    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n    {self.remedy}"


def status(problems: Iterable[Problem]) -> int:
    """Return the exit status for all of them: the lowest of their groups, 0 without any."""
    return min((int(problem.group) for problem in problems), default=0)
