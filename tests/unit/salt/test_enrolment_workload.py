"""Where the pods of a machine that joins are reached, and what is wrong with its addresses."""

from __future__ import annotations

import pathlib

import pytest

from .newcomer import PREFIX, Newcomer
from .test_enrolment import call

PLANE = ["10.1.0.0/24", "10.2.0.0/24"]


@pytest.fixture
def newcomer(tmp_path: pathlib.Path) -> Newcomer:
    found = Newcomer(tmp_path)
    found.workload_plane = PLANE
    return found


def announced(newcomer: Newcomer) -> str | None:
    annotations = newcomer.nodes["worker"]["metadata"]["annotations"]
    return annotations.get(f"{PREFIX}workload-address")


@pytest.mark.parametrize(
    ("addresses", "said", "plane", "expected"),
    [
        ((), "", ["10.0.0.0/16"], "10.0.0.2"),
        (("10.0.0.3",), "", ["10.0.0.0/24"], "10.0.0.2"),
        (("10.2.0.9",), "", PLANE, "10.2.0.9"),
        (("10.1.0.9", "10.2.0.9"), "10.2.0.9", PLANE, "10.2.0.9"),
        (("fe80::1", "10.1.0.9"), "", PLANE, "10.1.0.9"),
    ],
)
def test_address(
    newcomer: Newcomer, addresses: tuple[str, ...], said: str, plane: list[str], expected: str
) -> None:
    """It is written into the Node when the machine joins, and not before; then it stays."""
    newcomer.workload_plane = plane
    if said:
        newcomer.declare(workload_address=said)
    newcomer.say(*(f"address={one}" for one in addresses))
    assert call(newcomer, "check")["problems"] == []
    assert announced(newcomer) == (said or None)
    assert call(newcomer, "enrol")["changed"] is True
    assert announced(newcomer) == expected
    newcomer.say(*(f"address={one}" for one in (*addresses, "10.1.0.100")))
    assert call(newcomer, "enrol")["changed"] is False


@pytest.mark.parametrize(
    ("addresses", "said", "problem"),
    [
        ((), "", "has no address in the workload plane (10.1.0.0/24, 10.2.0.0/24). Give it one"),
        (("10.1.0.9", "10.2.0.9"), "", "has several addresses in the workload plane"),
        (("10.1.0.9",), "10.1.0.8", "workload-address is 10.1.0.8, which is none of its addresses"),
        (("10.1.0.9",), "10.0.0.2", "to one of: 10.1.0.9."),
        (("10.1.0.9",), "here", "workload-address is here, which is none"),
    ],
)
def test_problems(newcomer: Newcomer, addresses: tuple[str, ...], said: str, problem: str) -> None:
    """Told before anything is done."""
    if said:
        newcomer.declare(workload_address=said)
    newcomer.say(*(f"address={one}" for one in addresses))
    [sentence] = call(newcomer, "check")["problems"]
    assert sentence.startswith("worker (10.0.0.2): ")
    assert problem in sentence
    assert problem in call(newcomer, "enrol")["failed"]
    assert newcomer.there() == {}
