"""Three machines and a client on one switch, made of namespaces of this machine's kernel.

::

    one (10.1.0.1)   two (10.1.0.2)   three (10.1.0.3)   client (10.1.0.100)
          └────────────────┴──────┬─────────┴──────────────────┘
                       switch (10.1.0.254): the API server

Each machine answers with its name at port 8080; a rule does for addresses of Services what
kube-proxy does. The program runs on each of them, with the keepalived of this machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.server
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from api_server import ApiServer, _Handler
from things import node
from waiting import until

ROOT = Path(__file__).resolve().parents[1]
MACHINES = {"one": "10.1.0.1", "two": "10.1.0.2", "three": "10.1.0.3"}
CLONE_NEWNET = 0x40000000
# As a machine of a cluster answers: with who it is, to whoever connects.
ANSWER = """
import socket, sys
server = socket.create_server(("", 8080), backlog=64)
while True:
    connection, _ = server.accept()
    connection.sendall(sys.argv[1].encode())
    connection.close()
"""
PROXY = """
table ip proxy {{
    chain prerouting {{
        type nat hook prerouting priority dstnat;
        ip daddr 10.1.0.200-10.1.0.250 tcp dport 80 dnat to {address}:8080
    }}
}}
"""


def run(*argv, check=True, text=""):
    """Run a program; return its output."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
    assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


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


class Api:
    """An API server with four collections, at an address of the switch."""

    def __init__(self, listening):
        names = ("services", "endpoints", "nodes", "loadbalancerpools", "bgppeers")
        self.parts = parts = {name: ApiServer() for name in names}

        class Handler(_Handler):
            def do_GET(self):  # noqa: N802
                self.api = parts[self.path.partition("?")[0].rpartition("/")[2]]
                super().do_GET()

        self._front = http.server.ThreadingHTTPServer(listening.getsockname(), Handler, False)
        self._front.socket.close()
        self._front.socket = listening
        self._front.daemon_threads = True
        threading.Thread(target=self._front.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://10.1.0.254:{listening.getsockname()[1]}"

    def put(self, item):
        kinds = {"subsets": "endpoints", "spec": "services"}
        if "kind" in item:
            kind = f"{item['kind'].lower()}s"
        elif "conditions" in (item.get("status") or {}):
            kind = "nodes"
        else:
            kind = next(kinds[key] for key in kinds if key in item)
        self.parts[kind].put(item)

    def close(self):
        self._front.shutdown()
        self._front.server_close()
        for part in self.parts.values():
            part.close()


class Lan:
    """The network, the API server, and the programs that run."""

    def __init__(self, folder):
        self.folder = folder
        self._running = {}
        self.stack = contextlib.ExitStack()
        try:
            self._lay()
        except BaseException:
            self.close()
            raise

    def name(self, place):
        return f"mkl-{place}-{os.getpid()}"

    def inside(self, place, *argv, check=True, text=""):
        return run("ip", "netns", "exec", self.name(place), *argv, check=check, text=text)

    def _lay(self):
        for place in ("switch", "client", *MACHINES):
            run("ip", "netns", "add", self.name(place))
            self.stack.callback(run, "ip", "netns", "del", self.name(place), check=False)
            self.inside(place, "ip", "link", "set", "lo", "up")
        self.inside("switch", "ip", "link", "add", "br0", "type", "bridge")
        self.inside("switch", "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", check=False)
        self.inside("switch", "ip", "address", "add", "10.1.0.254/24", "dev", "br0")
        self.inside("switch", "ip", "link", "set", "br0", "up")
        for place, address in {**MACHINES, "client": "10.1.0.100"}.items():
            run("ip", "link", "add", place, "netns", self.name("switch"), "type", "veth",
                "peer", "name", "eth0", "netns", self.name(place))  # fmt: skip
            self.inside("switch", "ip", "link", "set", place, "master", "br0")
            self.inside("switch", "ip", "link", "set", place, "up")
            self.inside(place, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            self.inside(place, "ip", "link", "set", "eth0", "up")
        listening = within(self.name("switch"), lambda: socket.create_server(("10.1.0.254", 0)))
        self.api = Api(listening)
        self.stack.callback(self.api.close)
        for machine, address in MACHINES.items():
            self.inside(machine, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            self.inside(machine, "nft", "--file", "-", text=PROXY.format(address=address))
            self._spawn(f"pod-{machine}", machine, sys.executable, "-c", ANSWER, machine)
            self.api.put(node(machine, address))

    def _spawn(self, name, place, *argv):
        words = ["ip", "netns", "exec", self.name(place), *map(str, argv)]
        with (self.folder / f"{name}.log").open("ab") as log:
            # a session of its own: whoever kills it kills its children, too
            self._running[name] = subprocess.Popen(
                words, stdout=log, stderr=log, start_new_session=True
            )

    def speak(self, machine, *more):
        """Start the program of a machine."""
        paths = [str(ROOT), str(ROOT.parent / "library")]
        script = (
            f"import sys; sys.path += {paths!r}; import runpy; "
            "runpy.run_module('metalk8s_load_balancer', run_name='__main__', alter_sys=True)"
        )
        folder = self.folder / machine
        self._spawn(
            *(f"speaker-{machine}", machine, sys.executable, "-B", "-c", script, "speak"),
            *(f"--api={self.api.url}", f"--node={machine}", "--health-port=10254"),
            *("--network=10.1.0.0/24", f"--folder={folder}", "--header=made by a test", *more),
        )

    def die(self, machine):
        """Let a machine lose its power: nobody hears it any more."""
        self.inside("switch", "ip", "link", "set", machine, "down")

    def kill(self, machine):
        """Kill the program and all that it has started, without a word."""
        process = self._running.pop(f"speaker-{machine}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def end(self, machine):
        """Let the program end."""
        process = self._running.pop(f"speaker-{machine}")
        process.terminate()
        assert process.wait(20) == 0

    def addresses(self, machine):
        found = self.inside(machine, "ip", "-oneline", "-4", "address").splitlines()
        return {line.split()[3].removesuffix("/32") for line in found if "/32" in line}

    def holders(self, address):
        return [machine for machine in MACHINES if address in self.addresses(machine)]

    def ask(self, address, port=80, timeout=0.2):
        """Return who answers a client at an address; empty: nobody."""

        def connect():
            try:
                with socket.create_connection((address, port), timeout) as connection:
                    return connection.recv(64).decode()
            except OSError:
                return ""

        return within(self.name("client"), connect)

    def log(self, machine):
        return (self.folder / f"speaker-{machine}.log").read_text()

    def until_held(self, address, machine, patience=20):
        """Wait until one machine, and no other, has an address and answers at it."""

        def is_settled():
            return self.holders(address) == [machine] and self.ask(address) == machine

        try:
            until(is_settled, f"{machine} has {address}", patience)
        except AssertionError as error:
            logs = {m: self.log(m) for m in MACHINES if f"speaker-{m}" in self._running}
            raise AssertionError((address, machine, self.holders(address), logs)) from error

    def echo(self, address):
        """Tell whether a machine answers a ping."""
        # type, code, checksum, identifier, sequence
        question = struct.pack("!BBHHH", 8, 0, 0xFFFF ^ (0x0800 + 0x1234 + 1), 0x1234, 1)

        def ask():
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as icmp:
                icmp.settimeout(2)
                icmp.sendto(question, (address, 0))
                try:
                    return icmp.recvfrom(1024)[1][0] == address
                except TimeoutError:
                    return False

        return within(self.name("client"), ask)

    def silence(self, address, besides=""):
        """Return the seconds until somebody else answers."""
        began = time.monotonic()
        until(lambda: self.ask(address) not in ("", besides), "an answer", 15)
        return time.monotonic() - began

    def close(self):
        for process in self._running.values():
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        self._running.clear()
        self.stack.close()
