"""No address is two Services', none changes without need, all are used; and why not."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address, IPv4Network

import pytest
import things
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_load_balancer import objects, pools
from metalk8s_load_balancer.allocation import Reserved, allocate, changes
from metalk8s_load_balancer.objects import Given

NOTHING = Reserved()


def services(*items):
    return [one for one in map(objects.service, items) if one is not None]


def decide(items, *known, reserved=NOTHING):
    return allocate(services(*items), [pools.pool(one) for one in known], reserved)


def addresses(decision):
    return {key: str(one.address) for key, one in decision.given.items()}


def test_the_oldest_first_from_the_first_address():
    decision = decide(
        [things.service("b", 2), things.service("a", 3), things.service("c", 1)],
        things.pool("p", "10.0.0.5-10.0.0.9"),
    )
    assert addresses(decision) == {
        "default/c": "10.0.0.5",
        "default/b": "10.0.0.6",
        "default/a": "10.0.0.7",
    }
    assert sorted(one.router for one in decision.given.values()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "count", "first", "last"),
    [
        ("10.0.0.0/29", 6, "10.0.0.1", "10.0.0.6"),
        ("10.0.0.0/31", 2, "10.0.0.0", "10.0.0.1"),
        ("10.0.0.7/32", 1, "10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", 1, "10.0.0.7", "10.0.0.7"),
        ("10.0.0.250 - 10.0.1.3", 10, "10.0.0.250", "10.0.1.3"),
    ],
)
def test_addresses_of_a_pool(text, count, first, last):
    found = list(pools.parse(text))
    assert (len(found), str(found[0]), str(found[-1])) == (count, first, last)


@pytest.mark.parametrize("text", ["", "10.0.0.9-10.0.0.1", "10.0.0.1/24", "a", "10.0.0.1-", "::1"])
def test_what_is_no_range(text):
    if text == "10.0.0.1-":
        assert str(pools.parse(text).last) == "10.0.0.1"
        return
    made = pools.pool(things.pool("p", text, "10.0.0.1"))
    assert made.problems
    assert list(map(str, made.addresses())) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("asks", "reason", "words"),
    [
        ("10.0.0.9", "", ""),
        ("10.0.0.5", "AddressTaken", "default/has has 10.0.0.5"),
        ("10.9.0.5", "AddressOutsidePools", "10.9.0.5 is in no pool"),
        ("10.0.0.6", "AddressReserved", "10.0.0.6 is a machine's"),
        ("10.0.0.7", "AddressReserved", "10.0.0.7 is a machine's"),
        ("10.0.0.8", "AddressReserved", "10.0.0.8 is a machine's"),
        ("fe80::1", "BadAddress", "'fe80::1' is no IPv4 address"),
        ("x" * 100_000, "BadAddress", f"spec.loadBalancerIP {'x' * 64!r} is no IPv4 address"),
    ],
)
def test_what_a_service_asks_for(asks, reason, words):
    reserved = Reserved(
        frozenset([IPv4Address("10.0.0.6")]),
        (IPv4Network("10.0.0.7/32"),),
        claimed=frozenset([IPv4Address("10.0.0.8")]),
    )
    decision = decide(
        [
            things.service("has", 1, has="10.0.0.5", pool="p", router=1),
            things.service("asks", 2, asks=asks),
        ],
        things.pool("p", "10.0.0.5-10.0.0.9", autoAssign=False),
        reserved=reserved,
    )
    assert addresses(decision)["default/has"] == "10.0.0.5"
    if reason:
        refusal = decision.refused["default/asks"]
        assert refusal.reason == reason
        assert words in refusal.message
    else:
        assert addresses(decision)["default/asks"] == asks


def test_who_asks_for_one_address_comes_before_who_takes_any():
    decision = decide(
        [things.service("any", 1), things.service("asks", 2, asks="10.0.0.1")],
        things.pool("p", "10.0.0.1-10.0.0.2"),
    )
    assert addresses(decision) == {"default/any": "10.0.0.2", "default/asks": "10.0.0.1"}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ((), "NoPool"),
        ((things.pool("p", "10.0.0.1", autoAssign=False),), "NoPool"),
        ((things.pool("p", "10.0.0.1", namespaces=["other"]),), "NoPool"),
        ((things.pool("p", "10.0.0.1", serviceSelector={"matchLabels": {"a": "c"}}),), "NoPool"),
        ((things.pool("p", "10.0.0.1"),), "PoolExhausted"),
        ((things.pool("p", "10.0.0.1-10.0.0.2", serviceSelector={"matchLabels": {"a": "b"}}),), ""),
        ((things.pool("p", "10.0.0.1"), things.pool("q", "10.0.0.2")), ""),
    ],
)
def test_which_pools_serve(known, reason):
    first = things.service("first", 1, has="10.0.0.1", pool="p", router=1, labels={"a": "b"})
    decision = decide([first, things.service("next", 2, labels={"a": "b"})], *known)
    refusal = decision.refused.get("default/next")
    assert (refusal.reason if refusal else "") == reason
    if not reason:
        assert addresses(decision)["default/next"] == "10.0.0.2"


def test_what_two_have_is_the_older_ones():
    items = [
        things.service("new", 2, has="10.0.0.1", pool="p", router=1),
        things.service("old", 1, has="10.0.0.1", pool="p", router=1),
    ]
    decision = decide(items, things.pool("p", "10.0.0.1-10.0.0.2"))
    assert addresses(decision) == {"default/old": "10.0.0.1", "default/new": "10.0.0.2"}
    assert {one.router for one in decision.given.values()} == {1, 2}


def test_a_number_that_somebody_wrote_is_mended():
    items = [
        things.service("a", 1, has="10.0.0.1", pool="p", router=7),
        things.service("b", 2, has="10.0.0.2", pool="p", router=7),
        things.service("c", 3, has="10.0.0.3", pool="p", router="256"),
        things.service("d", 4, has="10.0.0.4", pool="q", router="x"),
    ]
    known = [things.pool("p", "10.0.0.0/24")]
    decision = decide(items, *known, reserved=Reserved(routers=frozenset([1, 2])))
    assert {one.pool for one in decision.given.values()} == {"p"}
    routers = [decision.given[f"default/{name}"].router for name in "abcd"]
    assert (routers[0], set(routers[1:])) == (7, {3, 4, 5})


def test_virtual_routers_are_255_less_those_of_others():
    items = [things.service(f"s{n}", n % 60) for n in range(300)]
    decision = decide(
        items, things.pool("p", "10.0.0.0/16"), reserved=Reserved(routers=frozenset([51]))
    )
    assert {one.router for one in decision.given.values()} == set(range(1, 256)) - {51}
    assert {one.reason for one in decision.refused.values()} == {"NoVirtualRouter"}
    assert len(decision.refused) == 300 - 254


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (things.service("s"), Given(IPv4Address("10.0.0.1"), "p", 1)),
        (things.service("s", has="10.0.0.1", pool="p", router=1), "none"),
        (things.service("s", has="10.0.0.1"), Given(IPv4Address("10.0.0.1"), "p", 1)),
        (things.service("s", has="10.0.0.3", pool="p", router=1, kind="ClusterIP"), None),
        (things.service("s", has="10.7.0.1", pool="gone", router=1), "moved"),
        (things.service("s", has="10.7.0.1", pool="gone", router=1, labels={"no": "1"}), "moved"),
        (things.service("foreign", has="192.0.2.7"), "none"),
        (things.service("s", kind="ClusterIP"), "none"),
    ],
)
def test_what_is_written(item, expected):
    known = services(item)
    decision = allocate(known, [pools.pool(things.pool("p", "10.0.0.1-10.0.0.3"))], NOTHING)
    found = changes(known, decision)
    if expected == "none":
        assert not found
    elif expected == "moved":
        assert [one.pool for _, one in found] == ["p"]
    else:
        assert [wanted for _, wanted in found] == [expected]


def test_without_its_pool_a_service_loses_its_address_and_a_foreign_one_does_not():
    known = services(
        things.service("ours", has="10.0.0.1", pool="p", router=1),
        things.service("foreign", has="192.0.2.7"),
    )
    assert [(one.name, wanted) for one, wanted in changes(known, allocate(known, [], NOTHING))] == [
        ("ours", None)
    ]


@pytest.mark.parametrize("asks", ["10.9.9.9", "no address"])
def test_what_a_refused_service_has_without_annotations_is_for_the_next_one(asks):
    """Somebody put another Service in its place: it asks for what it cannot have."""
    known = services(things.service("old", 1, has="10.0.0.1", asks=asks), things.service("next", 2))
    made = [pools.pool(things.pool("p", "10.0.0.1"))]
    for _ in range(2):
        known = after(known, changes(known, allocate(known, made, NOTHING)))
    assert [one.given and str(one.given.address) for one in known] == [None, "10.0.0.1"]


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [
        (Reserved(claimed=frozenset([IPv4Address("10.0.0.1")])), "10.0.0.1"),
        (Reserved(frozenset([IPv4Address("10.0.0.1")])), "10.0.0.2"),
        (Reserved(networks=(IPv4Network("10.0.0.0/31"),)), "10.0.0.2"),
    ],
)
def test_what_a_node_claims_is_not_given_and_nobody_loses_it(reserved, expected):
    """A machine that somebody broke into says of itself what it likes."""
    known = [things.pool("p", "10.0.0.1-10.0.0.2")]
    having = things.service("s", has="10.0.0.1", pool="p", router=1)
    assert addresses(decide([having], *known, reserved=reserved)) == {"default/s": expected}
    assert addresses(decide([things.service("s")], *known, reserved=reserved)) == {
        "default/s": "10.0.0.2"
    }


def test_a_number_that_an_older_one_claims_stays_where_it_was():
    known = services(
        things.service("thief", 1, has="10.0.0.1", pool="p", router=1),
        things.service("victim", 2, has="10.0.0.2", pool="p", router=2),
    )
    made = [pools.pool(things.pool("p", "10.0.0.0/24"))]
    before = allocate(known, made, NOTHING).given
    claimed = Given(IPv4Address("10.0.0.1"), "p", 2)
    known[0] = dataclasses.replace(known[0], given=claimed)
    decision = allocate(known, made, NOTHING, before)
    assert decision.given == before
    assert [one.name for one, _ in changes(known, decision)] == ["thief"]


def test_two_that_change_places_have_no_address_together_meanwhile():
    known = services(
        things.service("a", 1, has="10.0.0.1", asks="10.0.0.2", pool="p", router=1),
        things.service("b", 2, has="10.0.0.2", asks="10.0.0.1", pool="p", router=2),
    )
    made = [pools.pool(things.pool("p", "10.0.0.1-10.0.0.2"))]
    first = changes(known, allocate(known, made, NOTHING))
    assert [(one.name, wanted) for one, wanted in first] == [("a", None), ("b", None)]
    known = after(known, first)
    second = changes(known, allocate(known, made, NOTHING))
    assert [str(wanted.address) for _, wanted in second] == ["10.0.0.2", "10.0.0.1"]


POOLS = st.lists(
    st.builds(
        lambda name, first, count, auto, spaces: things.pool(
            name,
            f"10.0.0.{first}-10.0.0.{min(255, first + count)}",
            autoAssign=auto,
            namespaces=spaces,
        ),
        st.sampled_from("pqr"),
        st.integers(0, 12),
        st.integers(0, 8),
        st.booleans(),
        st.sampled_from([[], [], ["default"], ["other"]]),
    ),
    max_size=3,
    unique_by=lambda one: one["metadata"]["name"],
)
ADDRESS = st.builds(lambda last: f"10.0.0.{last}", st.integers(0, 20))
SERVICES = st.lists(
    st.builds(
        lambda name, created, kind, asks, has, pool, router, space: things.service(
            name, created, kind=kind, asks=asks, has=has, pool=pool, router=router, namespace=space
        ),
        st.sampled_from([f"s{n}" for n in range(12)]),
        st.integers(0, 3),
        st.sampled_from(["LoadBalancer", "LoadBalancer", "ClusterIP"]),
        st.one_of(st.just(""), ADDRESS),
        st.one_of(st.just(""), ADDRESS),
        st.sampled_from(["", "", "p", "q", "gone"]),
        st.one_of(st.just(0), st.integers(0, 5)),
        st.sampled_from(["default", "other"]),
    ),
    max_size=12,
    unique_by=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]),
)
RESERVED = Reserved(frozenset([IPv4Address("10.0.0.3")]), (), frozenset([2]))


def after(known, found):
    """Return Services as they are when all changes are written."""
    done = {one.key: wanted for one, wanted in found}
    return [
        dataclasses.replace(one, given=done[one.key], is_marked=done[one.key] is not None)
        if one.key in done
        else one
        for one in known
    ]


@given(SERVICES, POOLS)
def test_any_services_and_pools(items, known_pools):
    known = services(*items)
    made = [pools.pool(one) for one in known_pools]
    decision = allocate(known, made, RESERVED)
    given_now = list(decision.given.values())
    by_key = {one.key: one for one in known}
    # never double
    assert len({one.address for one in given_now}) == len(given_now)
    assert len({one.router for one in given_now}) == len(given_now)
    for key, one in decision.given.items():
        service = by_key[key]
        [pool] = [pool for pool in made if pool.name == one.pool]
        assert service.wants
        assert pool.has(one.address)
        assert pool.serves(service.namespace, service.labels)
        assert not RESERVED.has(one.address)
        assert one.router not in RESERVED.routers
        assert service.requested in ("", str(one.address))
        assert pool.auto_assign or service.requested or service.given
    # exhaustive: who takes any, and got none, found no free one
    taken = {one.address for one in given_now}
    for key, refusal in decision.refused.items():
        service = by_key[key]
        if refusal.reason in ("PoolExhausted", "NoPool"):
            for pool in made:
                if pool.auto_assign and pool.serves(service.namespace, service.labels):
                    left = {one for one in pool.addresses() if not RESERVED.has(one)} - taken
                    assert not left


@given(SERVICES, POOLS)
def test_writing_ends_and_is_stable(items, known_pools):
    """A few rounds of writing, and nothing is left to write; meanwhile no two have one address."""
    made = [pools.pool(one) for one in known_pools]
    known = services(*items)
    had = [one.given.address for one in known if one.given]
    is_double = len(set(had)) < len(had)
    for _ in range(3):
        found = changes(known, allocate(known, made, RESERVED))
        if not found:
            break
        for one, wanted in found:
            known = after(known, [(one, wanted)])
            now = [other.given.address for other in known if other.given]
            assert is_double or len(set(now)) == len(now)
    else:
        pytest.fail("it never ends")
    decision = allocate(known, made, RESERVED)
    # what is decided is written, and who is refused has nothing
    for one in known:
        if one.key in decision.given or one.key in decision.refused:
            assert one.given == decision.given.get(one.key)
    # the order in which they are told does not matter
    assert allocate(list(reversed(known)), made, RESERVED) == decision


@given(SERVICES, POOLS, st.integers(0, 11))
def test_nobody_moves_when_one_goes(items, known_pools, index):
    made = [pools.pool(one) for one in known_pools]
    known = services(*items)
    for _ in range(6):
        known = after(known, changes(known, allocate(known, made, RESERVED)))
    before = allocate(known, made, RESERVED).given
    if known:
        known.pop(index % len(known))
    now = allocate(known, made, RESERVED).given
    for one in known:
        if one.key in before:
            assert now[one.key] == before[one.key]


@given(
    SERVICES, POOLS, st.integers(0, 11), st.sampled_from(["", "p", "q", "no"]), st.integers(0, 9)
)
def test_annotations_of_one_move_no_other(items, known_pools, index, pool, router):
    made = [pools.pool(one) for one in known_pools]
    known = services(*items)
    for _ in range(6):
        known = after(known, changes(known, allocate(known, made, RESERVED)))
    before = allocate(known, made, RESERVED).given
    having = [number for number, one in enumerate(known) if one.key in before]
    if not having:
        return
    number = having[index % len(having)]
    who = known[number]
    claimed = Given(who.given.address, pool, router)
    marked = bool(pool or router)
    known[number] = dataclasses.replace(who, given=claimed, is_marked=marked)
    now = allocate(known, made, RESERVED, before).given
    assert {key: one for key, one in now.items() if key != who.key} == {
        key: one for key, one in before.items() if key != who.key
    }
    assert now[who.key].address == before[who.key].address
