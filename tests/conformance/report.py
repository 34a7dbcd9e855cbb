"""What became of tests: the reports that ``e2e.test`` leaves (JUnit's XML), one of each process."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PASSED, FAILED, LEFT_OUT = "passed", "failed", "did not run"
# Before or after all tests: the suite itself.
SUITE = ("BeforeSuite", "AfterSuite")
LINES = 40  # of what a test printed
# What follows is about the whole cluster; it is in the report.
DUMP = "Collecting events from namespace"


@dataclass(frozen=True)
class Outcome:
    """What became of one test.

    :param seconds: how long it took.
    :param said: why it failed, and the end of what it printed.
    """

    name: str
    verdict: str
    seconds: float = 0.0
    said: str = ""


def read(folder: pathlib.Path) -> dict[str, Outcome]:
    """Read the reports of all processes: each names all tests, those that others ran as skipped.

    The first process says best why the suite did not begin; the others only know that it did not.

    :raises ElementTree.ParseError: one is damaged; its process was killed.
    """
    found: dict[str, Outcome] = {}
    for path in sorted(folder.glob("junit_*.xml")):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            outcome = _outcome(case)
            before = found.get(outcome.name)
            if before is None or before.verdict == LEFT_OUT:
                found[outcome.name] = outcome
    return found


def _outcome(case: ElementTree.Element) -> Outcome:
    name, seconds = case.get("name", ""), float(case.get("time", "0"))
    if case.find("skipped") is not None:
        return Outcome(name, LEFT_OUT)
    failure = case.find("failure")
    if failure is None:
        return Outcome(name, PASSED, seconds)
    printed = (case.findtext("system-out") or "").partition(DUMP)[0].splitlines()[-LINES:]
    return Outcome(name, FAILED, seconds, "\n".join([(failure.text or "").strip(), *printed]))


def judge(chosen: Iterable[str], found: dict[str, Outcome]) -> list[Outcome]:
    """Return what became of each chosen test, and of the suite when that failed."""
    judged = [found.get(name, Outcome(name, LEFT_OUT)) for name in chosen]
    return [*(found[name] for name in SUITE if name in found), *judged]


def told(outcomes: Sequence[Outcome]) -> str:
    """Tell what did not pass, with the reasons, and how long what ran took."""
    bad = [outcome for outcome in outcomes if outcome.verdict != PASSED]
    lines = [f"{one.verdict}: {one.name}\n{one.said}".rstrip() for one in bad]
    slowest = sorted(outcomes, key=lambda one: one.seconds, reverse=True)
    times = [f"{one.seconds:6.0f} s  {one.verdict}  {one.name}" for one in slowest]
    return "\n".join([*times, *lines, f"{len(outcomes) - len(bad)} of {len(outcomes)} passed"])
