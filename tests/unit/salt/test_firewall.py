"""The rules for the packet filter admit what the table of ports does, and are loaded when due."""

from __future__ import annotations

import ipaddress
import pathlib
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests import firewall
from tests.firewall import TCP, UDP, VRRP, Packet

PORTS: dict[str, dict[str, Any]] = yaml.safe_load(
    (firewall.ROOT / "salt/states/metalk8s/parameters/ports.yaml").read_text(encoding="utf-8")
)
HERE = "10.100.0.2"
ADDRESSES = st.integers(min_value=0x0A640000, max_value=0x0A640FFF).map(
    lambda number: str(ipaddress.ip_address(number))
)
NETWORKS = st.builds(
    lambda address, bits: str(ipaddress.ip_network(f"{address}/{bits}", strict=False)),
    ADDRESSES,
    st.integers(min_value=20, max_value=32),
)
NUMBERS = sorted({port["number"] for port in PORTS.values() if "number" in port} | {22, 80, 10255})
WORKLOAD = firewall.known()["networks"]["workload_plane"]["networks"]
DATAGRAMS = [port["udp"] for port in PORTS.values() if "udp" in port]


def is_admitted(packet: Packet, masters: list[str], networks: list[str]) -> bool:
    """Say what docs/reference/ports.md says."""
    if packet.interface == "lo" or packet.state in ("established", "related"):
        return True
    if packet.destination != HERE:
        return True
    if packet.protocol == VRRP and is_of(packet.source, WORKLOAD):
        return True  # who has an address of a Service
    for port in PORTS.values():
        asked = packet.protocol == TCP and port.get("number") == packet.port
        asked = asked or (packet.protocol == UDP and port.get("udp") == packet.port)
        if asked or ("protocol" in port and packet.protocol == VRRP):
            if port.get("open_to") == "masters":
                return packet.source in masters
            if port.get("open_to") == "machines":
                return is_of(packet.source, networks)
    return True


def is_of(address: str, networks: list[str]) -> bool:
    """Tell whether an address is in one of several networks."""
    there = ipaddress.ip_address(address)
    return any(there in ipaddress.ip_network(one) for one in networks)


PACKETS = st.builds(
    Packet,
    source=ADDRESSES,
    destination=st.just(HERE) | ADDRESSES,
    port=st.sampled_from(NUMBERS + DATAGRAMS),
    protocol=st.sampled_from([TCP, TCP, UDP, VRRP]),
    interface=st.sampled_from(["eth0", "eth0", "veth0", "lo"]),
    state=st.sampled_from(["new", "new", "invalid", "untracked", "established", "related"]),
)


@given(
    st.lists(ADDRESSES, max_size=3),
    st.lists(NETWORKS, min_size=1, max_size=3),
    st.lists(PACKETS, min_size=1, max_size=10),
)
def test_rules_admit_what_the_table_does(masters, networks, packets):
    masters = [HERE, *masters]
    plane = {"address": HERE, "masters": masters, "controlling": masters, "networks": networks}
    rules = firewall.render("ports.nft", firewall.known(**plane))
    # Whom the rules name exactly is seldom met by chance.
    packets += [Packet(master, HERE, port) for master in masters for port in NUMBERS]
    packets += [Packet(master, HERE, port, UDP) for master in masters for port in DATAGRAMS]
    for packet in packets:
        expected = "accept" if is_admitted(packet, masters, networks) else "drop"
        assert firewall.verdict(rules, "ports", packet) == expected, packet


def test_a_stranger_reaches_nothing_that_is_for_the_cluster():
    rules = firewall.render("ports.nft", firewall.known(address=HERE))
    closed = {
        number
        for number in NUMBERS
        if firewall.verdict(rules, "ports", Packet("192.0.2.1", HERE, number)) == "drop"
    }
    assert closed == {2379, 2380, 4505, 4506, 5443, 10250}
    assert firewall.verdict(rules, "ports", Packet("192.0.2.1", HERE, 123, UDP)) == "drop"


def test_the_clock_is_served_to_machines_where_it_is_ours():
    metalk8s = firewall.known(address=HERE, networks=["10.100.0.0/24"])
    packets = [Packet("10.100.0.9", HERE, 123, UDP), Packet("192.0.2.1", HERE, 123, UDP)]
    rules = firewall.render("ports.nft", metalk8s)
    assert [firewall.verdict(rules, "ports", one) for one in packets] == ["accept", "drop"]
    assert '<port port="123" protocol="udp"/>' in firewall.render("metalk8s.xml", metalk8s)
    del metalk8s["ports"]["clock"]
    rules = firewall.render("ports.nft", metalk8s)
    assert [firewall.verdict(rules, "ports", one) for one in packets] == ["accept", "accept"]
    assert "udp dport" not in rules


def test_vrrp_has_a_rule_where_keepalived_runs_alone():
    metalk8s = firewall.known()
    assert f"ip protocol {VRRP}" in firewall.render("ports.nft", metalk8s)
    other = {"address": "10.200.0.2", "networks": ["10.200.0.0/24"]}
    metalk8s["networks"]["workload_plane"].update(other)
    here = f"ip daddr {metalk8s['networks']['control_plane']['address']} ip protocol {VRRP}"
    assert here in firewall.render("ports.nft", metalk8s)
    del metalk8s["ports"]["keepalived"]
    assert here not in firewall.render("ports.nft", metalk8s)


def test_vrrp_of_the_workload_plane_is_for_its_machines():
    """Beside that of the virtual address, where a machine has one address in both planes."""
    metalk8s = firewall.known(address=HERE, controlling=[HERE, "10.99.0.7"])
    plane = metalk8s["networks"]["workload_plane"]
    for address in (HERE, "10.200.0.2"):
        plane.update(address=address, networks=["10.200.0.0/24"])
        rules = firewall.render("ports.nft", metalk8s)
        for source, expected in (("10.200.0.9", "accept"), ("192.0.2.1", "drop")):
            packet = Packet(source, address, protocol=VRRP, router=254)
            assert firewall.verdict(rules, "ports", packet) == expected
        # Of the virtual address, they have nothing to say.
        router = metalk8s["keepalived"]["router"]
        for source, expected in (("10.99.0.7", "accept"), ("10.200.0.9", "drop")):
            packet = Packet(source, HERE, protocol=VRRP, router=router)
            assert firewall.verdict(rules, "ports", packet) == expected
        assert '<protocol value="vrrp"/>' in firewall.render("metalk8s.xml", metalk8s)


def test_who_is_unknown_stops_it():
    metalk8s = firewall.known()
    metalk8s["ports"]["etcd_clients"]["open_to"] = "friends"
    with pytest.raises(Exception, match="friends"):
        firewall.render("ports.nft", metalk8s)


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (Packet("10.0.0.9", "127.0.0.1", 10249), "drop"),
        (Packet("10.0.0.9", "127.8.8.8", 53, protocol=17), "drop"),
        (Packet("127.0.0.1", HERE, 6443), "drop"),
        (Packet("10.233.0.3", "127.0.0.1", 10249, interface="veth0"), "drop"),
        (Packet("10.0.0.9", "127.0.0.1", 10249, state="established"), "drop"),
        (Packet("127.0.0.1", "127.0.0.1", 10249, interface="lo"), "accept"),
        (Packet("10.0.0.9", HERE, 10249), "accept"),
    ],
)
def test_loopback_is_the_machines_own(packet, expected):
    rules = firewall.render("loopback.nft", firewall.known())
    assert firewall.verdict(rules, "loopback", packet) == expected
    assert "hook prerouting priority raw;" in rules, "before anything rewrites addresses"


FAKES = {
    # Which units are enabled or active stands in a file.
    "systemctl": 'echo "$2 $3" | grep -qxFf "$STATE"',
    "nft": 'echo "$@" >>"$CALLS"; test "$1" != list || grep -qxF "${5-$4}" "$THERE"',
}
POLICIES = "metalk8s_policies"
BOTH = ("is-enabled firewalld.service", "is-active firewalld.service")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return what runs the script: firewalld's state, the chains there are → exit and calls."""
    for name, body in FAKES.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(
        *arguments: str, own_rules: bool = False, state: tuple[str, ...] = (), there: str = ""
    ) -> tuple[int, list[str]]:
        files = {"STATE": "\n".join((*state, "end")), "CALLS": "", "THERE": there}
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
            monkeypatch.setenv(name, str(tmp_path / name))
        metalk8s = firewall.known()
        metalk8s["firewall"]["own_rules"] = own_rules
        load = pathlib.Path(tmp_path / "load.sh")
        load.write_text(firewall.render("load.sh", metalk8s), encoding="utf-8")
        done = subprocess.run(["/bin/sh", load, *arguments], check=False)
        calls = (tmp_path / "CALLS").read_text(encoding="utf-8").splitlines()
        return done.returncode, calls

    return run


@pytest.mark.parametrize(
    ("own_rules", "state", "chains"),
    [
        (False, (), "ports"),
        (False, BOTH[:1], "loopback"),
        (False, BOTH[1:], "loopback"),
        (False, BOTH, "loopback"),
        (False, ("is-active nftables.service",), "ports"),
        (True, (), "loopback"),
        (True, BOTH, "loopback"),
    ],
)
def test_what_is_loaded(script, own_rules, state, chains):
    status, calls = script(own_rules=own_rules, state=state, there=POLICIES)
    assert (status, loaded(calls)) == (0, [f"--file /etc/metalk8s/firewall/{chains}.nft"])
    gone = [call for call in calls if "delete chain inet metalk8s ports" in call]
    assert len(gone) == (chains == "loopback")


def loaded(calls: list[str]) -> list[str]:
    """Name the files that were loaded."""
    return [call for call in calls if call.startswith("--file ")]


@pytest.mark.parametrize("name", ["ports.nft", "loopback.nft"])
def test_chains_stay_when_their_rules_are_exchanged(name):
    """A new one beside one that goes lets a packet through that both would drop."""
    rules = firewall.render(name, firewall.known())
    assert "delete" not in rules
    chain = name.partition(".")[0]
    flushed = rules.index(f"flush chain inet metalk8s {chain}\n")
    assert (
        rules.index(f"add chain inet metalk8s {chain} {{") < flushed < rules.index("counter drop")
    )


def test_pods_are_apart_until_an_agent_says_who_may(script):
    """And what an agent has written is never taken back, however often ours is loaded."""
    folder = "/etc/metalk8s/firewall"
    status, calls = script()
    assert (status, loaded(calls)) == (0, [f"--file {folder}/{x}.nft" for x in ("pods", "ports")])
    status, calls = script(there=POLICIES)
    assert (status, loaded(calls)) == (0, [f"--file {folder}/ports.nft"])
    assert script("--check", there="loopback\nports")[0] != 0


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (Packet("10.233.0.3", "10.233.1.3", 80, interface="veth0"), "drop"),
        (Packet("10.0.0.9", "10.233.1.3", 80), "drop"),
        (Packet("10.233.0.3", "10.0.0.9", 80, state="established"), "drop"),
        (Packet("10.0.0.9", "10.0.0.8", 80), "accept"),
    ],
)
def test_what_is_dropped_until_then(packet, expected):
    rules = firewall.render("pods.nft", firewall.known())
    assert firewall.verdict(rules, "closed", packet) == expected
    assert f"table ip {POLICIES} {{" in rules
    assert "hook forward" in rules, "the machine itself reaches its pods"


@pytest.mark.parametrize(
    ("own_rules", "state", "there", "is_well"),
    [
        (False, (), "loopback\nports", True),
        (False, (), "loopback", False),
        (False, (), "ports", False),
        (False, (), "", False),
        (False, BOTH, "loopback", True),
        (False, BOTH, "loopback\nports", True),
        (False, BOTH, "", False),
        (True, (), "loopback", True),
        (True, (), "", False),
    ],
)
def test_what_is_missing_is_seen(script, own_rules, state, there, is_well):
    status, calls = script(
        "--check", own_rules=own_rules, state=state, there=f"{there}\n{POLICIES}"
    )
    assert (status == 0) is is_well
    assert not [call for call in calls if not call.startswith("list ")], "nothing is loaded"
