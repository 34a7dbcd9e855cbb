"""Kubernetes' own tests by hand: ``python -m tests.conformance [--whole] CONTAINER``.

CONTAINER is the first machine of a fleet that runs (a container of the test bed). All machines of
its network get the image of the tests' pods. ``METALK8S_BUILD_ROOT`` says where the build is.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

from tests.conformance import choice, report, suite
from tests.testbed.machine import Machine, docker, placed

BUILD = pathlib.Path(os.environ.get("METALK8S_BUILD_ROOT", "_build"))


def main() -> int:
    """Run what the command line says; 1 when a test did not pass, 2 when none can be run."""
    arguments = parse()
    built = suite.built(BUILD)
    if built is None:
        print(f"{BUILD} has no tests: run ./doit.sh _conformance_image", file=sys.stderr)
        return 2
    folder = arguments.report or pathlib.Path(tempfile.mkdtemp(prefix="metalk8s-conformance-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        print(f"{folder} is not empty: reports of another run would count", file=sys.stderr)
        return 2
    first, *others = machines(arguments.container)
    built.provide((first, *others))
    names = chosen(arguments)
    print(f"{len(names)} tests; reports and output are in {folder}", flush=True)
    outcomes = built.run(
        first, names, folder, processes=arguments.processes, seconds=60 * arguments.minutes
    )
    print(report.told(outcomes), flush=True)
    suite.clean(first)
    return int(any(one.verdict != report.PASSED for one in outcomes))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("container", help="first machine of the fleet")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--whole", action="store_true", help="all that is chosen, not the dozen")
    which.add_argument("--only", metavar="PATTERN", help="tests about networks that fit this")
    parser.add_argument("--processes", type=int, default=4, help="tests side by side")
    parser.add_argument("--minutes", type=int, default=90, help="after which it is stopped")
    parser.add_argument("--report", type=pathlib.Path, help="an empty folder for reports")
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the tests to run."""
    choices = choice.read()
    if arguments.only:
        return [name for name in choice.known() if re.search(arguments.only, name)]
    return choices.whole(choice.known()) if arguments.whole else list(choices.dozen)


def machines(container: str) -> list[Machine]:
    """Return the machines that are on the network of one, that one first."""
    [found] = json.loads(docker("inspect", container))
    # The other network is the workload plane.
    [network, *_] = [n for n in found["NetworkSettings"]["Networks"] if "workload-" not in n]
    [there] = json.loads(docker("network", "inspect", network))
    names = sorted(there["Containers"], key=lambda name: name != found["Id"])
    return [Machine(name, "", placed(name, network)[0], network) for name in names]


if __name__ == "__main__":
    sys.exit(main())
