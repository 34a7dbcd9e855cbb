import pytest

from buildchain.store.gate import MOST, Gate


@pytest.fixture
def clock():
    """Return a clock that is set by hand."""
    return [100.0]


@pytest.fixture
def gate(clock):
    return Gate(lambda: clock[0])


def test_so_many_at_once(gate):
    for _ in range(4):
        assert gate.wait() == 0.0
        gate.enter()
    assert gate.wait() == float("inf")
    gate.leave()
    assert gate.wait() == 0.0


def test_more_while_all_goes_well(gate):
    for _ in range(200):
        gate.went_well()
    assert gate.limit == MOST


def test_half_when_the_host_complains_once_for_what_was_together(gate, clock):
    begun = [gate.enter() for _ in range(4)]
    clock[0] += 1
    for moment in begun:
        gate.crowded(moment, 5.0)
        gate.leave()
    assert gate.limit == 2.0
    assert gate.wait() == 5.0
    clock[0] += 5
    assert gate.wait() == 0.0
    for _ in range(4):
        later = gate.enter()
        clock[0] += 1
        gate.crowded(later, 0.0)
        gate.leave()
    assert gate.limit == 1.0, "never none at all"
    assert gate.wait() == 0.0
