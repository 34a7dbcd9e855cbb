"""The process of a virtual machine: its command line, and which accelerator works here.

Runs ``qemu-system-x86_64``.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

PROGRAM = "qemu-system-x86_64"
FLAGS, DEVICE = pathlib.Path("/proc/cpuinfo"), pathlib.Path("/dev/kvm")
# The plainest processor: programs that find AVX2 or carry-less multiplication use them, and
# emulated these cost more than they save (SHA-256 by Go takes 7 times as long, JSON by Python 1.7).
EMULATED = ("-accel", "tcg,thread=multi", "-cpu", "qemu64")
HARDWARE = ("-accel", "kvm", "-cpu", "host")
# Hardware that works has a kernel print its first line at once; emulated ones print within 3 s.
PATIENCE = 10  # seconds


@dataclass(frozen=True)
class Cable:
    """A second network card, at one end of a cable to another machine.

    Frames are datagrams on loopback: either machine may be switched off and on again.

    :param port: of UDP, of this end.
    :param peer: of UDP, of the other end.
    """

    mac: str
    port: int
    peer: int


@dataclass(frozen=True)
class Hardware:
    """What a machine is made of.

    :param stick: an image that is plugged in, read-only, as ``/dev/vdb``; ``None`` for none.
    :param memory: MiB.
    :param port: on loopback of the host, leads to the machine's SSH.
    :param capture: file that gets every packet of its network card (pcap).
    :param console: file that gets what it prints; a socket beside it (``.socket``) is the keyboard.
    :param cable: to another machine, ``None`` for none.
    """

    disk: pathlib.Path
    kernel: pathlib.Path
    initrd: pathlib.Path
    stick: pathlib.Path | None
    memory: int
    processors: int
    port: int
    capture: pathlib.Path
    console: pathlib.Path
    cable: Cable | None = None

    @property
    def keyboard(self) -> pathlib.Path:
        return self.console.with_suffix(".socket")


def argv(hardware: Hardware, accelerator: Sequence[str]) -> list[str]:
    """Start a machine whose network has no way out; it answers at a port of loopback only.

    The disk keeps what the guest wrote when the process ends: what is lost in a power cut is what
    the guest had not written yet.
    """
    stick = f"file={hardware.stick},if=virtio,format=raw,readonly=on"
    network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{hardware.port}-:22"
    console = f"path={hardware.keyboard},server=on,wait=off,logfile={hardware.console}"
    return [
        PROGRAM,
        *("-nodefaults", "-no-user-config", "-display", "none", *accelerator),
        *("-smp", str(hardware.processors), "-m", str(hardware.memory)),
        *("-kernel", str(hardware.kernel), "-initrd", str(hardware.initrd)),
        *("-append", "root=/dev/vda rw console=ttyS0 mitigations=off quiet"),
        *("-drive", f"file={hardware.disk},if=virtio,format=raw,cache=unsafe,discard=unmap"),
        *(("-drive", stick) if hardware.stick else ()),
        *("-netdev", network, "-device", "virtio-net-pci,netdev=net"),
        *(_plugged(hardware.cable) if hardware.cable else ()),
        *("-object", f"filter-dump,id=dump,netdev=net,file={hardware.capture}"),
        *("-device", "virtio-rng-pci"),
        *("-chardev", f"socket,id=console,{console}", "-serial", "chardev:console"),
    ]


def _plugged(cable: Cable) -> tuple[str, ...]:
    ends = {"local": cable.port, "remote": cable.peer}
    places = (f"{end}.type=inet,{end}.host=127.0.0.1,{end}.port={n}" for end, n in ends.items())
    network = ",".join(("dgram,id=cable", *places))
    return ("-netdev", network, "-device", f"virtio-net-pci,netdev=cable,mac={cable.mac}")


def accelerator(kernel: pathlib.Path) -> tuple[str, ...]:
    """Return the arguments for hardware that runs guests, else those for emulation.

    A processor may lend its virtualisation to this machine and then not run a guest: only a kernel
    that prints something shows that it does.
    """
    flags = FLAGS.read_text(encoding="ascii")
    if not re.search(r"\b(vmx|svm)\b", flags) or not DEVICE.exists():
        return EMULATED
    return HARDWARE if _boots(kernel) else EMULATED


def _boots(kernel: pathlib.Path) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "console"
        words = [PROGRAM, "-nodefaults", "-display", "none", *HARDWARE, "-m", "512"]
        words += ["-kernel", str(kernel), "-append", "console=ttyS0", "-serial", f"file:{log}"]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as probe:
            until = time.monotonic() + PATIENCE
            try:
                while time.monotonic() < until and probe.poll() is None:
                    if log.is_file() and b"Linux version" in log.read_bytes():
                        return True
                    time.sleep(0.1)
            finally:
                probe.kill()
    return False
