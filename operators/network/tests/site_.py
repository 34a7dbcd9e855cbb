"""Three machines in two networks, made of namespaces of this machine's kernel.

::

    one (10.1.0.1) ─┐                                            ┌─ three (10.2.0.3)
    two (10.1.0.2) ─┴─ switch ─ 10.1.0.254 router 10.2.0.254 ────┘
                                    │ 198.51.100.1
                                 outside (198.51.100.2)

Each machine has a pod, as the CNI plugin ``ptp`` makes it. The router passes no packet that has the
address of a pod, as a careful one would, and answers as the API server.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from cluster_api import ClusterApi
from nodes import MACHINES, PODS, node
from waiting import until

HERE = Path(__file__).parent
PROBE = str(HERE / "probe.py")
LIBRARY = HERE.parents[1] / "library"
CLONE_NEWNET = 0x40000000
MTU = 1450  # of a pod
MACHINE = {
    "one": ("10.1.0.1", "10.1.0.254", 1),
    "two": ("10.1.0.2", "10.1.0.254", 2),
    "three": ("10.2.0.3", "10.2.0.254", 3),
}
OUTSIDE = "198.51.100.2"
GUARD = f"""
table ip guard {{
    chain forward {{
        type filter hook forward priority 0;
        ip saddr {PODS} counter drop
        ip daddr {PODS} counter drop
    }}
}}
"""


def run(*argv, check=True, text=""):
    """Run a program; return its output."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def listen_in(namespace):
    """Return a socket that listens in a namespace, on a port that is free."""
    made = []

    def make():
        # of this thread only, which ends
        with Path(f"/run/netns/{namespace}").open() as handle:
            assert ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) == 0
        listening = socket.socket()
        listening.bind(("0.0.0.0", 0))
        listening.listen(16)
        made.append(listening)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


class Site:
    """The machines. Names of namespaces end in the number of this process."""

    def __init__(self, folder):
        self.folder = folder
        self.agents = {}
        self.stack = contextlib.ExitStack()
        try:
            self._lay()
        except BaseException:
            self.close()
            raise

    def name(self, place):
        return f"mk-{place}-{os.getpid()}"

    def inside(self, place, *argv, check=True, text=""):
        return run("ip", "netns", "exec", self.name(place), *argv, check=check, text=text)

    def pod(self, machine):
        return f"10.233.{MACHINE[machine][2]}.2"

    def _lay(self):
        for place in ("switch", "router", "outside", *MACHINE, *(f"pod-{m}" for m in MACHINE)):
            run("ip", "netns", "add", self.name(place))
            self.stack.callback(run, "ip", "netns", "del", self.name(place), check=False)
            self.inside(place, "ip", "link", "set", "lo", "up")
        self.inside("switch", "ip", "link", "add", "br0", "type", "bridge")
        # the kernel's bridge of the switch is no router: its packets pass no filter
        self.inside("switch", "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", check=False)
        self.inside("switch", "ip", "link", "set", "br0", "up")
        self.cable("switch", "router", "left", "10.1.0.254/24", port="r", bridge=True)
        self.cable("three", "router", "right", "10.2.0.254/24", port="eth0")
        self.cable("outside", "router", "out", "198.51.100.1/24", port="eth0")
        self.inside("outside", "ip", "address", "add", f"{OUTSIDE}/24", "dev", "eth0")
        self.inside("outside", "ip", "route", "add", "default", "via", "198.51.100.1")
        for machine in ("one", "two"):
            self.cable("switch", machine, "eth0", "", port=machine, bridge=True)
        for machine, (address, gateway, number) in MACHINE.items():
            self._machine(machine, address, gateway, number)
        self._forward("router")
        self.inside("router", "nft", "-f", "-", text=GUARD)
        self.api = ClusterApi(listen_in(self.name("router")))
        self.stack.callback(self.api.close)

    def _forward(self, place):
        self.inside(place, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def cable(self, one, other, name, address, *, port, bridge=False):
        """Lay a cable: interface ``port`` of one place, ``name`` with an address of another."""
        run("ip", "link", "add", port, "netns", self.name(one), "type", "veth",
            "peer", "name", name, "netns", self.name(other))  # fmt: skip
        if bridge:
            self.inside(one, "ip", "link", "set", port, "master", "br0")
        if address:
            self.inside(other, "ip", "address", "add", address, "dev", name)
        for place, interface in ((one, port), (other, name)):
            self.inside(place, "ip", "link", "set", interface, "up")

    def _machine(self, machine, address, gateway, number):
        self.inside(machine, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.inside(machine, "ip", "route", "add", "default", "via", gateway)
        self._forward(machine)
        # the strictest that a distribution has: an answer comes the way the question went
        self.inside(machine, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
        pod, first = f"pod-{machine}", f"10.233.{number}.1"
        self.cable(machine, pod, "eth0", f"{self.pod(machine)}/32", port="veth0")
        self.inside(machine, "ip", "address", "add", f"{first}/32", "dev", "veth0")
        self.inside(machine, "ip", "route", "add", f"{self.pod(machine)}/32", "dev", "veth0")
        for place, interface in ((machine, "veth0"), (pod, "eth0")):
            self.inside(place, "ip", "link", "set", interface, "mtu", str(MTU))
        self.inside(pod, "ip", "route", "add", f"{first}/32", "dev", "eth0")
        self.inside(pod, "ip", "route", "add", "default", "via", first)

    def join(self, machine, *, start=True):
        """Let a machine have a Node, and its agent run."""
        address, _, number = MACHINE[machine]
        self.api.put(node(machine, address, f"10.233.{number}.0/24"))
        if start:
            self.start(machine)

    def start(self, machine, api="", before=()):
        """Run its agent.

        :param api: of another API server.
        :param before: a program with arguments, which runs it.
        """
        log = (self.folder / f"{machine}.log").open("a")
        self.stack.callback(log.close)
        gateway = MACHINE[machine][1]
        self.agents[machine] = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.name(machine)),
                *(*before, sys.executable, "-m", "metalk8s_pod_network"),
                f"--api={api or f'http://{gateway}:{self.api.port}'}",
                f"--node={machine}",
                f"--pods={PODS}",
                *(f"--machines={network}" for network in MACHINES),
                *("--vxlan-id=4097", "--vxlan-port=4789", "--health-port=10253"),
                *(f"--cni={self.folder}/{machine}.conflist", "--network=metalk8s"),
                f"--sandboxes={self.sandboxes(machine)}",
            ],
            env={**os.environ, "PYTHONPATH": f"{HERE.parent}:{LIBRARY}"},
            stderr=log,
        )

    def sandboxes(self, machine):
        """Return the folder of what CNI plugins have given to whom."""
        folder = self.folder / f"{machine}.results"
        folder.mkdir(exist_ok=True)
        return folder

    def kill(self, machine, with_=signal.SIGKILL):
        agent = self.agents.pop(machine)
        agent.send_signal(with_)
        return agent.wait(20)

    def state(self, machine):
        """Return everything that an agent may have made on a machine."""
        return {
            "routes": self.inside(machine, "ip", "-j", "route", "show", "table", "all"),
            "rules": self.inside(machine, "ip", "-j", "rule"),
            "links": [
                link["ifname"] for link in json.loads(self.inside(machine, "ip", "-j", "link"))
            ],
            "packets": self.inside(machine, "nft", "list", "ruleset"),
        }

    def close(self):
        for machine in list(self.agents):
            self.kill(machine)
        self.stack.close()

    def probe(self, place, address, size=84):
        """Send a packet that must not be cut; return what comes of it."""
        return self.inside(place, sys.executable, PROBE, address, str(size)).strip()

    def reaches(self, place, address, what, size=84):
        until(lambda: self.probe(place, address, size) == "answer", what)

    def health(self, machine):
        asked = "import urllib.request as u; u.urlopen('http://127.0.0.1:10253/readyz')"
        argv = ("ip", "netns", "exec", self.name(machine), sys.executable, "-c", asked)
        return subprocess.run(argv, capture_output=True, timeout=20).returncode == 0
