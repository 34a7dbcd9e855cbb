"""A HAProxy that was told of changes is as one that begins with the files: for any changes."""

from __future__ import annotations

import dataclasses
import signal
from types import SimpleNamespace

import pytest
from bed import digest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metalk8s_ingress import configuration
from metalk8s_ingress.certificates import read
from metalk8s_ingress.haproxy import LONGEST
from metalk8s_ingress.proxy import Proxy, RejectedError
from test_routes import built
from things import ingress, rule, secret

ASKED = {"a.example": "a.example", "b.example": "b.example", "x.c.example": "*.c.example"}
HOSTS, SECRETS, SERVICES = tuple(ASKED.values()), ("one", "two", "three"), ("s0", "s1")
CONTENTS = 4
MOST = 11  # servers: more than twice as many as there are places at first
OFF = 0x23  # of a server's state, by whatever means: it gets no requests
PLAIN = {"ssl-redirect": "false"}


def each(keys, values):
    return st.fixed_dictionaries(dict.fromkeys(keys, values))


# Which Secret a host names, what Secrets hold, where Services have servers, where hosts lead.
states = st.fixed_dictionaries({
    "named": each(HOSTS, st.sampled_from(SECRETS)),
    "held": each(SECRETS, st.none() | st.integers(0, CONTENTS - 1)),
    "servers": each(SERVICES, st.sets(st.integers(0, MOST - 1))),
    "leads": each(HOSTS, st.sampled_from(SERVICES)),
})  # fmt: skip


@pytest.fixture
def world(bed, behind, pairs):
    """Give HAProxy, what makes a model of a state, and the certificates."""
    bed.start_haproxy()
    servers = [behind.start(f"n{number}") for number in range(MOST)]
    contents = [pairs("a.example") for _ in range(CONTENTS)]

    def make(state):
        # Both Services lead somewhere always: other backends are a reload.
        always = [(f"/{name}", "Exact", name) for name in SERVICES]
        items = [ingress("always", rule("always.example", *always), notes=PLAIN)]
        for number, host in enumerate(HOSTS):
            path = ("/", "Prefix", state["leads"][host])
            tls = [{"hosts": [host], "secretName": state["named"][host]}]
            items.append(ingress(f"i{number}", rule(host, path), tls=tls, notes=PLAIN))
        held = {f"shop/{name}": read(secret(name, contents[one]))
                for name, one in state["held"].items() if one is not None}  # fmt: skip
        made = built(items, secrets=held)
        for name, backend in made.backends.items():
            some = sorted(state["servers"][name.split("_")[1]])
            made.backends[name] = dataclasses.replace(
                backend, servers=tuple(servers[number] for number in some)
            )
        return made

    return bed, make, contents


def has(bed):
    """Return what HAProxy says that it has: servers, maps, hosts, certificates."""
    ask = bed.haproxy._ask
    rows = [line.split() for line in ask("show servers state").splitlines()[2:]]
    servers = {(row[1], row[3]): None if int(row[6]) & OFF else (row[4], row[18]) for row in rows}
    maps = [{line.split(" ", 1)[1] for line in ask(f"show map {name}").splitlines()}
            for name in (configuration.EXACT, configuration.PREFIX)]  # fmt: skip
    listed = sorted(ask(f"show ssl crt-list {configuration.LIST}").splitlines())
    pems = {name: [line for line in ask(f"show ssl cert {name}").splitlines() if "SHA1" in line]
            for name in ask("show ssl cert").splitlines()[1:]}  # fmt: skip
    return servers, maps, listed, pems


def answers(bed):
    return {name: (digest(bed.certificate(name)), bed.ask(name, "/", tls=True)[0])
            for name in (*ASKED, "z.example")}  # fmt: skip


def test_told_or_begun_is_the_same(world):
    bed, make, contents = world
    bed.proxy.apply(make({
        "named": dict.fromkeys(HOSTS, "one"), "held": dict.fromkeys(SECRETS),
        "servers": dict.fromkeys(SERVICES, ()), "leads": dict.fromkeys(HOSTS, "s0"),
    }))  # fmt: skip
    bed.settled()

    @given(st.lists(states, min_size=2, max_size=5))
    @settings(
        max_examples=max(10, settings.default.max_examples // 10),
        suppress_health_check=list(HealthCheck),
    )
    def same(some):
        bed.proxy._process = bed.haproxy.process()  # which began with what it is to have
        reloads = bed.proxy.reloads
        for state in some:
            bed.proxy.apply(make(state))
        for name, host in ASKED.items():
            names = {f"n{number}" for number in state["servers"][state["leads"][host]]}
            heard = [bed.ask(name, "/", tls=True)[:2] for _ in range(3)]
            assert all(text in names for _, text in heard) if names else heard[0][0] == 503
            held = state["held"][state["named"][host]]
            if held is not None:
                assert digest(bed.certificate(name)) == digest(contents[held].certificate)
        told = *has(bed), answers(bed)
        assert bed.proxy.reloads == reloads
        # What is on disk is what it was told.
        bed.stop("haproxy", signal.SIGKILL)
        bed.start_haproxy()
        for now, before in zip((*has(bed), answers(bed)), told, strict=True):
            assert now == before

    same()
    assert bed.proxy.told > 15


def one_host(held, servers=()):
    """Return the model of a host with a certificate."""
    tls = [{"hosts": ["a.example"], "secretName": "one"}]
    item = ingress("one", rule("a.example", ("/", "Prefix", "s0")), tls=tls, notes=PLAIN)
    made = built([item], secrets={"shop/one": held} if held else {})
    for name, backend in made.backends.items():
        made.backends[name] = dataclasses.replace(backend, servers=tuple(servers))
    return made


def test_what_it_cannot_be_told_is_a_reload(bed, behind, pairs):
    first = behind.start("first")
    bed.start_haproxy()
    bed.proxy.apply(one_host("", [first]))
    # Somebody else has told it of that name.
    bed.haproxy._ask(f"new ssl cert {configuration.pem_name('shop/one')}")
    pair = pairs("a.example")
    bed.proxy.apply(one_host(read(secret("one", pair)), [first]))
    bed.settled()
    assert (bed.proxy.reloads, bed.proxy.told) == (2, 0)
    assert digest(bed.certificate("a.example")) == digest(pair.certificate)
    # Longer than a word may be.
    other = pairs("a.example")
    chain = other.certificate + "".join(pair.certificate for _ in range(LONGEST // 600))
    long = read(secret("one", SimpleNamespace(certificate=chain, key=other.key)))
    assert len(long) > LONGEST
    bed.proxy.apply(one_host(long, [first]))
    bed.settled()
    assert (bed.proxy.reloads, bed.proxy.told) == (3, 0)
    assert digest(bed.certificate("a.example")) == digest(other.certificate)
    assert bed.ask("a.example", "/", tls=True)[1] == "first"


def test_a_watcher_that_begins_knows_nothing_and_tells_all(bed, behind, pairs):
    """Also where HAProxy was told what that watcher never saw."""
    servers = [behind.start(f"n{number}") for number in range(7)]
    old, new = pairs("a.example"), pairs("a.example")
    bed.start_haproxy()
    bed.proxy.apply(one_host("", servers[:1]))
    bed.proxy.apply(one_host(read(secret("one", old)), servers))
    assert (bed.proxy.reloads, bed.proxy.told) == (1, 1)
    for begun, pair, some in ((1, new, servers[:2]), (2, old, servers)):
        other = Proxy(bed.settings, bed.haproxy)
        assert other.apply(one_host(read(secret("one", pair)), some)), begun
        bed.settled()
        assert digest(bed.certificate("a.example")) == digest(pair.certificate)
        heard = {bed.ask("a.example", "/", tls=True)[1] for _ in range(5 * len(some))}
        assert heard == {f"n{number}" for number in range(len(some))}


def test_what_it_refuses_in_every_way_is_not_on_disk(bed, behind, pairs):
    pair, first = pairs("a.example"), behind.start("first")
    bed.start_haproxy()
    bed.proxy.apply(one_host(read(secret("one", pair)), [first]))
    bed.settled()
    with pytest.raises(RejectedError):
        bed.proxy.apply(one_host("-----BEGIN NOTHING-----\n", [behind.start("second")]))
    bed.stop("haproxy", signal.SIGKILL)
    bed.start_haproxy()
    assert digest(bed.certificate("a.example")) == digest(pair.certificate)
    assert bed.ask("a.example", "/", tls=True)[1] == "first"
    # What it had been told before it refused is not known: the next files are a reload.
    assert bed.proxy.apply(one_host(read(secret("one", pair)), [first]))
    bed.settled()
    assert bed.ask("a.example", "/", tls=True)[1] == "first"
