"""The table of the packet filter in a real kernel: who gets through, and who does not.

A machine, its neighbour and a pod are network namespaces of this test, and nothing else is on their
wires. The neighbour has several addresses: of another machine of the control plane, of other
machines of the cluster, of a stranger. Runs ``ip``, ``nft``, ``nsenter`` and ``unshare``.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import firewall
from tests.integration.conftest import require, run

pytestmark = pytest.mark.integration

HERE, OTHER_HERE = "10.100.0.2", "10.100.0.22"
MASTER, MACHINE, ELSEWHERE, STRANGER = "10.100.0.3", "10.100.0.9", "10.99.0.7", "192.0.2.9"
NEIGHBOURS = (MASTER, MACHINE, ELSEWHERE, STRANGER)
PLANE = {
    "address": HERE,
    "masters": [HERE, MASTER],
    "controlling": [HERE, MASTER],
    # One within the other: a set of nftables would not take them.
    "networks": ["10.99.0.0/24", "10.100.0.0/24", "10.100.0.8/29"],
}
POD_GATEWAY, POD = "10.233.0.1", "10.233.0.2"
FOR_MASTERS, FOR_MACHINES, FOR_ALL = (2379, 2380, 10250), (4505, 4506, 5443), (22, 6443, 10249)
FRAME = pathlib.Path(__file__).parent / "data/frame.py"
# Listens: TCP at every address; UDP, first on loopback; VRRP. Says what came.
LISTEN = """
import select, socket, sys
def bound(kind, address, port, protocol=0):
    made = socket.socket(socket.AF_INET, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    return made
here, ports = sys.argv[1], [int(word) for word in sys.argv[2:]]
streams = [bound(socket.SOCK_STREAM, '0.0.0.0', port) for port in ports]
for stream in streams:
    stream.listen(64)
others = [bound(socket.SOCK_DGRAM, '127.0.0.1', 10249), bound(socket.SOCK_DGRAM, here, 10249),
          bound(socket.SOCK_RAW, here, 0, 112)]
print('ready', flush=True)
while True:
    ready = select.select([*others, *streams], [], [])[0]
    for one in ready:
        if one in streams:
            one.accept()[0].close()
        else:
            print(one.recv(100)[-6:].decode('latin-1'), flush=True)
"""
CONNECT = """
import json, socket, sys
def is_open(source, address, port):
    with socket.socket() as stream:
        stream.settimeout(0.7)
        stream.bind((source, 0))
        try:
            stream.connect((address, port))
        except TimeoutError:
            return False
        return True
source, address, *ports = sys.argv[1:]
print(*(port for port in ports if is_open(source, address, int(port))))
"""
SEND = """
import socket, sys
kind, protocol, source, address, port, text = sys.argv[1:]
with socket.socket(socket.AF_INET, getattr(socket, kind), int(protocol)) as made:
    made.bind((source, 0))
    made.sendto(text.encode("latin-1"), (address, int(port)))
"""
VIP = firewall.known()["keepalived"]["router"]  # the number of the virtual address
# What kube-proxy does for a port of the node, when the node itself asks on loopback.
NODE_PORT = f"""
table ip proxy {{
    chain output {{
        type nat hook output priority -100;
        ip daddr 127.0.0.1 tcp dport 30080 dnat to {POD}:8080
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        ip daddr {POD} masquerade
    }}
}}
"""


class Namespace:
    """A network of its own, as long as a process lives in it."""

    def __init__(self) -> None:
        argv = ["unshare", "--net", "sh", "-c", "echo ready; exec cat"]
        self.holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout
        assert self.holder.stdout.readline()
        self.pid = self.holder.pid

    def words(self, *argv: object) -> list[str]:
        """Return the words of a command that runs in it."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *map(str, argv)]

    def inside(self, *argv: object) -> str:
        """Run a program in it."""
        return run(*self.words(*argv))

    def python(self, script: str, *arguments: object) -> str:
        """Run a script in it."""
        return self.inside(sys.executable, "-c", script, *arguments)

    def end(self) -> None:
        """Let it go, with its interfaces."""
        assert self.holder.stdin
        assert self.holder.stdout
        self.holder.stdin.close()
        self.holder.wait(10)
        self.holder.stdout.close()


@dataclasses.dataclass(frozen=True)
class Site:
    """A machine, who is beside it, a pod on it; and where its rules are."""

    machine: Namespace
    neighbour: Namespace
    pod: Namespace
    listener: subprocess.Popen[str]
    rules: pathlib.Path

    def load(self, name: str) -> None:
        """Load rules as the machine does."""
        self.machine.inside("sh", self.rules / f"load-{name}.sh")

    def listed(self) -> str:
        """Return all rules that there are, and how the kernel calls each table and chain."""
        return self.machine.inside("nft", "--handle", "--stateless", "list", "ruleset")

    def reached(self, source: str, address: str = HERE) -> set[int]:
        """Return the ports that the neighbour reaches from one of its addresses."""
        ports = (*FOR_MASTERS, *FOR_MACHINES, *FOR_ALL)
        return set(map(int, self.neighbour.python(CONNECT, source, address, *ports).split()))

    def heard(self) -> list[str]:
        """Return what came, up to a mark that is sent now; it takes the same way."""
        self.neighbour.python(SEND, "SOCK_DGRAM", 0, STRANGER, HERE, 10249, "-mark-")
        assert self.listener.stdout
        lines = iter(self.listener.stdout.readline, "-mark-\n")
        return [line.strip() for line in lines if line]


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    """Build it: no rule is loaded yet, and packets for loopback are let in by the kernel."""
    require("ip", "nft", "nsenter", "unshare")
    metalk8s = firewall.known(**PLANE)
    metalk8s["firewall"]["config_folder"] = str(tmp_path)
    for name in ("loopback.nft", "ports.nft", "pods.nft"):
        (tmp_path / name).write_text(firewall.render(name, metalk8s), encoding="utf-8")
    for chain in ("ports", "loopback"):
        metalk8s["firewall"]["own_rules"] = chain == "loopback"
        script = firewall.render("load.sh", metalk8s)
        (tmp_path / f"load-{chain}.sh").write_text(script, encoding="utf-8")
    machine, neighbour, pod = spaces = Namespace(), Namespace(), Namespace()
    listener = None
    try:
        connect(machine, (HERE, OTHER_HERE), neighbour, NEIGHBOURS)
        connect(machine, (POD_GATEWAY,), pod, (POD,))
        machine.inside("ip", "link", "set", "lo", "up")
        machine.inside(
            "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1", "net.ipv4.ip_forward=1"
        )
        ports = (*FOR_MASTERS, *FOR_MACHINES, *FOR_ALL)
        words = machine.words(sys.executable, "-c", LISTEN, HERE, *ports)
        listener = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert listener.stdout
        assert listener.stdout.readline() == "ready\n"
        yield Site(machine, neighbour, pod, listener, tmp_path)
    finally:
        if listener is not None:
            listener.kill()
            listener.communicate()
        for space in spaces:
            space.end()


def connect(
    machine: Namespace, ours: tuple[str, ...], other: Namespace, theirs: tuple[str, ...]
) -> None:
    """Lay a wire between two namespaces, with all addresses on it and routes between them."""
    name = f"to{other.pid}"
    machine.inside(*("ip", "link", "add", name, "type", "veth"),
                   *("peer", "name", "eth0", "netns", other.pid))  # fmt: skip
    ends = ((machine, name, ours, theirs), (other, "eth0", theirs, ours))
    for space, interface, addresses, away in ends:
        space.inside("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0",
                     f"net.ipv4.conf.{interface}.rp_filter=0")  # fmt: skip
        for address in addresses:
            space.inside("ip", "address", "add", f"{address}/32", "dev", interface)
        space.inside("ip", "link", "set", interface, "up")
        for address in away:
            space.inside("ip", "route", "add", address, "dev", interface)


def test_each_port_is_for_who_uses_it(site: Site) -> None:
    """And for nobody else; ports and addresses that the table does not name are left alone."""
    everything = {*FOR_MASTERS, *FOR_MACHINES, *FOR_ALL}
    assert site.reached(STRANGER) == everything, "without rules nobody is kept out"
    site.load("ports")
    assert site.reached(MASTER) == everything
    assert site.reached(MACHINE) == {*FOR_MACHINES, *FOR_ALL}
    assert site.reached(ELSEWHERE) == {*FOR_MACHINES, *FOR_ALL}
    assert site.reached(STRANGER) == {*FOR_ALL}
    assert site.reached(STRANGER, OTHER_HERE) == everything
    for address in (HERE, "127.0.0.1"):
        found = site.machine.python(CONNECT, address, HERE, *everything)
        assert set(map(int, found.split())) == everything, "the machine itself"


def test_rules_are_exchanged_at_once(site: Site) -> None:
    """Loading again doubles nothing, what others have stays, and the site may have firewalld."""
    site.machine.inside("nft", "add", "table", "inet", "of_the_site")
    site.load("ports")
    listed = site.listed()
    site.load("ports")
    assert without_rules(site.listed()) == without_rules(listed), "chains are not made anew"
    assert re.sub(r" # handle \d+", "", site.listed()) == re.sub(r" # handle \d+", "", listed)
    site.load("loopback")
    assert "chain ports" not in site.machine.inside("nft", "list", "ruleset")
    assert site.reached(STRANGER) == {*FOR_MASTERS, *FOR_MACHINES, *FOR_ALL}
    assert "of_the_site" in site.machine.inside("nft", "list", "tables")


def without_rules(listed: str) -> list[str]:
    """Return the lines of tables and chains, with how the kernel calls each."""
    lines = map(str.strip, listed.splitlines())
    return [line for line in lines if line.startswith(("table ", "chain "))]


def test_a_table_that_hooks_elsewhere_makes_room(site: Site) -> None:
    """Whoever made it; rules that the kernel does not take leave what is there."""
    own = "{ type filter hook forward priority 0; }"
    site.machine.inside("nft", f"add table inet metalk8s; add chain inet metalk8s ports {own}")
    site.load("ports")
    assert site.reached(STRANGER) == {*FOR_ALL}
    listed = site.listed()
    (site.rules / "loopback.nft").write_text("no rule of nftables\n", encoding="utf-8")
    script = site.machine.words("sh", site.rules / "load-ports.sh")
    assert subprocess.run(script, capture_output=True, check=False).returncode
    assert site.listed() == listed


@pytest.mark.parametrize(
    ("source", "router", "is_heard"),
    [(MASTER, VIP, True), (MACHINE, VIP, False), (MACHINE, 254, True), (STRANGER, 254, False)],
)
def test_vrrp_is_for_masters(site: Site, source: str, router: int, *, is_heard: bool) -> None:
    """Of the virtual address they alone may speak; of addresses of Services, machines may."""
    site.load("ports")
    advert = f"!{chr(router)}advert"
    site.neighbour.python(SEND, "SOCK_RAW", firewall.VRRP, source, HERE, 0, advert)
    assert ("advert" in site.heard()) is is_heard


def test_neighbours_do_not_reach_loopback(site: Site) -> None:
    """CVE-2020-8558: what route_localnet lets in, our rules drop; nor does anybody come from it."""
    interface = site.machine.inside("ip", "-brief", "link", "show", f"to{site.neighbour.pid}")
    hardware, script = interface.split()[2], FRAME.read_text(encoding="utf-8")
    attack = ("eth0", hardware, STRANGER, "127.0.0.1", 10249)
    site.neighbour.python(script, *attack)
    assert site.heard() == ["attack"], "without rules it comes in"
    site.load("loopback")
    site.neighbour.python(script, *attack)
    site.neighbour.python(script, "eth0", hardware, "127.0.0.1", HERE, 10249)
    assert site.heard() == []
    chain = site.machine.inside("nft", "list", "chain", "inet", "metalk8s", "loopback")
    assert chain.count("counter packets 1 ") == 2


def test_ports_of_services_answer_on_loopback(site: Site) -> None:
    """What route_localnet is there for goes on, under all rules."""
    site.machine.inside("nft", NODE_PORT)
    words = site.pod.words(sys.executable, "-c", LISTEN.replace("'127.0.0.1'", "here"), POD, 8080)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        site.load("ports")
        assert site.machine.python(CONNECT, "127.0.0.1", "127.0.0.1", 30080).split() == ["30080"]
        server.kill()
