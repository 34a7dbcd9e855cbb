"""What happens to machines: a cable that nobody is at the end of, a small disk, a wrong clock.

Runs ``docker`` and ``ip``. A fault is over with its context; a disk stays.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator

from tests.testbed.machine import Machine, docker

FILLER = "filler"
# Most of it without writing anything, the rest by writing until nothing fits.
FILL = """
cd {folder}
fallocate --length=$(($(stat --file-system --format='%a * %S' .) - 64000000)) {filler}
cat /dev/zero >>{filler} 2>/dev/null || true
"""
DISK = "/var/disk.img"
# No line of fstab: to systemd, a volume of the container's is mounted there already.
UNIT = """
[Unit]
Before=containerd.service kubelet.service
[Service]
Type=oneshot
ExecStart=mount -o loop {disk} {folder}
[Install]
WantedBy=multi-user.target
"""
# Before the machine's own, on PATH: a container has the clock of its host.
DATE = """#!/bin/sh
exec /bin/date --date='{offset} seconds' "$@"
"""


@contextlib.contextmanager
def cut_off(machine: Machine) -> Iterator[None]:
    """Take a machine from its control plane: nothing comes and goes, and its link stays up."""
    index = machine.shell("cat /sys/class/net/eth0/iflink").strip()
    links = json.loads(_ip("-json", "link", "show"))
    link = next(link["ifname"] for link in links if link["ifindex"] == int(index))
    bridge = f"br-{docker('network', 'inspect', '--format={{.Id}}', machine.network)[:12]}"
    _ip("link", "set", link, "nomaster")
    try:
        yield
    finally:
        _ip("link", "set", link, "master", bridge)


def give_disk(machine: Machine, folder: str, size: str) -> None:
    """Mount a file system of its own on a folder, now and whenever the machine starts.

    :param size: as ``truncate`` has it.
    """
    machine.shell(f"truncate --size={size} {DISK}; mkfs.ext4 -q -m 0 {DISK}; mkdir -p {folder}")
    machine.write("/etc/systemd/system/disk.service", UNIT.format(disk=DISK, folder=folder))
    machine.shell("systemctl daemon-reload; systemctl enable --now --quiet disk.service")


@contextlib.contextmanager
def full(machine: Machine, folder: str) -> Iterator[None]:
    """Fill the file system of a folder to the last block."""
    machine.shell(FILL.format(folder=folder, filler=FILLER))
    try:
        yield
    finally:
        machine.shell(f"rm {folder}/{FILLER}")


@contextlib.contextmanager
def clock_off(machine: Machine, seconds: int) -> Iterator[None]:
    """Let ``date`` be wrong on a machine."""
    path = "/usr/local/bin/date"
    machine.write(path, DATE.format(offset=f"{seconds:+}"))
    machine.shell(f"chmod 755 {path}")
    try:
        yield
    finally:
        machine.shell(f"rm {path}")


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout
