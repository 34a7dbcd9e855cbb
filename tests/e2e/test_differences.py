"""What a container of the test bed has and a virtual machine has not, before we touch them.

Tests in containers would count on it, and users' machines lack it. Every difference is listed with
its reason in ``tests/testbed/differences.toml``, and no entry is there for nothing. What only the
machine has hides nothing.
"""

from __future__ import annotations

import fnmatch
import pathlib
import tomllib
from collections.abc import Sequence

import pytest

from tests.integration.conftest import debian_root_image, facts
from tests.testbed import virtual
from tests.testbed.disk import Disk
from tests.testbed.machine import Machine, container, private_network

__all__ = ["debian_root_image", "facts"]

pytestmark = pytest.mark.e2e

TESTBED = pathlib.Path(virtual.__file__).parent
TRAITS = (TESTBED / "traits.sh").read_text(encoding="utf-8")


def test_what_a_container_has_more_has_a_reason(
    debian_root_image: str, machine_disk: Disk, version: str
) -> None:
    """Each difference one, and each reason a difference."""
    with private_network() as (network, _), container(debian_root_image, network) as name:
        node = Machine(name, version, "", network)
        node.wait_for_systemd()
        contained = traits(node)
    with virtual.started(machine_disk, version) as machine:
        real = traits(machine)
    table = tomllib.loads((TESTBED / "differences.toml").read_text(encoding="utf-8"))
    assert all(entry["reason"].strip() for entry in table["difference"])
    patterns = [pattern for entry in table["difference"] for pattern in entry["what"]]
    found = contained - real
    assert not [one for one in sorted(found) if not matching(one, patterns)]
    assert not [pattern for pattern in patterns if not fnmatch.filter(found, pattern)]


def traits(machine: Machine) -> set[str]:
    """Ask a machine what it is like: ``kind name``."""
    lines = machine.shell("sh -s", TRAITS).splitlines()
    return {line.replace("\t", " ", 1).rstrip() for line in lines}


def matching(one: str, patterns: Sequence[str]) -> bool:
    """Tell whether a difference is listed."""
    return any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)
