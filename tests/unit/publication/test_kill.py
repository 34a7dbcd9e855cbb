"""Publishing and fetching are killed; what was there before stays, and the next run finishes."""

import os
import random
import sys

import pytest

from buildchain.publication import fetch
from buildchain.publication.trust import Trust
from tests.unit.publication.world import tree

POINTS = 4  # kills of each kind in the unit ring
KILLED = 9
# What a process does to files and with other programs, as sys.audit tells it.
TELLING = ("open", "os.", "subprocess.Popen", "shutil.", "fcntl.")


def run_until(action, point: int) -> bool:
    """Do something in a process of its own that dies before its ``point``-th deed.

    :returns: whether it came to its end before.
    """
    child = os.fork()
    if child == 0:
        deeds = 0

        def hook(event, _arguments):
            nonlocal deeds
            if event.startswith(TELLING):
                deeds += 1
                if deeds == point:
                    os._exit(KILLED)

        try:
            sys.addaudithook(hook)
            action()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), "it failed of itself"
    return status == 0


def points_of(action) -> int:
    """Return how many deeds something has."""
    low, high = 1, 2
    while not run_until(action(), high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if run_until(action(), middle) else (middle, high)
    return high


def is_valid(world) -> list[str]:
    """Prove that everything the index there names can be had, and return the versions."""
    versions = [entry.version for entry in world.index().releases]
    for version in versions:
        output = world.folder / "check" / version
        output.parent.mkdir(exist_ok=True)
        memory = Trust((world.key,), world.folder / "nobody")
        place = world.publisher().target
        assert fetch.fetch(place, memory, fetch.Wish(version), output) == version
    return versions


def restore(world, saved):
    """Put everything back as it was."""
    for path in sorted(world.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, content in saved.items():
        (world.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (world.folder / name).write_bytes(content)


def start(world, name):
    """Return what is killed, and a state to kill it in."""
    world.released("2.3.0", "2.4.0")
    world.release("2.5.0")
    if name == "fetch":
        world.publish()
    saved = tree(world.folder)
    deeds = {
        "publish": lambda: world.publish(keep=2),
        "promote": lambda: world.publisher().promote("2.4.0", "stable"),
        "fetch": lambda: world.fetch("2.5.0"),
    }

    def prepared():
        restore(world, saved)
        return deeds[name]

    return prepared


def kill(world, name, prepared, point):
    """Kill it there, look what is left, and let it finish."""
    deed = prepared()
    run_until(deed, point)
    assert is_valid(world) in (["2.3.0", "2.4.0"], ["2.4.0", "2.5.0"], ["2.3.0", "2.4.0", "2.5.0"])
    if world.got.exists():
        assert tree(world.got) == tree(world.build), "all of it or nothing"
    deed()
    if name == "fetch":
        assert tree(world.got) == tree(world.build)
    elif name == "publish":
        assert is_valid(world) == ["2.4.0", "2.5.0"]
        assert not (world.place / "2.3.0").exists()
        assert tree(world.place / "2.5.0") == tree(world.build)
    else:
        assert world.index().newest("stable").version == "2.4.0"


@pytest.mark.parametrize("name", ["publish", "promote", "fetch"])
def test_killed_at_some_points(world, name):
    prepared = start(world, name)
    last = points_of(prepared)
    assert last > 10, "there is something to kill"
    for point in random.Random(name).sample(range(1, last), POINTS):
        kill(world, name, prepared, point)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["publish", "promote", "fetch"])
def test_killed_at_each_point(world, name):
    prepared = start(world, name)
    for point in range(1, points_of(prepared)):
        kill(world, name, prepared, point)
