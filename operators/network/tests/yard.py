"""Two machines with pods, and an outside, of namespaces of this kernel; and packets of any kind.

::

    outside ── one (pods 10.233.1.0/24) ── two (pods 10.233.2.0/24)

Only the table under test judges. Sockets are this process's, in namespaces of others.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path

from metalk8s_pod_network.isolation import script
from policy_sets import HERE, MACHINES, OUTSIDE, PORTS, THERE
from site_ import CLONE_NEWNET, run

PLACES = (
    {address: f"pod{n}" for n, address in enumerate((*HERE, *THERE))}
    | dict.fromkeys(OUTSIDE, "outside")
    | {address: machine for machine, address in MACHINES.items()}
)
PODS = (*HERE, *THERE)
# The kernel tracks connections where somebody asks for it, as the agent's other table does.
TRACKING = """
table ip metalk8s_pods {
    chain leaving {
        type nat hook postrouting priority srcnat; policy accept;
        ip daddr 192.0.2.77 masquerade
    }
}
"""
QUIET = 0.1  # seconds without a packet after which no more is awaited
SCTP, ICMP = 132, 1
ON = dict.fromkeys(HERE, "one") | dict.fromkeys(THERE, "two")


def within(namespace, make):
    """Return what a function makes in a namespace."""
    made = []

    def enter():
        # of this thread only, which ends
        with Path(f"/run/netns/{namespace}").open() as handle:
            assert ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) == 0
        made.append(make())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


class Yard:
    """``tables``: load a text into the packet filter of ``one`` or ``two``."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.round = itertools.count(1)
        try:
            self._lay()
            self._listen()
        except BaseException:
            self.stack.close()
            raise

    def name(self, place):
        return f"mky-{place}-{os.getpid()}"

    def inside(self, place, *argv, text="", check=True):
        return run("ip", "netns", "exec", self.name(place), *argv, text=text, check=check)

    def load(self, machine, texts):
        """Give texts to ``nft``, and return the table as it is then."""
        for text in texts:
            self.inside(machine, "nft", "-f", "-", text=text)
        return self.inside(machine, "nft", "-s", "list", "table", "ip", "metalk8s_policies")

    def names(self, machine):
        """Return what the table has, as an agent that has just begun sees it."""
        words = ("nft", "-j", "-t", "list", "table", "ip", "metalk8s_policies")
        return script.read(json.loads(self.inside(machine, *words, check=False) or "{}"))

    def _lay(self):
        for place in dict.fromkeys(PLACES.values()):
            run("ip", "netns", "add", self.name(place))
            self.stack.callback(run, "ip", "netns", "del", self.name(place), check=False)
            self.inside(place, "ip", "link", "set", "lo", "up")
        for machine in MACHINES:
            self.inside(machine, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            self.inside(machine, "nft", "-f", "-", text=TRACKING)
        for address in PODS:
            self.plug(ON[address], PLACES[address], address)
        self._cable("one", "two", "two", "one", *MACHINES.values())
        self._cable("outside", "one", "eth0", "out", OUTSIDE[0], "192.0.2.1")
        self.inside("outside", "ip", "address", "add", f"{OUTSIDE[1]}/32", "dev", "eth0")
        for place, network, via, device in (
            ("one", "10.233.2.0/24", MACHINES["two"], "two"),
            ("two", "10.233.1.0/24", MACHINES["one"], "one"),
            *(("two", address, MACHINES["one"], "one") for address in OUTSIDE),
            ("one", OUTSIDE[1], OUTSIDE[0], "out"),
            ("outside", "default", "192.0.2.1", "eth0"),
        ):
            self.inside(place, "ip", "route", "add", network, "via", via, "dev", device, "onlink")

    def plug(self, machine, place, address):
        """Lay the cable of a pod, as the CNI plugin ``ptp`` does."""
        first = f"{address.rpartition('.')[0]}.1"
        port = f"veth{address.rpartition('.')[2]}"
        self._cable(place, machine, "eth0", port, address, first)
        self.inside(place, "ip", "route", "add", "default", "via", first)

    def _cable(self, one, other, here, there, address, facing):
        run("ip", "link", "add", here, "netns", self.name(one), "type", "veth",
            "peer", "name", there, "netns", self.name(other))  # fmt: skip
        for place, port, own, end in (
            (one, here, address, facing),
            (other, there, facing, address),
        ):
            self.inside(
                place, "ip", "address", "add", f"{own}/32", "peer", f"{end}/32", "dev", port
            )
            self.inside(place, "ip", "link", "set", port, "up")

    def socket(self, address, *kind):
        """Return a socket in the place of an address."""
        made = within(self.name(PLACES[address]), lambda: socket.socket(socket.AF_INET, *kind))
        self.stack.callback(made.close)
        made.setblocking(False)
        return made

    def _listen(self):
        self.udp, self.tcp, self.raw, self.senders = {}, {}, {}, {}
        for address in PLACES:
            for port in PORTS:
                self.udp[address, port] = self.socket(address, socket.SOCK_DGRAM)
                self.udp[address, port].bind((address, port))
                self.tcp[address, port] = self.socket(address, socket.SOCK_STREAM)
                self.tcp[address, port].bind((address, port))
                self.tcp[address, port].listen(64)
            self.senders[address] = self.socket(address, socket.SOCK_DGRAM)
            self.senders[address].bind((address, 40000))
            for protocol in (SCTP, ICMP):
                self.raw[address, protocol] = self.socket(address, socket.SOCK_RAW, protocol)
                self.raw[address, protocol].bind((address, 0))

    def arrive(self, pairs):
        """Send packets of every kind between addresses; return which connections there are."""
        number = next(self.round)
        calls = {}
        for source, destination in pairs:
            for port in PORTS:
                send(self.senders[source], struct.pack("!IH", number, port), (destination, port))
                calls[source, destination, "TCP", port] = self._call(source, destination, port)
            send(self.raw[source, SCTP], initiation(PORTS[0], number), (destination, 0))
            send(self.raw[source, ICMP], echo(number), (destination, 0))
        found = set()
        until = time.monotonic() + QUIET
        readers = {one: key for group in (self.udp, self.raw) for key, one in group.items()}
        waiting = {call: flow for flow, call in calls.items()}
        while time.monotonic() < until:
            ready, connected, _ = select.select(readers, waiting, [], QUIET)
            if ready or connected:
                until = time.monotonic() + QUIET
            for one in ready:
                found |= set(self._read(one, *readers[one], number))
            for call in connected:
                flow = waiting.pop(call)
                if call.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.add(flow)
        for call in calls.values():
            call.close()
        self._hang_up()
        return found

    def _call(self, source, destination, port):
        call = self.socket(source, socket.SOCK_STREAM)
        call.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        call.bind((source, 0))
        call.connect_ex((destination, port))
        return call

    def _hang_up(self):
        for listening in self.tcp.values():
            with contextlib.suppress(OSError):
                while True:
                    listening.accept()[0].close()

    def _read(self, one, address, key, number):
        with contextlib.suppress(OSError):
            while True:
                data, (source, _) = one.recvfrom(2048)
                if (address, key) in self.udp and one is self.udp[address, key]:
                    if data[:4] == struct.pack("!I", number):
                        yield source, address, "UDP", key
                elif struct.pack("!I", number) in data and socket.inet_ntoa(data[16:20]) == address:
                    if key == SCTP:
                        yield source, address, "SCTP", PORTS[0]
                    elif data[20] == 8:
                        yield source, address, "ICMP", None


def send(one, data, address):
    # a neighbour may have refused what came before
    with contextlib.suppress(ConnectionRefusedError):
        one.sendto(data, address)


def echo(number):
    head, rest = struct.pack("!BBHHH", 8, 0, 0, 9, 1), struct.pack("!I", number)
    total = sum(struct.unpack("!6H", head + rest))
    total = (total >> 16) + (total & 0xFFFF)
    return head[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[4:] + rest


def initiation(port, number):
    """Return a packet of SCTP that asks for an association."""
    chunk = struct.pack("!BBHIIHHI", 1, 0, 20, number, 65536, 1, 1, number)
    head = struct.pack("!HHI", 40000, port, 0)
    return head + struct.pack("<I", crc32c(head + bytes(4) + chunk)) + chunk


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
