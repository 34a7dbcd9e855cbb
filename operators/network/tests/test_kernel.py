"""However machines come and go, a kernel ends as if it had met the last of them only."""

from __future__ import annotations

import json
from ipaddress import IPv4Network

import pytest
from fake_kernel import FakeKernel
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_pod_network import machine
from metalk8s_pod_network.kernel import Kernel, KernelError, run
from metalk8s_pod_network.peers import believed, peer
from metalk8s_pod_network.plan import plan
from nodes import MACHINES, PODS, node, settings
from test_plan import BESIDE, FAR, HERE, link

LINKS = (link("lo", "127.0.0.1/8", scope="host"), link("eth0", "10.1.0.1/24"))
OTHERS = (
    {"dst": "default", "table": "254", "gateway": "10.1.0.254", "dev": "eth0", "protocol": "4"},
    {"dst": "10.1.0.0/24", "table": "254", "dev": "eth0", "protocol": "2"},
    {"dst": "192.0.2.0/24", "table": "107", "dev": "eth0", "protocol": "16"},
)
# Machines beside, behind the router, with a second address; with ranges that move between them.
ADDRESSES = ("10.1.0.2", "10.1.0.3", "10.2.0.2", "10.2.0.3", "10.3.0.2")
MACHINE = st.builds(
    lambda number, address, pods, second: node(
        f"n{number}", address, f"10.233.{pods}.0/24", workload=second
    ),
    st.integers(0, 5),
    st.sampled_from(ADDRESSES),
    st.integers(1, 4),
    st.sampled_from(("", "", "10.1.0.9", "10.3.0.9")),
)
CLUSTERS = st.lists(
    st.lists(MACHINE, max_size=5, unique_by=lambda item: item["metadata"]["name"]),
    min_size=1,
    max_size=5,
)


def fresh():
    return FakeKernel(json.loads(json.dumps(LINKS)), json.loads(json.dumps(OTHERS)))


def meet(fake, nodes, **told):
    chosen = settings(**told)
    found = [one for item in (HERE, *nodes) if (one := peer(item))]
    taken, _ = believed(found, "here", IPv4Network(PODS), map(IPv4Network, MACHINES))
    kernel = Kernel(fake.run)
    links = kernel.links()
    return kernel.apply(plan(chosen, taken, machine.interfaces(links)), links)


@given(CLUSTERS)
def test_the_way_does_not_matter(clusters):
    one, other = fresh(), fresh()
    for nodes in clusters:
        meet(one, nodes)
    meet(other, clusters[-1])
    assert one.state() == other.state()
    assert meet(one, clusters[-1]) == [], "a second look changed something"
    theirs = [route for route in one.routes.values() if route["protocol"] != "107"]
    assert sorted(theirs, key=str) == sorted(OTHERS, key=str)


@given(CLUSTERS)
def test_what_stays_is_not_touched(clusters):
    """A route that is the same before and after is in no line; one that changes never goes."""
    fake = fresh()
    meet(fake, clusters[0])
    for nodes in clusters[1:]:
        before = dict(fake.routes)
        recreated = fake.state()["links"]
        fake.lines.clear()
        meet(fake, nodes)
        if fake.state()["links"] != recreated:
            continue  # the device came or went, and its routes with it
        staying = before.keys() & fake.routes.keys()
        for destination, table in staying:
            lines = [
                line
                for line in fake.lines
                if line.startswith("route ")
                and line.split()[3] == destination
                and f"table {table} " in line
            ]
            is_same = before[destination, table] == fake.routes[destination, table]
            assert len(lines) == (0 if is_same else 1), lines
            assert not any(line.startswith("route delete") for line in lines)


def test_a_machine_goes():
    fake = fresh()
    meet(fake, [])
    alone = fake.state()
    meet(fake, [BESIDE, FAR])
    together = fake.state()
    assert len(together["links"]) == 3
    meet(fake, [BESIDE])
    assert "metalk8s.vxlan" not in json.dumps(fake.state())
    meet(fake, [])
    assert fake.state() == alone


def test_what_somebody_took_away_comes_back():
    fake = fresh()
    meet(fake, [BESIDE, FAR])
    whole = fake.state()
    for destroy in (
        lambda: fake.routes.pop(("10.233.1.0/24", "254")),
        lambda: fake._link("delete", ["dev", "metalk8s.vxlan"]),
        lambda: fake.rules.clear(),
        lambda: fake.neighbours.clear(),
        lambda: fake.forwarding.clear(),
        lambda: setattr(fake, "table", None),
        lambda: fake.table[1]["set"]["elem"].clear(),
        lambda: fake.table.pop(),
        lambda: fake.links[-1].update(flags=[]),
        lambda: fake.links[-1].update(mtu=1400),
        lambda: fake.routes[("10.233.1.0/24", "254")].update(gateway="10.1.0.99"),
    ):
        destroy()
        assert fake.state() != whole
        meet(fake, [BESIDE, FAR])
        assert fake.state() == whole


def test_another_tunnel_is_made_anew():
    fake = fresh()
    meet(fake, [FAR])
    meet(fake, [FAR], vxlan_port=8472)
    assert fake.links[-1]["linkinfo"]["info_data"]["port"] == 8472
    assert meet(fake, [FAR], vxlan_port=8472) == []


def test_an_interface_gets_another_mtu():
    fake = fresh()
    meet(fake, [FAR])
    fake.links[1]["mtu"] = 9000
    assert meet(fake, [FAR]) == ["ip link set dev metalk8s.vxlan mtu 8950"]


def test_the_route_of_somebody_else_is_not_taken():
    fake = fresh()
    theirs = {"dst": "10.233.1.0/24", "table": "254", "dev": "eth0", "protocol": "4", "flags": []}
    fake.routes[("10.233.1.0/24", "254")] = theirs
    with pytest.raises(KernelError, match="File exists"):
        meet(fake, [BESIDE, FAR])
    assert fake.routes[("10.233.1.0/24", "254")] is theirs
    # the rest was done
    assert ("10.233.2.0/24", "254") in fake.routes
    assert fake.rules


def test_a_program_that_fails_says_why():
    with pytest.raises(KernelError, match=r"ip -no-such-option: .*unknown"):
        run(["ip", "-no-such-option"])
    with pytest.raises(KernelError, match="no-such-program"):
        run(["no-such-program"])
