"""What is to be in a kernel follows from the Nodes and the interfaces alone."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from metalk8s_pod_network import machine
from metalk8s_pod_network.peers import believed, peer
from metalk8s_pod_network.plan import NotYetError, plan
from metalk8s_pod_network.wanted import End, Route, Rule, Tunnel
from nodes import MACHINES, PODS, node, settings

HERE = node("here", "10.1.0.1", "10.233.0.0/24")
BESIDE = node("beside", "10.1.0.2", "10.233.1.0/24")
FAR = node("far", "10.2.0.2", "10.233.2.0/24")
NOWHERE = Route(PODS, kind="unreachable")
DIRECT = Route("10.233.1.0/24", via="10.1.0.2", device="eth0")


def link(name, *addresses, mtu=1500, flags=("UP",), scope="global"):
    entries = []
    for address in addresses:
        local, _, length = address.partition("/")
        entries.append({"family": "inet", "local": local, "prefixlen": int(length), "scope": scope})
    return {"ifname": name, "mtu": mtu, "flags": list(flags), "addr_info": entries}


LINKS = (
    link("lo", "127.0.0.1/8", scope="host"),
    link("eth0", "10.1.0.1/24"),
    link("down0", "10.2.0.9/24", flags=()),
    link("metalk8s.vxlan", "10.233.0.0/32"),
)


def planned(*nodes, links=LINKS, **told):
    chosen = settings(**told)
    found = [one for item in nodes if (one := peer(item))]
    taken, problems = believed(found, chosen.node, chosen.pods, chosen.machines)
    assert not problems
    return plan(chosen, taken, machine.interfaces(links))


def test_a_machine_alone():
    alone = planned(HERE)
    assert alone.routes == {NOWHERE}
    assert (alone.tunnel, alone.ends, alone.rules) == (None, frozenset(), frozenset())
    assert (alone.mtu, [str(one) for one in alone.ranges]) == (1450, ["10.233.0.0/24"])
    assert [str(one) for one in alone.packets.machines] == ["10.1.0.1"]
    assert alone.packets.tunnel is None


def test_a_machine_beside_is_the_next_hop():
    two = planned(HERE, BESIDE)
    assert two.routes == {NOWHERE, DIRECT}
    assert (two.tunnel, two.rules) == (None, frozenset())


def test_a_machine_behind_a_router_is_behind_the_tunnel():
    three = planned(HERE, BESIDE, FAR)
    through = {"via": "10.233.2.0", "device": "metalk8s.vxlan", "onlink": True}
    assert three.routes == {
        NOWHERE,
        DIRECT,
        Route("10.233.2.0/24", **through, source="10.233.0.0"),
        Route("10.2.0.2", 107, **through),
    }
    assert three.rules == {Rule("10.233.0.0/24", 107, 10700)}
    assert three.tunnel == Tunnel(4097, 4789, "0e:4d:0a:e9:00:00", 1450, "10.233.0.0", "10.1.0.1")
    assert three.ends == {End("10.233.2.0", "0e:4d:0a:e9:02:00", "10.2.0.2")}
    assert three.packets.tunnel == (4789, "metalk8s.vxlan")


def test_a_plane_of_its_own_for_pods():
    """Pods meet at the address of the annotation; packets to both addresses go there."""
    links = (link("ctl", "10.1.0.1/24", mtu=1500), link("wrk", "10.2.0.1/24", mtu=9000))
    here = node("here", "10.1.0.1", "10.233.0.0/24", workload="10.2.0.1")
    other = node("other", "10.1.0.2", "10.233.1.0/24", workload="10.2.0.2")
    two = planned(here, other, links=links)
    assert two.routes == {
        NOWHERE,
        Route("10.233.1.0/24", via="10.2.0.2", device="wrk"),
        Route("10.1.0.2", 107, via="10.2.0.2", device="wrk"),
    }
    assert two.mtu == 8950
    assert len(two.packets.machines) == 4


def test_the_smallest_network_is_beside():
    links = (link("wide", "10.1.0.9/16"), link("eth0", "10.1.0.1/24"), link("one", "10.1.0.2/32"))
    assert DIRECT in planned(HERE, BESIDE, links=links).routes


@pytest.mark.parametrize(
    ("nodes", "links", "word"),
    [
        ((BESIDE,), LINKS, "no Node here"),
        ((node("here", "10.1.0.1", None),), LINKS, "no Node here"),
        ((HERE,), LINKS[:1], "no interface of this machine has the address 10.1.0.1"),
    ],
)
def test_not_yet(nodes, links, word):
    with pytest.raises(NotYetError, match=word):
        planned(*nodes, links=links)


def left_out(*nodes):
    found = [one for item in nodes if (one := peer(item))]
    networks = list(map(IPv4Network, MACHINES))
    taken, problems = believed(found, "here", IPv4Network(PODS), networks)
    return [one.name for one in taken], problems


def test_no_machine_is_within_the_network_of_pods():
    """Also where the site's networks are so wide that the pods' is in them."""
    evil = peer(node("evil", "10.233.1.7", "10.233.9.0/24"))
    taken, problems = believed([evil], "here", IPv4Network(PODS), [IPv4Network("10.0.0.0/8")])
    assert (taken, len(problems)) == ([], 1)


OLD, NEW = "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (("10.1.0.9", "10.99.0.0/24"), "its pods' range 10.99.0.0/24 is not in 10.233.0.0/16"),
        (("10.1.0.9", "10.232.0.0/15"), "its pods' range 10.232.0.0/15 is not in"),
        (("10.1.0.9", "10.233.1.128/25"), "its pods' range 10.233.1.128/25 is beside's"),
        (("10.1.0.9", "10.233.0.0/16"), "its pods' range 10.233.0.0/16 is here's"),
        (("10.1.0.2", "10.233.9.0/24"), "its address 10.1.0.2 is beside's"),
        (("8.8.8.8", "10.233.9.0/24"), "its address 8.8.8.8 is in none of the machines' networks"),
        (("10.233.1.7", "10.233.9.0/24"), "its address 10.233.1.7 is in none"),
    ],
)
def test_what_a_node_may_not_claim(claim, problem):
    names, problems = left_out(HERE, BESIDE, node("evil", *claim, created=NEW))
    assert names == ["here", "beside"]
    assert len(problems) == 1
    assert f"Node evil is left out: {problem}" in problems[0]


def test_the_older_keeps_what_two_claim():
    first = node("zeta", "10.1.0.5", "10.233.5.0/24", created=OLD)
    second = node("alpha", "10.1.0.6", "10.233.5.0/24", created=NEW)
    assert left_out(HERE, second, first)[0] == ["here", "zeta"]


@pytest.mark.parametrize(
    "item",
    [
        node("a", "10.1.0.9", None),
        node("a", "", "10.233.9.0/24"),
        node("a", "fd00::1", "10.233.9.0/24"),
        node("a", "10.1.0.9", "fd00::/64"),
        {"metadata": {"name": "a"}},
    ],
)
def test_nodes_that_are_not_machines_yet(item):
    assert peer(item) is None


def test_addresses_of_a_node():
    found = peer(node("a", "10.1.0.9", "10.233.9.0/24", workload="10.3.0.9", more=("10.1.0.9",)))
    assert found
    assert [str(one) for one in found.addresses] == ["10.3.0.9", "10.1.0.9"]
    assert str(found.address) == "10.3.0.9"
