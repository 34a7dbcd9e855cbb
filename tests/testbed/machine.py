"""A node of the test bed that becomes the first machine of a cluster, and who watches its network.

Runs ``docker``. Every node has an internal network of its own, but believes in a way out: what it
sends there is seen on the bridge, and goes no further.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

NODE = pathlib.Path(__file__).parent / "node"
# Its cgroups are not systemd's, and it shares the disk of the host.
SITE = json.loads((NODE.parent / "site.json").read_text(encoding="utf-8"))
IMAGE = "/root/metalk8s.iso"
# Where an operator has put it, to begin with.
MOUNT = "/mnt"
BOOTSTRAP = f"{MOUNT}/bootstrap.sh"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
# Salt without the master: some states stop it, and any of them can be applied in a test.
LOCAL = "/root/salt"
SALT_CALL = f"salt-call --local --config-dir={LOCAL} --log-level=critical --out=json"
# Where states look for what the cluster says of its machines.
NODES = {
    "kubeconfig": "/etc/metalk8s/salt-master/site/kubeconfig",
    "kept": "/var/lib/metalk8s/salt-master/metalk8s-nodes.json",
    "keep": False,
}
# As a site would have that has moved: nobody is there.
NAME_SERVER = "192.0.2.53"
# Of a machine with a virtual address; a word that is found wherever it goes.
PASSWORD = "xyz-zy_9"
# Kinds of Ethernet frames (if_ether.h).
ALL, IPV4 = 0x0003, 0x0800
VRRP = 112  # protocol (RFC 3768)
DNS, DNS_HEADERS = 53, 8 + 12  # port; bytes of the headers of UDP and of DNS


def docker(*words: object, text: str = "") -> str:
    """Run ``docker`` for what it prints; what it said is part of a failure."""
    argv = ["docker", *map(str, words)]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"
    return done.stdout


class Machine:
    """A node: a container, and the version of the ISO that it has.

    :ivar vip: address that its keepalived brings, empty when it has none.
    """

    vip = ""

    def __init__(self, name: str, version: str, address: str, network: str) -> None:
        self.name, self.version = name, version
        self.address, self.network = address, network

    def shell(self, script: str, text: str = "") -> str:
        """Run a script on it, for what it prints."""
        return docker("exec", "-i", self.name, "sh", "-c", script, text=text)

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program on it, whatever comes of it."""
        words = ["docker", "exec", self.name, *argv]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def write(self, path: str, text: str) -> None:
        """Write a file on it."""
        self.shell(f"mkdir -p $(dirname {path}); cat >{path}", text)

    def send(self, source: pathlib.Path, path: str) -> None:
        """Copy a file to it."""
        docker("cp", source, f"{self.name}:{path}")

    def bootstrap(self, *arguments: str, script: str = BOOTSTRAP) -> str:
        """Make it the first of a cluster; return what the operator sees."""
        done = self.call(script, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr + self.troubles()
        return done.stdout

    def forget_last_run(self) -> None:
        """Let the next bootstrap believe that the last one was stopped on its way."""
        self.shell("sed -i 2d /var/lib/metalk8s/bootstrap.version")

    def troubles(self) -> str:
        """Tell what the logs say, for whoever has to find out."""
        script = "tail -n 80 /var/log/metalk8s/bootstrap.log; journalctl --priority=err | tail -50"
        return self.call("sh", "-c", script).stdout

    def apply(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Apply states, or the highstate, without the master: ID and name of each → result."""
        words = [*SALT_CALL.split(), "state.apply", *arguments, f"saltenv=metalk8s-{self.version}"]
        done = self.call(*words)
        assert done.stdout.startswith("{"), done.stdout + done.stderr
        results = json.loads(done.stdout)["local"]
        assert isinstance(results, dict), results
        return {f"{result['__id__']} {result['name']}": result for result in results.values()}

    def kubectl(self, arguments: str, text: str = "") -> str:
        """Run ``kubectl`` on it as the administrator."""
        return self.shell(f"{KUBECTL} {arguments}", text)

    def wait(self, script: str, seconds: int = 120, statuses: Sequence[int] = (0,)) -> str:
        """Run a script until it prints something and ends with one of the statuses."""
        until = time.monotonic() + seconds
        while True:
            done = self.call("sh", "-c", script)
            if done.returncode in statuses and done.stdout.strip():
                return done.stdout
            assert time.monotonic() < until, f"{script}: {done.stdout}{done.stderr}"
            time.sleep(1)

    def restart(self) -> None:
        """Switch it off and on again."""
        docker("restart", "--time=30", self.name)
        self.wait_for_systemd()

    def wait_for_systemd(self) -> None:
        """Wait until it has started everything."""
        self.wait("systemctl is-system-running --wait | grep -E 'running|degraded'")

    def containers(self) -> str:
        """Name the containers that its engine runs."""
        return self.shell("ctr --namespace k8s.io tasks list --quiet | sort")

    def files(self) -> frozenset[str]:
        """Name what a bootstrap has put on it: mode, owner and path."""
        places = "/etc/cni /etc/containerd /etc/kubernetes /etc/metalk8s /etc/salt /etc/sysctl.d"
        more = "/etc/systemd/system /etc/apt/sources.list.d /var/lib/metalk8s/bootstrap.version"
        script = f"find {places} {more} -printf '%M %u %g %p\\n'"
        return frozenset(self.shell(script).splitlines())

    def changed_files(self) -> frozenset[str]:
        """Name the files that are others than in its image, but for /run, /tmp and its volumes."""
        return frozenset(docker("diff", self.name).splitlines())


@contextlib.contextmanager
def started(
    image: str, iso: pathlib.Path, key: pathlib.Path, version: str, *, keepalived: bool = False
) -> Iterator[tuple[Machine, Sniffer]]:
    """Start a clean machine with the ISO mounted, a key and a configuration; watch its network.

    :param keepalived: the API server has a virtual address.
    """
    volumes = (f"{iso}:{IMAGE}:ro", f"{key}:/etc/metalk8s/keys/key.gpg:ro")
    with (
        private_network() as (network, bridge),
        Sniffer(bridge) as sniffer,
        container(image, network, *volumes) as name,
    ):
        address, subnet = placed(name, network)
        machine = Machine(name, version, address, network)
        sniffer.inside = subnet
        # The engine gives its addresses from the beginning.
        machine.vip = str(subnet[-2]) if keepalived else ""
        _settle(machine, subnet)
        yield machine, sniffer


@contextlib.contextmanager
def container(
    image: str, network: str, *volumes: str, hostname: str = "bootstrap"
) -> Iterator[str]:
    """Start a node on a network; it is gone afterwards."""
    lines = (NODE / "run.args").read_text(encoding="utf-8").splitlines()
    name = docker(
        *("run", "--detach", f"--hostname={hostname}", f"--network={network}"),
        *(line for line in lines if line and not line.startswith("#")),
        *(f"--volume={volume}" for volume in volumes),
        image,
    ).strip()
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


def placed(name: str, network: str) -> tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the address of a container in a network, and the network's."""
    found = json.loads(docker("inspect", name))[0]["NetworkSettings"]["Networks"][network]
    address = str(found["IPAddress"])
    return address, ipaddress.ip_network(f"{address}/{found['IPPrefixLen']}", strict=False)


def _settle(machine: Machine, subnet: ipaddress.IPv4Network | ipaddress.IPv6Network) -> None:
    machine.wait_for_systemd()
    machine.shell(f"mount -o loop,ro {IMAGE} {MOUNT}")
    gateway = next(subnet.hosts())
    machine.shell(f"ip route replace default via {gateway}")
    machine.shell(f"echo nameserver {NAME_SERVER} >/etc/resolv.conf")
    configuration = {
        "apiVersion": "metalk8s.scality.com/v1alpha2",
        "kind": "BootstrapConfiguration",
        "networks": {"controlPlane": ["192.0.2.0/24", str(subnet)], "workloadPlane": str(subnet)},
        "ca": {"minion": "bootstrap"},
        "archives": [IMAGE],
        "site": SITE,
    }
    if machine.vip:
        keepalived = {"enabled": True, "virtualRouterId": 51, "authPassword": PASSWORD}
        configuration["apiServer"] = {"host": machine.vip, "keepalived": keepalived}
    machine.write("/etc/metalk8s/bootstrap.yaml", json.dumps(configuration, indent=1))
    machine.shell("chmod 600 /etc/metalk8s/bootstrap.yaml")
    environment, tree = f"metalk8s-{machine.version}", f"/srv/scality/metalk8s-{machine.version}"
    local = {
        "file_client": "local",
        "id": "bootstrap",
        "systemd.scope": False,
        "pillarenv_from_saltenv": True,
        "file_roots": {environment: [f"{tree}/salt"]},
        "pillar_roots": {environment: [f"{tree}/pillar"]},
        "module_dirs": [f"{tree}/salt"],
        "ext_pillar_first": True,
        "ext_pillar": [{"metalk8s_nodes": NODES}],
    }
    machine.write(f"{LOCAL}/minion", json.dumps(local))


@contextlib.contextmanager
def private_network(plane: str = "") -> Iterator[tuple[str, str]]:
    """Make a network without a way out; give its name and that of its bridge.

    :param plane: a word for its name, when a machine is in several. The engine numbers interfaces
        by the names of networks, and those with such a word are the last.
    """
    name = f"metalk8s-test-{plane}{os.getpid()}-{time.monotonic_ns() % 10**9}"
    bridge = f"br-{docker('network', 'create', '--internal', name).strip()[:12]}"
    try:
        yield name, bridge
    finally:
        docker("network", "rm", name)


@dataclasses.dataclass(frozen=True)
class Packet:
    """An IPv4 packet on the bridge.

    :param port: destination port, 0 for protocols without.
    :param question: name that DNS is asked for.
    """

    source: str
    destination: str
    protocol: int
    port: int
    question: str = ""

    @property
    def is_multicast(self) -> bool:
        """Tell whether it is for a group."""
        return ipaddress.ip_address(self.destination).is_multicast

    @property
    def is_vrrp(self) -> bool:
        """Tell whether it is about a virtual address."""
        return self.protocol == VRRP


class Sniffer:
    """Sees every IPv4 packet on a bridge, and keeps those that are for somebody outside."""

    inside: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None

    def __init__(self, bridge: str) -> None:
        self.packets: list[Packet] = []
        # Bound to nothing, it would see everything.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self._socket.bind((bridge, ALL))
        self._socket.settimeout(0.2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _watch(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                data, (_, kind, *_) = self._socket.recvfrom(1 << 16)
                if kind == IPV4:
                    self.packets.append(parse(data))

    def outside(self) -> set[Packet]:
        """Give what was for somebody outside; a whole network listens to multicast."""
        assert self.inside is not None
        return {
            packet
            for packet in self.packets
            if ipaddress.ip_address(packet.destination) not in self.inside
            and not packet.is_multicast
        }


def parse(data: bytes) -> Packet:
    """Read the header of an IPv4 packet (RFC 791), a port of UDP or TCP, a question of DNS."""
    length, protocol = (data[0] & 15) * 4, data[9]
    port = 0
    if protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP) and len(data) >= length + 4:
        (port,) = struct.unpack_from("!H", data, length + 2)
    source, destination = (socket.inet_ntoa(data[i : i + 4]) for i in (12, 16))
    asks = protocol == socket.IPPROTO_UDP and port == DNS
    question = _question(data[length + DNS_HEADERS :]) if asks else ""
    return Packet(source, destination, protocol, port, question)


def _question(data: bytes) -> str:
    """Read the first name of a question (RFC 1035, section 4.1.2)."""
    labels, start = [], 0
    while start < len(data) and (length := data[start]):
        labels.append(data[start + 1 : start + 1 + length].decode("latin-1"))
        start += 1 + length
    return ".".join(labels)


@dataclasses.dataclass(frozen=True)
class Bootstrapped:
    """A machine that bootstrap.sh has been run on once.

    :param output: what the operator saw.
    :param files: what was on it afterwards.
    """

    machine: Machine
    sniffer: Sniffer
    output: str
    files: frozenset[str]


def failed(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Keep what failed, and why."""
    return {name: result["comment"] for name, result in results.items() if not result["result"]}


def changed(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Keep what changed."""
    return {name: result["changes"] for name, result in results.items() if result["changes"]}


def changes(output: str) -> list[int]:
    """Say how many states each step of a bootstrap that applies states has changed."""
    return [int(found) for found in re.findall(r"\d+ states, (\d+) changed", output)]
