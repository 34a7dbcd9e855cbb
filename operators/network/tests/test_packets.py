"""Verdicts of this machine's kernel on real packets, of policies by chance and in change."""

from __future__ import annotations

import itertools
import os
import random

import pytest
from metalk8s_pod_network import script
from policy_sets import MACHINES, PORTS, cluster, table
from reference import Reference
from yard import ON, PLACES, Yard

pytestmark = pytest.mark.integration
# 25 sets of policies are tried with each run, and as many as the soak has examples there.
SETS = max(25, int(os.environ.get("METALK8S_EXAMPLES", "0")) // 10)
PAIRS = [
    (source, destination)
    for source, destination in itertools.permutations(PLACES, 2)
    if {source, destination} & ON.keys()
]
CONNECTIONS = [
    (source, destination, protocol, port)
    for source, destination in PAIRS
    for protocol, ports in (("TCP", PORTS), ("UDP", PORTS), ("SCTP", PORTS[:1]), ("ICMP", (None,)))
    for port in ports
]


@pytest.fixture(scope="module")
def yard(namespaces):
    found = Yard()
    yield found
    found.stack.close()


def test_without_policies_everything_arrives(yard):
    for machine in MACHINES:
        yard.load(machine, script.whole(table([], [], [], machine)))
    assert yard.arrive(PAIRS) == set(CONNECTIONS)


def test_packets_pass_as_the_api_says(yard):
    """One table after another, each by what is different; connections of before are still there."""
    before = {machine: table([], [], [], machine) for machine in MACHINES}
    for machine in MACHINES:
        yard.load(machine, script.whole(before[machine]))
    for seed in range(SETS):
        found = cluster(random.Random(seed))
        for machine in MACHINES:
            after = table(*found, machine)
            listed = yard.load(machine, script.change(before[machine], after))
            if seed % 5 == 0:
                assert canonical(yard.load(machine, script.whole(after))) == canonical(listed)
            before[machine] = after
        api = Reference(*found, MACHINES)
        expected = {flow for flow in CONNECTIONS if api.permits(*flow)}
        arrived = yard.arrive(PAIRS)
        assert arrived == expected, (seed, arrived ^ expected)


def canonical(listing):
    """Leave out in which order things were made."""
    return sorted(listing.replace(",", " ").split())
