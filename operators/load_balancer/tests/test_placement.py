"""Each address has one preferred machine, of those that may have it, and all machines agree."""

from __future__ import annotations

import dataclasses
import subprocess
from collections import Counter
from ipaddress import IPv4Address, IPv4Network

import pytest
import things
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_load_balancer import filters, keepalived, objects, pools
from metalk8s_load_balancer.placement import Seen, places

POOL = things.pool("p", "10.1.0.0/16", "10.9.0.0/16")
NODES = [things.node(f"n{number}", f"10.1.0.{number}") for number in range(1, 6)]


def seen(services, nodes=NODES, endpoints=(), networks=(), pool=POOL):
    kept = [one for one in map(objects.service, services) if one]
    known = pools.pool(pool)
    return Seen(
        tuple(kept),
        {known.name: known},
        tuple(one for one in map(objects.node, nodes) if one),
        {
            f"default/{one['metadata']['name']}": found
            for one in endpoints
            if (found := objects.ready_nodes(one))
        },
        tuple(map(IPv4Network, networks)),
    )


def having(number, **more):
    return things.service(
        f"s{number}", number % 60, has=f"10.9.0.{number}", pool="p", router=number, **more
    )


def names(place):
    return [node.name for node in place.nodes]


def test_addresses_spread_and_of_a_machine_that_goes_only_its_own_move():
    many = [having(number) for number in range(1, 201)]
    before = {one.address: names(one) for one in places(seen(many))}
    load = Counter(order[0] for order in before.values())
    assert set(load) == {"n1", "n2", "n3", "n4", "n5"}
    assert min(load.values()) > 20
    assert max(load.values()) < 65
    without = {one.address: names(one) for one in places(seen(many, NODES[1:]))}
    for address, order in before.items():
        assert without[address] == [name for name in order if name != "n1"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"n1", "n2", "n3", "n4", "n5"}),
        ({"local": True}, {"n2", "n4"}),
        ({"kind": "ClusterIP"}, None),
        ({"pool": "other"}, None),
        ({"pool": ""}, None),
        ({"router": 0}, None),
        ({"router": 256}, None),
        ({"router": 300}, None),
        ({"has": "10.8.0.1"}, None),
    ],
)
def test_who_may_have_an_address(change, expected):
    more = {"has": "10.9.0.1", "pool": "p", "router": 1, **change}
    service = things.service("s", **more)
    found = places(seen([service], endpoints=[things.endpoints("s", "n2", "n4", unready=["n1"])]))
    assert {name for one in found for name in names(one)} == (expected or set())


def test_what_is_cordoned_or_not_ready_comes_last_and_excluded_machines_not_at_all():
    nodes = [
        things.node("cordoned", "10.1.0.1", cordoned=True),
        things.node("lost", "10.1.0.2", ready="Unknown"),
        things.node("well", "10.1.0.3"),
        things.node("excluded", "10.1.0.4", labels={objects.EXCLUDED: ""}),
        things.node("new", ""),
    ]
    for number in range(1, 20):
        [place] = places(seen([having(number)], nodes))
        assert names(place)[0] == "well"
        assert set(names(place)) == {"well", "cordoned", "lost"}


def test_an_address_of_a_network_is_for_its_machines():
    nodes = [*NODES, things.node("far", "10.2.0.1")]
    service = things.service("s", has="10.1.0.200", pool="p", router=1)
    [place] = places(seen([service], nodes, networks=["10.1.0.0/24", "10.2.0.0/24"]))
    assert len(place.nodes) == 5
    [other] = places(seen([having(1)], nodes, networks=["10.1.0.0/24", "10.2.0.0/24"]))
    assert len(other.nodes) == 6


def test_two_with_one_number_or_address_are_not_announced_twice():
    one, other = having(1), things.service("t", 2, has="10.9.0.2", pool="p", router=1)
    assert [place.service for place in places(seen([other, one]))] == ["default/s1"]
    same = things.service("u", 0, has="10.9.0.1", pool="p", router=3)
    assert [place.service for place in places(seen([one, same]))] == ["default/u"]


def test_the_number_of_another_gets_nobody_its_place():
    """Who owns an older Service may write what it likes beside its own address."""
    victim, thief = having(2), things.service("thief", 0, has="10.9.0.9", pool="p", router=9)
    before = places(seen([victim, thief]))
    assert len(before) == 2
    claiming = things.service("thief", 0, has="10.9.0.9", pool="p", router=2)
    [left] = places(seen([victim, claiming]), before)
    assert left == next(one for one in before if one.service == "default/s2")
    # and it stays so
    assert places(seen([victim, claiming]), [left]) == (left,)


def test_a_number_beside_an_address_of_bgp_is_nobodys():
    bgp = pools.pool(things.pool("b", "10.8.0.1", announce="bgp"))
    known = seen([things.service("told", 0, has="10.8.0.1", pool="b", router=2), having(2)])
    known = dataclasses.replace(known, pools={**known.pools, "b": bgp})
    found = {one.service: one.router for one in places(known)}
    assert found == {"default/told": 0, "default/s2": 2}


def test_a_number_that_somebody_else_uses_is_not_announced():
    assert [one.router for one in places(seen([having(51), having(52)]), (), {51})] == [52]


def test_a_configuration(of_one):
    assert of_one == (
        "# made\nglobal_defs {\n    router_id n2\n    vrrp_version 3\n"
        "    # Others of the network forget, or have not heard: they are told again.\n"
        "    vrrp_garp_master_refresh 60\n}\n"
        "\n# default/s1\nvrrp_instance router_1 {\n    interface eth0\n    state BACKUP\n"
        "    priority 254\n    virtual_router_id 1\n    advert_int 0.5\n"
        "    unicast_src_ip 10.1.0.2\n    unicast_peer {\n        10.1.0.2\n    }\n"
        "    virtual_ipaddress {\n        10.9.0.1/32 dev eth0\n    }\n}\n"
    )


@pytest.fixture
def of_one():
    known = seen([having(1, local=True)], endpoints=[things.endpoints("s1", "n2")])
    nodes = {node.name: node for node in known.nodes}
    assert keepalived.render(places(known), nodes["n1"], "eth0", "made") == ""
    return keepalived.render(places(known), nodes["n2"], "eth0", "made")


SERVICES = st.lists(
    st.builds(
        lambda number, local, router: things.service(
            f"s{number}", has=f"10.9.0.{number}", pool="p", router=router, local=local
        ),
        st.integers(1, 30),
        st.booleans(),
        st.integers(0, 255),
    ),
    max_size=8,
    unique_by=lambda one: one["metadata"]["name"],
)
MACHINES = st.lists(
    st.builds(
        lambda number, ready, cordoned, excluded: things.node(
            f"n{number}",
            f"10.1.0.{number}",
            ready=ready,
            cordoned=cordoned,
            labels={objects.EXCLUDED: ""} if excluded else {},
        ),
        st.integers(1, 9),
        st.sampled_from(["True", "True", "False", "Unknown"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one["metadata"]["name"],
)
ENDPOINTS = st.lists(
    st.builds(
        lambda number, nodes: things.endpoints(f"s{number}", *(f"n{one}" for one in nodes)),
        st.integers(1, 30),
        st.sets(st.integers(1, 9), max_size=3),
    ),
    max_size=8,
    unique_by=lambda one: one["metadata"]["name"],
)


def priorities(text):
    """Return router -> (priority, peers, address) of a configuration."""
    found = {}
    for block in text.split("vrrp_instance ")[1:]:
        words = block.split()
        at = words.index
        peers = words[at("unicast_peer") + 2 : at("virtual_ipaddress") - 1]
        found[int(words[at("virtual_router_id") + 1])] = (
            int(words[at("priority") + 1]),
            frozenset(peers),
            words[at("virtual_ipaddress") + 2],
        )
    return found


@given(SERVICES, MACHINES, ENDPOINTS)
def test_all_machines_agree_on_one_holder(services, machines, endpoints):
    known = seen(services, machines, endpoints)
    found = places(known)
    views = {
        node.name: priorities(keepalived.render(found, node, "eth0", "")) for node in known.nodes
    }
    by_address = {f"{one.address}/32": one for one in found}
    assert len({one.router for one in found}) == len(found)
    for place in by_address.values():
        parts = {name: view[place.router] for name, view in views.items() if place.router in view}
        assert set(parts) == set(names(place)), "only who may have it, and each of them"
        ranks = sorted((part[0] for part in parts.values()), reverse=True)
        assert ranks == list(range(254, 254 - len(ranks), -1)), "one is preferred"
        own = {node.name: str(node.address) for node in place.nodes}
        for name, (_, peers, address) in parts.items():
            others = {own[other] for other in parts if other != name} or {own[name]}
            assert (peers, address) == (others, f"{place.address}/32")
    for view in views.values():
        assert all(address in by_address for _, _, address in view.values())


CLAIMS = st.lists(
    st.builds(
        lambda number, created, router: things.service(
            f"s{number}", created, has=f"10.9.0.{number % 9}", pool="p", router=router
        ),
        st.integers(1, 12),
        st.integers(0, 3),
        st.integers(0, 6),
    ),
    max_size=10,
    unique_by=lambda one: one["metadata"]["name"],
)


@given(CLAIMS, CLAIMS, CLAIMS)
def test_machines_that_remember_different_things_have_each_address_in_one_way(now, one, other):
    """Or not at all: two that answer at one address hear each other, and one of them steps back."""
    views = [places(seen(now), places(seen(services))) for services in (one, other, [])]
    for view in views:
        assert len({place.router for place in view}) == len({p.address for p in view}) == len(view)
    for address in {place.address for view in views for place in view}:
        assert len({place for view in views for place in view if place.address == address}) == 1
    # on each, what was and is still written stays
    before = {(place.service, place.address, place.router) for place in places(seen(one))}
    for service in seen(now).services:
        is_alone = not any(
            rest.given.address == service.given.address and rest.key != service.key
            for rest in seen(now).services
        )
        word = (service.key, service.given.address, service.given.router)
        if is_alone and word in before:
            assert word in {(p.service, p.address, p.router) for p in views[0]}


def test_keepalived_understands_it(namespaces, tmp_path):
    wrong = [things.service(f"w{n}", has=f"10.9.1.{n % 200}", pool="p", router=n)
             for n in (256, 300)]  # fmt: skip
    known = seen([*wrong, *(having(number) for number in range(1, 256))])
    text = keepalived.render(places(known), known.nodes[0], "eth0", "made by a test")
    assert text.count("vrrp_instance") == 255
    file = tmp_path / "keepalived.conf"
    file.write_text(text)
    link = "ip link add eth0 type veth peer name eth1"
    script = f"{link} && exec keepalived --config-test --use-file {file}"
    argv = ["unshare", "--net", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_nft_understands_the_table(namespaces):
    addresses = [IPv4Address("10.9.0.2"), IPv4Address("10.9.0.1")]
    text = filters.render(addresses, IPv4Address("10.1.0.1"), "made by a test")
    subprocess.run(["nft", "--check", "--file", "-"], input=text, text=True, check=True)
    assert "{ 10.9.0.1, 10.9.0.2 }" in text
