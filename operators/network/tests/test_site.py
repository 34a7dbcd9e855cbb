"""Packets of pods on three machines in two networks, through this machine's kernel."""

from __future__ import annotations

import functools
import itertools
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import node
from site_ import MACHINE, MTU, OUTSIDE, Site
from waiting import until
from yard import within

pytestmark = pytest.mark.integration
LETTER = bytes(range(256)) * 100  # of many packets
PAIRS = list(itertools.permutations(MACHINE, 2))
# Answers with the address that it was asked from.
WHO = """
import socket, sys
server = socket.create_server(("0.0.0.0", 7000))
print("ready", flush=True)
while True:
    one, (address, _) = server.accept()
    one.sendall(address.encode())
    one.close()
"""
ASK = (
    "import socket, sys; print(socket.create_connection((sys.argv[1], 7000), 5).recv(99).decode())"
)


@pytest.fixture(scope="module")
def site(namespaces, tmp_path_factory):
    found = Site(tmp_path_factory.mktemp("site"))
    for machine in MACHINE:
        found.join(machine)
    for machine in MACHINE:
        until(lambda machine=machine: found.health(machine), f"{machine} is ready")
    yield found
    found.close()


@pytest.fixture(scope="module")
def servers(site):
    """Let every pod, every machine and the outside tell who asks."""
    processes = []
    for place in (*MACHINE, *(f"pod-{machine}" for machine in MACHINE), "outside"):
        argv = ("ip", "netns", "exec", site.name(place), sys.executable, "-c", WHO)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
    yield
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def asks(site, place, address):
    """Return the address that a question has where it arrives."""
    return site.inside(place, sys.executable, "-c", ASK, address).strip()


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_largest_packet_of_a_pod_arrives_whole(site, pair):
    here, there = pair
    site.reaches(f"pod-{here}", site.pod(there), "the largest packet", MTU)
    assert site.probe(f"pod-{here}", site.pod(there), MTU + 1) == "too large"


def test_packets_between_networks_are_packed(site):
    """The router passes no address of a pod; the way beside it is not packed at all."""
    before = site.inside("router", "nft", "list", "ruleset")
    assert site.probe("pod-one", site.pod("three")) == "answer"
    assert site.probe("pod-one", site.pod("two")) == "answer"
    assert site.inside("router", "nft", "list", "ruleset") == before, "the router dropped a packet"
    routes = site.inside("one", "ip", "route")
    assert "10.233.2.0/24 via 10.1.0.2 dev eth0" in routes
    assert "10.233.3.0/24 via 10.233.3.0 dev metalk8s.vxlan" in routes


@pytest.mark.parametrize("there", ["one", "two", "three"])
def test_pods_see_the_address_of_pods(site, servers, there):
    for here in MACHINE.keys() - {there}:
        assert asks(site, f"pod-{here}", site.pod(there)) == site.pod(here)


@pytest.mark.parametrize("there", ["one", "two", "three"])
def test_machines_see_the_address_of_pods(site, servers, there):
    """A firewall of a machine has to tell a pod from a machine."""
    for here in MACHINE:
        assert asks(site, f"pod-{here}", MACHINE[there][0]) == site.pod(here)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_machines_reach_pods(site, servers, pair):
    here, there = pair
    beside = {here, there} == {"one", "two"}
    expected = MACHINE[here][0] if beside else f"10.233.{MACHINE[here][2]}.0"
    assert asks(site, here, site.pod(there)) == expected


@pytest.mark.parametrize("here", ["one", "three"])
def test_outside_sees_the_address_of_the_machine(site, servers, here):
    assert asks(site, f"pod-{here}", OUTSIDE) == MACHINE[here][0]
    assert asks(site, here, OUTSIDE) == MACHINE[here][0]


def test_a_pod_that_is_not_there_is_refused_at_once(site):
    before = site.inside("router", "nft", "list", "ruleset")
    assert site.probe("pod-one", "10.233.77.7") == "unreachable"
    assert site.inside("router", "nft", "list", "ruleset") == before, "it went out"


def test_the_tunnel_takes_nothing_from_strangers(site):
    """A stranger packs a packet for a pod; the machine that it comes to drops it."""
    vxlan = f"type vxlan id 4097 dstport 4789 local {OUTSIDE} nolearning"
    site.inside("outside", *f"ip link add vx address 0e:4d:0a:e9:09:00 {vxlan}".split())
    site.inside("outside", "ip", "address", "add", "10.233.9.0/32", "dev", "vx")
    site.inside("outside", "ip", "link", "set", "vx", "up")
    site.inside("outside", "ip", "route", "add", "10.233.3.0/24", "via", "10.233.3.0",
                "dev", "vx", "onlink", "src", "10.233.9.0")  # fmt: skip
    site.inside("outside", "ip", "neighbour", "add", "10.233.3.0", "lladdr", "0e:4d:0a:e9:03:00",
                "dev", "vx", "nud", "permanent")  # fmt: skip
    site.inside("outside", "bridge", "fdb", "append", "0e:4d:0a:e9:03:00", "dev", "vx",
                "dst", "10.2.0.3")  # fmt: skip
    count = "nft add rule ip metalk8s_pods {} {}"
    udp = count.format("packed", "udp dport 4789 ip saddr 198.51.100.2 counter")
    # counters after our rules: whatever reaches them was let through
    site.kill("three", signal.SIGTERM)
    site.inside("three", "sh", "-c", udp)
    assert site.probe("outside", site.pod("three")) == "nothing"
    assert "counter packets 0 " in site.inside(
        "three", "nft", "list", "table", "ip", "metalk8s_pods"
    )
    site.inside("three", "nft", "flush", "chain", "ip", "metalk8s_pods", "packed")
    site.inside("three", "sh", "-c", udp)
    site.probe("outside", site.pod("three"))
    listed = site.inside("three", "nft", "list", "table", "ip", "metalk8s_pods")
    assert "counter packets 0 " not in listed, "the stranger's packets never came"
    site.inside("outside", "ip", "link", "delete", "vx")
    site.start("three")
    until(lambda: site.health("three"), "it is ready again")
    listed = site.inside("three", "nft", "list", "table", "ip", "metalk8s_pods")
    assert "saddr != @machines drop" in listed, "the agent did not mend its table"


def test_traffic_goes_on_without_agents_and_without_an_api_server(site):
    before = {machine: site.state(machine) for machine in MACHINE}
    for machine in MACHINE:
        site.kill(machine)
    for here, there in PAIRS:
        assert site.probe(f"pod-{here}", site.pod(there), MTU) == "answer"
    assert site.probe("pod-one", OUTSIDE) == "answer"
    for machine in MACHINE:
        site.start(machine)
    for machine in MACHINE:
        until(lambda machine=machine: site.health(machine), f"{machine} is ready")
    assert {machine: site.state(machine) for machine in MACHINE} == before, "a restart left a trace"


def test_connections_outlive_agents(site):
    """In one network and across two, when agents are killed and when they are back."""
    ends = []
    for there in ("two", "three"):
        server = within(site.name(f"pod-{there}"), lambda: socket.create_server(("0.0.0.0", 7100)))
        call = functools.partial(socket.create_connection, (site.pod(there), 7100), 5)
        caller = within(site.name("pod-one"), call)
        ends.append((caller, server.accept()[0]))
        server.close()

    def talk():
        for one, other in (*ends, *map(reversed, ends)):
            one.sendall(LETTER)
            other.settimeout(10)
            assert other.recv(len(LETTER), socket.MSG_WAITALL) == LETTER

    talk()
    for machine in MACHINE:
        site.kill(machine)
    talk()
    for machine in MACHINE:
        site.start(machine)
    talk()
    for machine in MACHINE:
        until(lambda machine=machine: site.health(machine), f"{machine} is ready")
    talk()
    for one in (end for pair in ends for end in pair):
        one.close()


@pytest.mark.parametrize(
    "destroy",
    [
        ("ip", "route", "flush", "proto", "107"),
        ("ip", "link", "delete", "metalk8s.vxlan"),
        ("ip", "rule", "flush"),
        ("nft", "flush", "ruleset"),
        ("nft", "flush", "set", "ip", "metalk8s_pods", "machines"),
    ],
    ids=" ".join,
)
def test_what_somebody_took_away_is_back_within_five_seconds(site, destroy):
    before = site.state("one")
    site.inside("one", *destroy)
    if destroy == ("ip", "rule", "flush"):
        for table, preference in (("main", "32766"), ("default", "32767")):
            site.inside("one", "ip", "rule", "add", "lookup", table, "preference", preference)
    until(lambda: comparable(site.state("one")) == comparable(before), "it is back", 5)
    site.reaches("pod-one", site.pod("three"), "the machine behind the router", MTU)


def comparable(state):
    """Leave out the order in which things were made."""
    return {
        "routes": sorted(state["routes"].split("},{")),
        "rules": state["rules"],
        "links": sorted(state["links"]),
        "packets": state["packets"],
    }


def test_a_machine_that_goes_leaves_nothing(site):
    """And what the others have is what they would have without it."""
    site.api.remove("three")
    until(lambda: "metalk8s.vxlan" not in site.state("one")["links"], "the tunnel is gone")
    until(lambda: "10.2.0.3" not in str(site.state("one")), "its address is gone")
    state = site.state("one")
    assert "10.233.3.0" not in str(state)
    assert "107" not in state["rules"]
    site.api.remove("two")
    until(lambda: "10.233.2.0" not in site.state("one")["routes"], "the second is gone")
    site.join("two", start=False)
    site.join("three", start=False)
    site.reaches("pod-one", site.pod("three"), "they come back", MTU)
    site.reaches("pod-one", site.pod("two"), "they come back", MTU)


def test_an_agent_ends_when_told(site):
    assert site.kill("one", signal.SIGTERM) == 0
    log = (site.folder / "one.log").read_text()
    assert '"message": "ended"' in log
    assert "Traceback" not in log
    site.start("one")
    until(lambda: site.health("one"), "it is ready again")


def test_two_hundred_machines_fit_into_sixty_mebibytes(site):
    """Nodes as large as real ones; each changes its heartbeat."""
    images = [
        {"names": [f"registry.invalid/{'x' * 60}/{n}@{n:064x}"], "sizeBytes": n} for n in range(50)
    ]
    names = []
    for number in range(4, 201):
        address = f"10.{1 if number % 2 else 3}.0.{number}"
        item = node(f"more-{number}", address, f"10.233.{number}.0/24")
        item["status"]["images"] = images
        names.append(item["metadata"]["name"])
        site.api.put(item)
    show = ("ip", "route", "show", "proto", "107")
    until(lambda: len(site.inside("one", *show).splitlines()) == 200, "all routes", 60)
    site.kill("one", signal.SIGTERM)
    site.start("one")
    until(lambda: site.health("one"), "it is ready with 200 machines", 60)
    for name in names:
        site.api.put({**site.api.objects[name], "beat": 1})
    status = Path(f"/proc/{site.agents['one'].pid}/status").read_text()
    facts = dict(line.split(":\t") for line in status.splitlines())
    most = int(facts["VmHWM"].split()[0]) / 1024
    assert most <= 60, f"{most:.1f} MiB"
    for name in names:
        site.api.remove(name)
    until(lambda: "10.233.200.0" not in site.state("one")["routes"], "their routes are gone", 60)
    site.reaches("pod-one", site.pod("three"), "those that stay", MTU)
