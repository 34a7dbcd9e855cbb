"""``apply-update.sh`` is killed anywhere: never a wrong ISO, and the next run goes on."""

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.unit.repairs import require_root
from tests.unit.updates.test_apply import content, device
from tests.unit.updates.world import AFTER, BEFORE, PORTION, SECTOR, SHELLS, Site

__all__ = ["device"]
# Ends the whole run, as a power cut does, at some call of a program; a write gets as far as some
# bytes.
KILL = """\
#!/bin/sh
read -r calls <{state}/calls
calls=$((calls + 1))
echo $calls >{state}/calls
if [ $calls -eq {call} ]; then
    case "$*" in
    *of=/dev/fd/4*) {program} "$@" count={torn} 2>/dev/null ;;
    esac
    kill -9 0
fi
exec {program} "$@"
"""
PROGRAMS = ("dd", "mv", "sync", "cp", "mkdir")
POINTS, RUNS = 50, 10


def killing(folder, call, torn):
    """Return an environment in which a call ends everything."""
    state = folder / "killing"
    state.mkdir(exist_ok=True)
    (state / "calls").write_text("0\n")
    for name in PROGRAMS:
        file = state / name
        program = shutil.which(name)
        file.write_text(KILL.format(state=state, program=program, call=call, torn=torn))
        file.chmod(0o755)
    return {**os.environ, "PATH": f"{state}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def calls(tmp_path_factory, world, root):
    """Return how many calls a whole run is."""
    site = Site(tmp_path_factory.mktemp("whole"), world, root / "salt/scripts/apply-update.sh")
    assert site.run(environment=killing(site.folder, 0, 0))[0] == 0
    return int((site.folder / "killing/calls").read_text())


@pytest.mark.parametrize("number", range(RUNS))
def test_kills(site, world, calls, number):
    """Fifty random points in all: runs go on from where the killed one came to."""
    shell, chance = SHELLS[number % len(SHELLS)], random.Random(number)
    killed = 0
    while killed < POINTS // RUNS:
        call, torn = chance.randrange(1, calls + 1), chance.randrange(PORTION)
        status, said = site.run(shell=shell, environment=killing(site.folder, call, torn))
        assert status in (0, -9), said
        assert site.base.read_bytes() == BEFORE
        assert site.result.exists() or status == -9
        assert not site.result.exists() or site.result.read_bytes() == AFTER
        killed += status == -9
        if status == 0:
            shutil.rmtree(site.output)
    status, said = site.run(shell=shell)
    assert (status, site.result.read_bytes() == AFTER) == (0, True), said
    wanted = {path.name: path.read_bytes() for path in world.new.parent.iterdir()}
    assert {path.name: path.read_bytes() for path in site.output.iterdir()} == wanted


@pytest.mark.parametrize("shares", [(0.5, 0.6), (0.35, 0.75)])
def test_kills_on_a_device(site, device, calls, shares):
    """It looks like an ISO when it is one, or as long as nothing was written to it."""
    require_root()
    with Path(device).open("r+b") as stream:
        stream.write(BEFORE)
    for share in shares:
        environment = killing(site.folder, int(calls * share), 3 * SECTOR + 1)
        status, said = site.run(output=device, environment=environment)
        assert status == -9, said
        found = content(device, len(AFTER))
        looks = found[32808:32812] == b"Demo"
        assert not looks or found in (AFTER, BEFORE + found[len(BEFORE) :])
    status, said = site.run(output=device)
    assert (status, content(device, len(AFTER)) == AFTER) == (0, True), said
