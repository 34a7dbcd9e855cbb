"""What a container of the test bed and a virtual machine have not in common, before we touch them.

A container must not have what a user's machine has not: tests in containers would count on it.
Every difference is listed with its reason in ``tests/testbed/differences.toml``, and no entry is
there for nothing.
"""

from __future__ import annotations

import fnmatch
import pathlib
import tomllib
from collections.abc import Collection

import pytest

from tests.integration.conftest import debian_root_image, facts
from tests.testbed import virtual
from tests.testbed.disk import Disk
from tests.testbed.machine import Machine, container, private_network

__all__ = ["debian_root_image", "facts"]

pytestmark = pytest.mark.e2e

TESTBED = pathlib.Path(virtual.__file__).parent
TRAITS = (TESTBED / "traits.sh").read_text(encoding="utf-8")


def test_differences_have_reasons(debian_root_image: str, machine_disk: Disk, version: str) -> None:
    with private_network() as (network, _), container(debian_root_image, network) as name:
        node = Machine(name, version, "", network)
        node.wait_for_systemd()
        contained = traits(node)
    with virtual.started(machine_disk, version) as machine:
        real = traits(machine)
    found = {("container", one) for one in contained - real}
    found |= {("machine", one) for one in real - contained}
    entries = tomllib.loads((TESTBED / "differences.toml").read_text(encoding="utf-8"))
    unexplained, unused = judged(found, entries["difference"])
    assert not unexplained, "\n".join(f"{only}: {one}" for only, one in sorted(unexplained))
    assert not unused, unused


def traits(machine: Machine) -> set[str]:
    """Ask a machine what it is like: ``kind name``."""
    lines = machine.shell("sh -s", TRAITS).splitlines()
    return {line.replace("\t", " ", 1).rstrip() for line in lines}


def judged(
    found: Collection[tuple[str, str]], entries: list[dict[str, str]]
) -> tuple[set[tuple[str, str]], list[str]]:
    """Return the differences without an entry, and the entries without a difference."""
    used: set[str] = set()
    unexplained = set()
    for only, one in found:
        matching = {
            entry["what"]
            for entry in entries
            if entry["only"] == only and fnmatch.fnmatchcase(one, entry["what"])
        }
        used |= matching
        if not matching:
            unexplained.add((only, one))
    return unexplained, [entry["what"] for entry in entries if entry["what"] not in used]
