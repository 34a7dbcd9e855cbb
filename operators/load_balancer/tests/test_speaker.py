"""Addresses on a real network, by the real keepalived: who answers, and who does when it dies."""

from __future__ import annotations

import os
import time
from ipaddress import IPv4Address

import pytest
import things
from lan import MACHINES, Lan
from metalk8s_load_balancer.objects import Node
from metalk8s_load_balancer.placement import _order
from metalk8s_load_balancer.programs import PIDS
from waiting import until

POOL = things.pool("p", "10.1.0.200-10.1.0.250")
VIP = "10.1.0.200"


@pytest.fixture
def lan(namespaces, tmp_path):
    made = Lan(tmp_path)
    yield made
    made.close()


@pytest.fixture
def speaking(lan):
    """Give a network whose machines all have the program, and a pool."""
    lan.api.put(POOL)
    for machine in MACHINES:
        lan.speak(machine)
    return lan


def preferred(number=200, machines=MACHINES):
    """Return the machine that an address is to come to."""
    nodes = [Node(name, IPv4Address(MACHINES[name])) for name in machines]
    return _order(IPv4Address(f"10.1.0.{number}"), nodes)[0].name


def settled(lan, number=200, machines=MACHINES):
    """Wait until an address is where it is to be; return its machine."""
    machine = preferred(number, machines)
    lan.until_held(f"10.1.0.{number}", machine)
    return machine


def service(number=200, **more):
    return things.service(
        f"s{number}", number % 60, has=f"10.1.0.{number}", pool="p", router=number - 199, **more
    )


def test_without_a_pool_nothing_runs_and_nothing_is_watched(lan):
    lan.speak("one")
    pools = lan.api.parts["loadbalancerpools"]
    until(pools.watches, lan.log("one"))
    assert not lan.api.parts["services"].requests
    lan.api.put(service())
    lan.api.put(POOL)
    lan.until_held(VIP, "one")
    # and back
    pools.remove("p")
    until(lambda: not lan.holders(VIP), "it goes")
    until(lambda: "nothing to do" in lan.log("one"), lan.log("one"))
    tables = ("nft", "list", "tables")
    until(lambda: "metalk8s_load_balancer" not in lan.inside("one", *tables), "its table goes")


def test_an_address_moves_when_its_machine_dies(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    seconds = []
    for _ in range(2):
        speaking.die(holder)
        seconds.append(speaking.silence(VIP, holder))
        assert seconds[-1] < 5, seconds
        speaking.inside("switch", "ip", "link", "set", holder, "up")
        settled(speaking)
    print(f"\nanother machine answered after {seconds} s")


def test_who_ends_gives_its_addresses_away_at_once(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    began = time.monotonic()
    speaking.end(holder)
    speaking.silence(VIP, holder)
    seconds = time.monotonic() - began
    assert seconds < 2
    assert speaking.addresses(holder) == set()
    assert "metalk8s_load_balancer" not in speaking.inside(holder, "nft", "list", "tables")


def test_what_a_killed_one_leaves_behind_is_cleared(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    speaking.kill(holder)
    assert VIP in speaking.addresses(holder)
    until(lambda: len(speaking.holders(VIP)) == 2, "another has it, too")
    # In the next container, the numbers of its processes are others'.
    for name in PIDS:
        (speaking.folder / holder / name).write_text(f"{os.getpid()}\n")
    speaking.speak(holder)
    settled(speaking)


def test_a_keepalived_that_is_killed_begins_anew(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    pid = (speaking.folder / holder / "keepalived.pid").read_text().strip()
    speaking.inside(holder, "kill", "-9", pid)
    until(lambda: speaking.log(holder).count("keepalived began") == 2, speaking.log(holder))
    settled(speaking)


def test_local_is_where_a_ready_endpoint_is(speaking):
    speaking.api.put(things.endpoints("s200", "two", unready=["one", "three"]))
    speaking.api.put(service(local=True))
    speaking.until_held(VIP, "two")
    began = time.monotonic()
    speaking.api.put(things.endpoints("s200", "three", unready=["two"]))
    until(lambda: speaking.ask(VIP) == "three", "the other", 15)
    assert time.monotonic() - began < 5
    speaking.until_held(VIP, "three")
    # none: nobody
    speaking.api.put(things.endpoints("s200", unready=["three"]))
    until(lambda: not speaking.holders(VIP), "nobody")
    speaking.inside("client", "ip", "neighbour", "flush", "all")
    assert not speaking.ask(VIP)


def test_addresses_spread_and_others_stay_when_one_comes(speaking):
    numbers = range(200, 212)
    for number in numbers:
        speaking.api.put(service(number))
    held = {number: settled(speaking, number) for number in numbers}
    assert set(held.values()) == set(MACHINES)
    speaking.api.put(service(220))
    # no one that was there is silent while another comes
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for number in numbers:
            assert speaking.ask(f"10.1.0.{number}", timeout=1) == held[number]
    settled(speaking, 220)


def test_there_is_the_service_and_nothing_else(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    assert speaking.ask(MACHINES[holder], 8080) == holder
    assert speaking.ask(VIP, 8080) == ""
    assert speaking.echo(VIP)


def test_without_the_api_server_all_stays_and_moves(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    speaking.api.close()
    speaking.die(holder)
    assert speaking.silence(VIP, holder) < 5


def test_what_is_equal_is_not_loaded_again(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    before = speaking.log(holder).count('"addresses"')
    for number in range(5):
        again = service()
        again["metadata"]["annotations"]["other"] = str(number)
        speaking.api.put(again)
    speaking.api.put(things.endpoints("s200", "one"))
    time.sleep(1)
    assert speaking.log(holder).count('"addresses"') == before == 1


def test_a_table_that_somebody_took_away_is_back(speaking):
    speaking.api.put(service())
    holder = settled(speaking)
    speaking.inside(holder, "nft", "delete", "table", "ip", "metalk8s_load_balancer")
    until(lambda: speaking.ask(VIP, 8080) == "", "it is back", 30)
