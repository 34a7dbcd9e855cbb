"""What a machine is like, by the files of its kernel and its packages; changes nothing."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LISTENING = "0A"  # state of a socket in /proc/net/tcp
# Of the neighbours of a machine: the kernel's table, and the flag of one that has answered.
NEIGHBOURS, COMPLETE = Path("/proc/net/arp"), 2
PATIENCE = 1.0  # seconds that a neighbour has to answer in
DISCARD = 9  # a port that nobody has to listen on
RPM = ("rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n")
# cgroup v1 tells the controllers of the kernel, v2 those of the hierarchy.
CGROUPS_V1, CGROUPS_V2 = "proc/cgroups", "sys/fs/cgroup/cgroup.controllers"


def _run(argv: Sequence[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def _neighbour(address: ipaddress.IPv4Address) -> str:
    """Make the kernel ask for an address, by sending there; return the hardware that has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        try:
            datagrams.sendto(b"", (str(address), DISCARD))
        except OSError:
            return ""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for line in NEIGHBOURS.read_text(encoding="ascii").splitlines()[1:]:
            found, _, flags, hardware, *_ = line.split()
            if found == str(address) and int(flags, 16) & COMPLETE:
                return hardware
        time.sleep(PATIENCE / 20)
    return ""


@dataclass(frozen=True)
class Route:
    """A line of the routing table (IPv4); no gateway: the network is on the interface itself."""

    interface: str
    network: ipaddress.IPv4Network
    gateway: ipaddress.IPv4Address | None


@dataclass(frozen=True)
class Mount:
    """What is mounted somewhere."""

    point: str
    kind: str
    source: str


@dataclass(frozen=True)
class Machine:
    """A machine, by the files below ``root`` and what the kernel tells the process.

    :param now: seconds since 1970, by the machine's clock.
    :param run: runs a program for its output; empty when it is not there.
    :param neighbour: tells who on the machine's networks has an address; empty when nobody has.
    """

    root: Path
    user: int
    architecture: str
    release: str
    cpus: int
    now: float
    run: Callable[[Sequence[str]], str] = _run
    resolves: Callable[[str], bool] = _resolves
    neighbour: Callable[[ipaddress.IPv4Address], str] = _neighbour

    @classmethod
    def here(cls) -> Machine:
        """Return the machine that this runs on."""
        system = os.uname()
        cpus = len(os.sched_getaffinity(0))
        return cls(Path("/"), os.geteuid(), system.machine, system.release, cpus, time.time())

    def text(self, path: str) -> str:
        """Return what a file says; empty when it is not there."""
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder of that name."""
        return (self.root / path.lstrip("/")).exists()

    def may_write(self, path: str) -> bool:
        """Tell whether a file can be written, read-only file systems considered."""
        return os.access(self.root / path.lstrip("/"), os.W_OK)

    # -- the system -----------------------------------------------------------------------------
    @property
    def system(self) -> dict[str, str]:
        """``/etc/os-release``."""
        pairs = (line.partition("=") for line in self.text("etc/os-release").splitlines())
        return {name: value.strip("\"'") for name, _, value in pairs if value}

    @property
    def name(self) -> str:
        """Host name."""
        return self.text("proc/sys/kernel/hostname").strip()

    @property
    def runs_systemd(self) -> bool:
        return self.exists("run/systemd/system")

    @property
    def memory(self) -> int:
        """Bytes of RAM that the kernel has."""
        for line in self.text("proc/meminfo").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
        return 0

    def disk(self, path: str) -> tuple[int, int]:
        """Return size and free space, in bytes, of the file system that a path is or will be on."""
        place = self.root / path.lstrip("/")
        while not place.exists():
            place = place.parent
        usage = shutil.disk_usage(place)
        return usage.total, usage.free

    @property
    def swaps(self) -> list[str]:
        """Devices and files that memory is swapped to."""
        return [line.split()[0] for line in self.text("proc/swaps").splitlines()[1:] if line]

    @property
    def cgroups(self) -> set[str]:
        """Controllers that can limit containers."""
        rows = (line.split() for line in self.text(CGROUPS_V1).splitlines() if line[0] != "#")
        return {row[0] for row in rows if row[3] == "1"} | set(self.text(CGROUPS_V2).split())

    @property
    def mounts(self) -> list[Mount]:
        """Everything that is mounted, the later over the earlier."""
        found = []
        for line in self.text("proc/self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            kind, source = right.split()[:2]
            found.append(Mount(_unescape(left.split()[4]), kind, _unescape(source)))
        return found

    # -- its packages ---------------------------------------------------------------------------
    def packages(self) -> dict[str, str]:
        """Return the version of every installed package."""
        if not self.exists("var/lib/dpkg/status"):
            pairs = (line.split() for line in self.run(RPM).splitlines())
            return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        found = {}
        for paragraph in self.text("var/lib/dpkg/status").split("\n\n"):
            lines = (line.partition(": ") for line in paragraph.splitlines() if line[:1] != " ")
            fields = {name: value for name, _, value in lines}
            if fields.get("Status", "").endswith(" installed"):
                found[fields["Package"]] = fields["Version"]
        return found

    # -- its network ----------------------------------------------------------------------------
    @property
    def addresses(self) -> dict[ipaddress.IPv4Address, str]:
        """Own IPv4 addresses, without loopback's, and the interface each is on ("": unknown)."""
        found: dict[ipaddress.IPv4Address, str] = {}
        above = ""
        for line in self.text("proc/net/fib_trie").splitlines():
            words = line.split()
            if words[:1] in (["|--"], ["+--"]):
                above = words[1]
            elif words == ["/32", "host", "LOCAL"]:
                address = ipaddress.IPv4Address(above)
                if not address.is_loopback:
                    found[address] = self._interface(address)
        return found

    def _interface(self, address: ipaddress.IPv4Address) -> str:
        for route in self.routes_to(address):
            if route.gateway is None:
                return route.interface
        return ""

    @property
    def routes(self) -> list[Route]:
        """The routing table."""
        found = []
        for line in self.text("proc/net/route").splitlines()[1:]:
            words = line.split()
            target, gateway, mask = (_hexadecimal(words[i]) for i in (1, 2, 7))
            network = ipaddress.IPv4Network(f"{target}/{mask}", strict=False)
            found.append(Route(words[0], network, gateway if int(gateway) else None))
        return found

    def routes_to(self, address: ipaddress.IPv4Address) -> list[Route]:
        """Return the routes that lead to an address, the one that is taken first."""
        matching = [route for route in self.routes if address in route.network]
        return sorted(matching, key=lambda route: -route.network.prefixlen)

    @property
    def listeners(self) -> dict[int, set[str]]:
        """TCP ports that something listens on, with the names of the programs."""
        inodes: dict[str, int] = {}
        for table in ("proc/net/tcp", "proc/net/tcp6"):
            for line in self.text(table).splitlines()[1:]:
                words = line.split()
                if words[3] == LISTENING:
                    inodes[words[9]] = int(words[1].rpartition(":")[2], 16)
        found: dict[int, set[str]] = {port: set() for port in inodes.values()}
        for program, inode in self._sockets() if inodes else ():
            if inode in inodes:
                found[inodes[inode]].add(program)
        return found

    def _sockets(self) -> Iterator[tuple[str, str]]:
        """Give the program and the inode of every socket that a process holds."""
        for process in (self.root / "proc").glob("[0-9]*"):
            program = self.text(f"proc/{process.name}/comm").strip()
            # It may be gone by now.
            with contextlib.suppress(OSError):
                for link in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        target = str(link.readlink())
                        if target.startswith("socket:["):
                            yield program, target[8:-1]


def _hexadecimal(word: str) -> ipaddress.IPv4Address:
    # In the order of the machine's bytes, which is little-endian wherever we run.
    return ipaddress.IPv4Address(bytes.fromhex(word)[::-1])


def _unescape(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path
