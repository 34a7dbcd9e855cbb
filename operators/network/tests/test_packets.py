"""Verdicts of this machine's kernel on real packets, of policies by chance and in change."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import socket
import threading

import pytest
from metalk8s_pod_network.isolation import script
from policy_sets import HERE, MACHINES, OUTSIDE, PORTS, THERE, cluster, table
from reference import Reference
from waiting import until
from yard import ICMP, ON, PLACES, Yard

pytestmark = pytest.mark.integration
SO_RCVBUFFORCE = 33  # socket(7), of asm-generic/socket.h
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
        yard.load(machine, script.anew(table([], [], [], machine)))
    assert yard.arrive(PAIRS) == set(CONNECTIONS)


def test_packets_pass_as_the_api_says(yard):
    """One table after another, each by what is different; connections of before are still there."""
    before = {machine: table([], [], [], machine) for machine in MACHINES}
    for machine in MACHINES:
        yard.load(machine, script.anew(before[machine]))
    for seed in range(SETS):
        found = cluster(random.Random(seed))
        for machine in MACHINES:
            after = table(*found, machine)
            listed = yard.load(machine, script.change(before[machine], after))
            if seed % 5 == 0:
                again = yard.load(machine, script.whole(after, yard.names(machine)))
                assert canonical(again) == canonical(listed)
                assert canonical(yard.load(machine, script.anew(after))) == canonical(listed)
            before[machine] = after
        api = Reference(*found, MACHINES)
        expected = {flow for flow in CONNECTIONS if api.permits(*flow)}
        arrived = yard.arrive(PAIRS)
        assert arrived == expected, (seed, arrived ^ expected)


def canonical(listing):
    """Leave out in which order things were made."""
    return sorted(listing.replace(",", " ").split())


def pod(name, address, **labels):
    node = ON[address]
    return {
        "metadata": {"namespace": "x", "name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{}]},
        "status": {"podIP": address, "phase": "Running"},
    }


CLIENT, SERVER, OTHER, FAR = HERE[0], HERE[1], HERE[2], THERE[0]
CLUSTER = [
    pod("client", CLIENT, app="client"),
    pod("server", SERVER, app="server"),
    pod("other", OTHER, app="other"),
    pod("far", FAR, app="far"),
]


def let(yard, *specs):
    """Let these policies hold, from nothing, on both machines."""
    for machine in MACHINES:
        yard.load(machine, script.anew(made(machine, *specs)))


def made(machine, *specs):
    items = [{"metadata": {"namespace": "x", "name": "p"}, "spec": spec} for spec in specs]
    spaces = [{"metadata": {"name": "x", "labels": {}}}]
    return table(spaces, CLUSTER, items, machine)


def labelled(app):
    return {"podSelector": {"matchLabels": {"app": app}}}


FROM_CLIENTS = {**labelled("server"), "ingress": [{"from": [labelled("client")]}]}


def test_a_change_is_one_step(yard):
    """While the table is another fifty times, what is allowed always arrives, and nothing else."""
    more = {"from": [labelled("nobody")], "ports": [{"port": 1}]}
    tables = [
        made("one", FROM_CLIENTS),
        made("one", {**labelled("server"), "ingress": [more, {"from": [labelled("client")]}]}),
        made("one", FROM_CLIENTS, {"podSelector": {}, "egress": [{}]}),
        made("one", FROM_CLIENTS, {**labelled("server"), "ingress": [{"from": [
            {"ipBlock": {"cidr": "10.233.1.2/31", "except": ["10.233.1.3/32"]}}]}]}),
    ]  # fmt: skip
    let(yard, FROM_CLIENTS)
    # Nobody reads while nft runs, which takes long on a busy machine: all of that has to fit.
    yard.udp[SERVER, PORTS[0]].setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 27)
    stop, counts = threading.Event(), {CLIENT: 0}

    def talk():
        while not stop.wait(0.001):
            yard.senders[CLIENT].sendto(b"x", (SERVER, PORTS[0]))
            counts[CLIENT] += 1

    def shout():
        # without a pause: what is wrong is wrong for microseconds
        while not stop.is_set():
            # a full queue: nobody counts what is forbidden
            with contextlib.suppress(BlockingIOError):
                yard.senders[OTHER].sendto(b"x", (SERVER, PORTS[0]))

    threads = [threading.Thread(target=talk), threading.Thread(target=shout)]
    heard = {CLIENT: 0, OTHER: 0}
    for thread in threads:
        thread.start()
    try:
        for number, (before, after) in enumerate(itertools.pairwise(tables * 13)):
            # as an agent that has just begun does it, from time to time
            texts = script.change(before, after)
            if number % 3 == 0:
                texts = script.whole(after, yard.names("one"))
            for text in texts:
                yard.inside("one", "nft", "-f", "-", text=text)
            listen(yard, heard)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    until(lambda: listen(yard, heard)[CLIENT] == counts[CLIENT], "every packet")
    assert counts[CLIENT] > 100
    assert heard[OTHER] == 0


def listen(yard, heard):
    """Count who was heard at the server."""
    with contextlib.suppress(BlockingIOError):
        while True:
            _, (source, _) = yard.udp[SERVER, PORTS[0]].recvfrom(99)
            heard[source] += 1
    return heard


@pytest.mark.parametrize(
    "forbidding",
    [{**labelled("server"), "policyTypes": ["Ingress"]},
     {**labelled("client"), "policyTypes": ["Egress"]}],
    ids=["where it goes", "where it comes from"],
)  # fmt: skip
def test_a_connection_ends_with_what_allowed_it(yard, forbidding):
    """In both directions, and goes on when it is allowed again."""
    let(yard)
    listening = yard.tcp[SERVER, PORTS[0]]
    calling = yard.socket(CLIENT, socket.SOCK_STREAM)
    calling.connect_ex((SERVER, PORTS[0]))
    until(lambda: select.select([listening], [], [], 0)[0], "the connection is there")
    called, _ = listening.accept()
    ends = (calling, called), (called, calling)
    for speaker, hearer in ends:
        speaker.sendall(b"before")
        assert select.select([hearer], [], [], 5)[0]
        assert hearer.recv(99) == b"before"
    let(yard, forbidding)
    for speaker, hearer in ends:
        speaker.sendall(b"after")
        assert not select.select([hearer], [], [], 0.4)[0], "a packet passed"
    let(yard)
    for _, hearer in ends:
        assert select.select([hearer], [], [], 10)[0], "it was not held back, but lost"
        assert hearer.recv(99) == b"after"
    calling.close()
    called.close()


def test_answers_pass_to_who_may_ask_only(yard):
    """A client that may not be asked gets the answers to its own questions."""
    let(yard, {**labelled("client"), "policyTypes": ["Ingress"]})
    arrived = yard.arrive([(CLIENT, SERVER), (SERVER, CLIENT), (CLIENT, FAR), (FAR, CLIENT)])
    assert (CLIENT, SERVER, "TCP", PORTS[0]) in arrived
    assert (CLIENT, SERVER, "ICMP", None) in arrived
    assert {flow[:2] for flow in arrived} == {(CLIENT, SERVER), (CLIENT, FAR)}


SERVICES = f"""
table ip services {{
    chain asked {{
        type nat hook prerouting priority dstnat;
        ip daddr 10.96.0.1 tcp dport 7 dnat to {SERVER}:{PORTS[0]}
        ip daddr 10.96.0.2 tcp dport 7 dnat to {FAR}:{PORTS[0]}
    }}
    chain leaving {{
        type nat hook postrouting priority srcnat;
        ip saddr {SERVER} ip daddr {SERVER} masquerade
    }}
}}
"""


def test_a_service_is_the_pod_behind_it(yard):
    """Also towards itself, where kube-proxy translates both ends, and from outside."""
    yard.inside("one", "nft", "-f", "-", text=SERVICES)

    def reached(source, service):
        calling = yard.socket(source, socket.SOCK_STREAM)
        calling.connect_ex((service, 7))
        ready = select.select([], [calling], [], 0.5)[1]
        is_there = bool(ready) and not calling.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        calling.close()
        return is_there

    port = {"ports": [{"port": PORTS[0]}]}
    to_server = {**labelled("client"), "egress": [{"to": [labelled("server")], **port}],
                 "policyTypes": ["Egress"]}  # fmt: skip
    nobody = {**labelled("server"), "policyTypes": ["Ingress", "Egress"]}
    try:
        for specs, expected in (
            ([], {(CLIENT, 1), (CLIENT, 2), (OTHER, 1), (SERVER, 1), (OUTSIDE[0], 1)}),
            ([to_server], {(CLIENT, 1), (OTHER, 1), (SERVER, 1), (OUTSIDE[0], 1)}),
            ([FROM_CLIENTS], {(CLIENT, 1), (CLIENT, 2), (SERVER, 1)}),
            ([nobody], {(CLIENT, 2), (SERVER, 1)}),
        ):
            let(yard, *specs)
            asked = [(CLIENT, 1), (CLIENT, 2), (OTHER, 1), (SERVER, 1), (OUTSIDE[0], 1)]
            assert {one for one in asked if reached(one[0], f"10.96.0.{one[1]}")} == expected
    finally:
        yard.inside("one", "nft", "delete", "table", "ip", "services")


def test_nobody_sends_with_the_address_of_a_pod(yard):
    """Neither a pod with another's, nor with its machine's, nor somebody outside."""
    let(yard, FROM_CLIENTS)
    tables = ("nft", "-j", "list", "chain", "ip", "metalk8s_policies", "claims")
    for place, claimed in ((OTHER, CLIENT), (OTHER, MACHINES["one"]), (OUTSIDE[0], CLIENT)):
        yard.inside(PLACES[place], "ip", "address", "add", f"{claimed}/32", "dev", "lo")
        liar = yard.socket(place, socket.SOCK_DGRAM)
        liar.bind((claimed, 0))
        before = yard.inside("one", *tables)
        liar.sendto(b"lie", (SERVER, PORTS[0]))
        assert not select.select([yard.udp[SERVER, PORTS[0]]], [], [], 0.3)[0], (place, claimed)
        assert yard.inside("one", *tables) != before, "it was not there to be dropped"
        yard.inside(PLACES[place], "ip", "address", "del", f"{claimed}/32", "dev", "lo")
    yard.senders[CLIENT].sendto(b"truth", (SERVER, PORTS[0]))
    assert select.select([yard.udp[SERVER, PORTS[0]]], [], [], 5)[0]
    yard.udp[SERVER, PORTS[0]].recv(99)


def test_a_pod_that_nobody_knows_is_not_heard(yard):
    """And hears nothing, but of its machine."""
    unknown = [one for one in CLUSTER if one["status"]["podIP"] == CLIENT]
    CLUSTER.remove(*unknown)
    try:
        let(yard, {**labelled("nobody")})
        pairs = [pair for pair in PAIRS if CLIENT in pair]
        assert {flow[:2] for flow in yard.arrive(pairs)} == {
            (CLIENT, MACHINES["one"]), (MACHINES["one"], CLIENT)
        }  # fmt: skip
        assert not hears(yard, CLIENT, solicitation())
        assert hears(yard, OTHER, solicitation())
    finally:
        CLUSTER.extend(unknown)


def solicitation():
    """Return a packet of ICMP that is of no connection."""
    return b"\x0a\0" + (0xFFFF - 0x0A00).to_bytes(2, "big") + bytes(4)


def hears(yard, address, packet):
    """Tell whether a packet of ICMP that the server sends arrives."""
    ear = yard.raw[address, ICMP]
    yard.raw[SERVER, ICMP].sendto(packet, (address, 0))
    heard = []
    while select.select([ear], [], [], 0.3)[0]:
        heard.append(ear.recv(99)[20:])
    return packet in heard


def test_what_is_of_no_connection_is_for_pods_that_are_free(yard):
    let(yard, {**labelled("client")})
    assert not hears(yard, CLIENT, solicitation())
    assert hears(yard, OTHER, solicitation())
