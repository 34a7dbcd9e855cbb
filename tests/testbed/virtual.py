"""A virtual machine with a kernel of its own that becomes the first machine of a cluster.

Runs ``qemu-system-x86_64``, ``ssh``, ``scp`` and ``e2fsck``. Its network has no way out, and every
packet is kept. Nothing on it is made ready for us: see ``vm/``.
"""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping

from tests.testbed import qemu
from tests.testbed.disk import Disk
from tests.testbed.machine import IMAGE, Machine, Packet, parse

ADDRESS, SUBNET = "10.0.2.15", "10.0.2.0/24"  # of qemu's own network
STICK = "/dev/vdb"
MEMORY, PROCESSORS = 4096, 2
BOOT_PATIENCE = 240  # seconds; 25 on two idle cores under emulation
# How long an ordinary command may take: processor-bound work is up to ten times slower.
COMMAND_PATIENCE = 3600
PCAP_HEADER, RECORD_HEADER = 24, 16  # bytes (pcap-savefile(5))
ETHERNET_HEADER, ETHERTYPE_IPV4 = 14, b"\x08\x00"


class VirtualMachine(Machine):
    """A machine in a process of its own.

    :param folder: for its disk, console and sockets; its path must be short.
    :param stick: image that is plugged in.
    :param port: where one that runs already is reached.
    :param address: where it is reached by others; one on its cable is the test's to give.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        disk: Disk,
        version: str,
        stick: pathlib.Path | None = None,
        port: int = 0,
        *,
        cable: qemu.Cable | None = None,
        address: str = ADDRESS,
    ) -> None:
        super().__init__("bootstrap", version, address, "")
        self.folder, self.template = folder, disk
        self.hardware = qemu.Hardware(
            disk=folder / "disk.ext4",
            kernel=disk.kernel,
            initrd=disk.initrd,
            stick=stick,
            memory=MEMORY,
            processors=PROCESSORS,
            port=port or _free_port(),
            capture=folder / "network.pcap",
            console=folder / "console.log",
            cable=cable,
        )
        self._process: subprocess.Popen[bytes] | None = None

    # -- power ------------------------------------------------------------------------------------
    def insert_disk(self) -> None:
        """Give it a new disk."""
        copy = ["cp", "--sparse=always", "--reflink=auto", self.template.image, self.hardware.disk]
        subprocess.run(copy, check=True)

    def switch_on(self) -> None:
        """Start it, and wait until it lets us in."""
        words = qemu.argv(self.hardware, qemu.accelerator(self.template.kernel))
        with (self.folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self.folder / "pid").write_text(f"{self._process.pid}\n", encoding="ascii")
        self.wait_for_systemd()

    def cut_power(self) -> None:
        """Kill it: what it had not written to its disk is lost."""
        assert self._process
        self._disconnect()
        self._process.kill()
        self._process.wait()

    def check_disk(self) -> str:
        """Let the file system replay its journal and check it; return what was found."""
        argv = ["e2fsck", "-f", "-p", str(self.hardware.disk)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        # 1: it was corrected, as a machine does when it boots.
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    def restart(self) -> None:
        """Let it reboot itself."""
        before = self.boot()
        self.call("systemctl", "reboot")
        self._disconnect()
        until = time.monotonic() + BOOT_PATIENCE
        while self.boot(patience=10) in ("", before):
            assert time.monotonic() < until, f"it does not come back\n{self.printed()}"
            time.sleep(1)
        self.wait_for_systemd()

    def boot(self, patience: float = 60) -> str:
        """Name this start of it; empty when it does not answer."""
        try:
            done = self._ssh("cat /proc/sys/kernel/random/boot_id", timeout=patience)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def wait_for_systemd(self) -> None:
        """Wait until it lets us in and has started everything."""
        until = time.monotonic() + BOOT_PATIENCE
        while not self.boot(patience=15):
            ended = self._process and self._process.poll() is not None
            assert not ended, (self.folder / "qemu.log").read_text(encoding="utf-8")
            assert time.monotonic() < until, f"it does not let us in\n{self.printed()}"
            time.sleep(0.5)
        self.wait("systemctl is-system-running --wait", BOOT_PATIENCE, statuses=(0, 1))

    def printed(self) -> str:
        """Return the end of what it printed on its console."""
        return self.hardware.console.read_text(encoding="utf-8", errors="replace")[-4000:]

    # -- a shell on it ----------------------------------------------------------------------------
    def ssh_options(self) -> list[str]:
        """Return how it is reached; one connection serves all commands."""
        options = {
            "ControlMaster": "auto",
            "ControlPath": str(self.folder / "ssh"),
            "ControlPersist": "yes",
            "ConnectTimeout": "10",
            "HostKeyAlias": "machine",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(self.template.key),
            "LogLevel": "ERROR",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.template.known_hosts),
        }
        return ["-F", "none", *(f"-o{name}={value}" for name, value in options.items())]

    def ssh_command(self) -> list[str]:
        """Return the command that opens a shell on it."""
        return ["ssh", *self.ssh_options(), "-p", str(self.hardware.port), "root@127.0.0.1"]

    def _ssh(
        self, script: str, text: str = "", timeout: float = COMMAND_PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        argv = [*self.ssh_command(), script]
        return subprocess.run(
            argv, input=text, capture_output=True, text=True, check=False, timeout=timeout
        )

    def _disconnect(self) -> None:
        argv = ["ssh", *self.ssh_options(), "-O", "exit", "root@127.0.0.1"]
        subprocess.run(argv, capture_output=True, check=False)

    def shell(self, script: str, text: str = "") -> str:
        """Run a script on it, for what it prints."""
        done = self._ssh(script, text)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program on it, whatever comes of it."""
        return self._ssh(shlex.join(argv))

    def send(self, source: pathlib.Path, path: str) -> None:
        """Copy a file to it."""
        port = ["-P", str(self.hardware.port)]
        argv = ["scp", "-q", *self.ssh_options(), *port, str(source), f"root@127.0.0.1:{path}"]
        subprocess.run(argv, check=True)

    def configuration(self) -> dict[str, object]:
        """Return what an operator writes into ``bootstrap.yaml``."""
        return {
            "apiVersion": "metalk8s.scality.com/v1alpha2",
            "kind": "BootstrapConfiguration",
            "networks": {"controlPlane": SUBNET, "workloadPlane": SUBNET},
            "ca": {"minion": "bootstrap"},
            "archives": [IMAGE],
        }

    def tree(self, *skipped: str) -> Mapping[str, str]:
        """List everything on its disk, but for folders that are skipped: path to kind, mode, owner.

        :param skipped: patterns of ``find -path``.
        """
        prune = " -o ".join(f"-path {shlex.quote(pattern)}" for pattern in skipped)
        script = f"find / -xdev \\( {prune} \\) -prune -o -printf '%p\\t%M %u:%g\\n'"
        lines = self.shell(script).splitlines()
        return dict(line.split("\t") for line in lines)

    # -- its network ------------------------------------------------------------------------------
    def packets(self) -> list[Packet]:
        """Return every IPv4 packet that its network card has sent or received."""
        data = self.hardware.capture.read_bytes()
        found, place = [], PCAP_HEADER
        while place + RECORD_HEADER <= len(data):
            length = int.from_bytes(data[place + 8 : place + 12], "little")
            frame = data[place + RECORD_HEADER : place + RECORD_HEADER + length]
            place += RECORD_HEADER + length
            if frame[12:14] == ETHERTYPE_IPV4 and len(frame) == length:
                found.append(parse(frame[ETHERNET_HEADER:]))
        return found


@contextlib.contextmanager
def started(
    disk: Disk,
    version: str,
    stick: pathlib.Path | None = None,
    *,
    cable: qemu.Cable | None = None,
    address: str = ADDRESS,
) -> Iterator[VirtualMachine]:
    """Start a machine with a new disk; it is gone afterwards."""
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="vm-") as folder:
        place = pathlib.Path(folder)
        machine = VirtualMachine(place, disk, version, stick, cable=cable, address=address)
        machine.insert_disk()
        try:
            machine.switch_on()
            yield machine
        finally:
            machine.cut_power()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
