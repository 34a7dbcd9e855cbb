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

NOT_THERE = 127  # status of a program that there is not, as shells have it
LISTENING = "0A"  # state of a socket in /proc/net/tcp
# Of the neighbours of a machine: the kernel's table, and the flag of one that has answered.
NEIGHBOURS, COMPLETE = Path("/proc/net/arp"), 2
PATIENCE = 1.0  # seconds that a neighbour has to answer in
DISCARD = 9  # a port that nobody has to listen on
RPM = ("rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n")
# cgroup v1 tells the controllers of the kernel, v2 those of the hierarchy.
CGROUPS_V1, CGROUPS_V2 = "proc/cgroups", "sys/fs/cgroup/cgroup.controllers"


# Nothing of the caller's: neither proxies nor a locale that is not installed.
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def _call(argv: Sequence[str]) -> tuple[int, str]:
    """Run a program; return its status (127: not there) and all that it printed."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            env=ENVIRONMENT,
        )
    except OSError:
        return NOT_THERE, ""
    return done.returncode, done.stdout


def _run(argv: Sequence[str]) -> str:
    status, printed = _call(argv)
    return printed if status != NOT_THERE else ""


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
    options: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Machine:
    """A machine, by the files below ``root`` and what the kernel tells the process.

    :param now: seconds since 1970, by the machine's clock.
    :param run: runs a program for its output; empty when it is not there.
    :param call: runs a program for its status and its output.
    :param neighbour: tells who on the machine's networks has an address; empty when nobody has.
    """

    root: Path
    user: int
    architecture: str
    release: str
    cpus: int
    now: float
    run: Callable[[Sequence[str]], str] = _run
    call: Callable[[Sequence[str]], tuple[int, str]] = _call
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
        usage = shutil.disk_usage(self._existing(path))
        return usage.total, usage.free

    def inodes(self, path: str) -> tuple[int, int]:
        """Return how many files such a file system can have, and how many more; 0: any number."""
        found = os.statvfs(self._existing(path))
        return found.f_files, found.f_ffree

    def _existing(self, path: str) -> Path:
        place = self.root / path.lstrip("/")
        while not place.exists():
            place = place.parent
        return place

    @property
    def swaps(self) -> list[str]:
        """Devices and files that memory is swapped to."""
        return [line.split()[0] for line in self.text("proc/swaps").splitlines()[1:] if line]

    @property
    def cgroups(self) -> set[str]:
        """Controllers that can limit containers."""
        if self.has_cgroups_v2:
            return set(self.text(CGROUPS_V2).split())
        rows = (line.split() for line in self.text(CGROUPS_V1).splitlines() if line[0] != "#")
        return {row[0] for row in rows if row[3] == "1"}

    @property
    def has_cgroups_v2(self) -> bool:
        """Whether all controllers are in one hierarchy."""
        return self.exists(CGROUPS_V2)

    @property
    def mounts(self) -> list[Mount]:
        """Everything that is mounted, the later over the earlier."""
        found = []
        for line in self.text("proc/self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            kind, source = right.split()[:2]
            point, options = left.split()[4:6]
            everywhere = set(right.split()[2].split(",")) & {"ro"}
            told = frozenset({*options.split(","), *everywhere})
            found.append(Mount(_unescape(point), kind, _unescape(source), told))
        return found

    def file_systems(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return paths by the file system that they are on: by where that is mounted."""
        found: dict[str, list[str]] = {}
        for path in paths:
            mount = self.mount_of(path)
            found.setdefault(mount.point if mount else "/", []).append(path)
        return found

    def mount_of(self, path: str) -> Mount | None:
        """Return what the file system of a path is mounted as."""
        found = None
        for mount in self.mounts:
            inside = f"{path.rstrip('/')}/".startswith(f"{mount.point.rstrip('/')}/")
            if inside and (found is None or len(mount.point) >= len(found.point)):
                found = mount
        return found

    # -- its packages ---------------------------------------------------------------------------
    @property
    def family(self) -> str:
        """``debian`` or ``redhat``: whose packages it has."""
        return "debian" if self.exists("var/lib/dpkg/status") else "redhat"

    def packages(self) -> dict[str, str]:
        """Return the version of every installed package."""
        if self.family == "redhat":
            pairs = (line.split() for line in self.run(RPM).splitlines())
            return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
        return {
            fields["Package"]: fields["Version"]
            for fields in self.dpkg()
            if fields.get("Status", "").endswith(" installed")
        }

    def dpkg(self) -> list[dict[str, str]]:
        """Return what dpkg knows of packages: fields by their names."""
        found = []
        for paragraph in self.text("var/lib/dpkg/status").split("\n\n"):
            lines = (line.partition(": ") for line in paragraph.splitlines() if line[:1] != " ")
            fields = {name: value for name, _, value in lines}
            if "Package" in fields:
                found.append(fields)
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
