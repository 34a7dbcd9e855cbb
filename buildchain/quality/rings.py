"""How long the rings of tests took, which tests most of all, what failed; shown when a run ends.

On disk: ``reports/<ring>.xml``, as JUnit does and pytest writes it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from buildchain.core import events

SHOWN = 30  # tests


@dataclass(frozen=True)
class Case:
    """A test.

    :param file: its module.
    :param seconds: with the fixtures that it was the first to need.
    :param fault: the first line of why it failed; empty when it did not.
    """

    ring: str
    file: str
    name: str
    seconds: float
    fault: str = ""


@dataclass(frozen=True)
class Ring:
    """A ring that was run.

    :param seconds: from its start to its end, however many processes it had.
    """

    name: str
    seconds: float
    cases: tuple[Case, ...]


@dataclass
class Timetable:
    """The rings of this run so far."""

    rings: list[Ring] = field(default_factory=list)

    @contextlib.contextmanager
    def ring(self, name: str, report: Path) -> Iterator[None]:
        """Measure a ring, whatever becomes of its tests.

        :param report: what it will write; what is there is of another run.
        """
        report.unlink(missing_ok=True)
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self.rings.append(Ring(name, took, cases(name, report)))
            events.summary("tests", str(self))

    def __str__(self) -> str:
        """Return a table of the rings, the slowest tests of all of them, and what failed."""
        everything = [case for ring in self.rings for case in ring.cases]
        slowest = sorted(everything, key=lambda case: -case.seconds)[:SHOWN]
        rows = [f"{ring.name:<12}{ring.seconds:9.1f} s{len(ring.cases):7}" for ring in self.rings]
        total = sum(ring.seconds for ring in self.rings)
        failed = [case for case in everything if case.fault]
        return "\n".join(
            [
                f"{'ring':<12}{'took':>11}{'tests':>7}",
                *rows,
                f"{'in all':<12}{total:9.1f} s{len(everything):7}",
                f"the {len(slowest)} slowest tests:",
                *(f"{c.seconds:9.1f} s  {c.ring:<12}{c.file}: {c.name}" for c in slowest),
                *(["failed:"] if failed else []),
                *(f"  {c.ring:<12}{c.file}: {c.name}: {c.fault}" for c in failed[:SHOWN]),
                *([f"  and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []),
            ]
        )


def cases(ring: str, report: Path) -> tuple[Case, ...]:
    """Return the tests of a report; none when pytest came to no end."""
    if not report.is_file():
        return ()
    found = ElementTree.parse(report).iter("testcase")  # noqa: S314  (pytest wrote it just now)
    return tuple(
        Case(
            ring,
            case.get("classname", "").rpartition(".")[2],
            case.get("name", ""),
            float(case.get("time", "0")),
            _fault(case),
        )
        for case in found
    )


def _fault(case: ElementTree.Element) -> str:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return next(iter((found.get("message") or "").splitlines()), "") or kind
    return ""
