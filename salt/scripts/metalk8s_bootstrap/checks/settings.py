"""How the machine is set up: swap, clock, resolver, proxies, identity."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

DAY = 86400  # seconds
YEARS = 10 * 365 * DAY  # that a medium is used after it was made
HARDWARE_CLOCK = "sys/class/rtc/rtc0/since_epoch"
# What systemd-resolved answers on, and where it says whom it asks itself.
STUB, RESOLVED = "127.0.0.53", "run/systemd/resolve/resolv.conf"
# Of services, whoever starts them.
MANAGERS = ("etc/systemd/system.conf", "etc/systemd/system.conf.d", "run/systemd/system.conf.d")
PROXIES = re.compile(r"(?im)^\s*DefaultEnvironment\s*=.*\b(https?|all)_proxy=")


def swap(subject: Subject) -> Iterator[Problem]:
    """The kubelet counts on memory that stays where it is."""
    wanted = subject.configuration.site.get("kubelet", {})
    if not wanted.get("fail_swap_on", True):
        return
    for found in subject.machine.swaps:
        remedy = f"Run `swapoff {found}` and remove it from /etc/fstab."
        yield Problem(Group.SYSTEM, "/proc/swaps", f"{found} is swapped to", remedy)
    for number, line in enumerate(subject.machine.text("etc/fstab").splitlines(), 1):
        words = line.partition("#")[0].split()
        is_late = len(words) > 3 and "noauto" in words[3].split(",")
        if words[2:3] == ["swap"] and not is_late and not subject.machine.swaps:
            what = f"{words[0]} is swapped to at the next start"
            yield Problem(Group.SYSTEM, f"/etc/fstab:{number}", what, "Remove the line.")


def clock(subject: Subject) -> Iterator[Problem]:
    """Certificates begin now; a clock that was never set makes them end before they begin."""
    now, made = subject.machine.now, subject.medium.date
    remedy = "Set the clock (timedatectl set-time …) and keep it set, by NTP."
    if now < made - DAY:
        what = "shows a time before this medium was made"
        yield Problem(Group.SYSTEM, "the clock", what, remedy)
        return
    if now > made + YEARS:
        what = "shows a time ten years after this medium was made"
        yield Problem(Group.SYSTEM, "the clock", what, remedy)
        return
    hardware = subject.machine.text(HARDWARE_CLOCK).strip()
    if hardware.isdigit() and abs(now - int(hardware)) > DAY:
        apart = abs(now - int(hardware)) / DAY
        what = f"is {apart:.0f} days from the system's, which it sets at the next start"
        remedy = "Run `hwclock --systohc` when the system's is right."
        yield Problem(Group.SYSTEM, "the hardware clock", what, remedy)


def resolver(subject: Subject) -> Iterator[Problem]:
    """The kubelet gives a resolver's configuration to pods, and none that leads to themselves."""
    machine, where = subject.machine, "/etc/resolv.conf"
    if not machine.exists(where):
        remedy = "Write one; an empty file will do on a machine without a resolver."
        yield Problem(Group.SYSTEM, where, "is not there, or is a link to nothing", remedy)
        return
    servers = [
        line.split()[1]
        for line in machine.text(where).splitlines()
        if len(line.split()) > 1 and line.split()[0] == "nameserver"
    ]
    if servers == [STUB] and not machine.exists(RESOLVED):
        what = f"names systemd-resolved ({STUB}), which is not running"
        remedy = "Start systemd-resolved, or name a resolver that pods can reach."
        yield Problem(Group.SYSTEM, where, what, remedy)


def proxies(subject: Subject) -> Iterator[Problem]:
    """Services reach each other without a detour; a caller's own proxies are not handed on."""
    machine = subject.machine
    for place in MANAGERS:
        path = machine.root / place
        for file in sorted(path.glob("*.conf")) if path.is_dir() else [path]:
            name = str(file.relative_to(machine.root))
            if PROXIES.search(machine.text(name)):
                what = "sends all services to a proxy (DefaultEnvironment)"
                remedy = "Set it for the services that need it: ours talk to this machine."
                yield Problem(Group.SYSTEM, f"/{name}", what, remedy)


def identity(subject: Subject) -> Iterator[Problem]:
    """A machine is told from others, and from what it was, by its id."""
    found = subject.machine.text("etc/machine-id").strip()
    if not re.fullmatch("[0-9a-f]{32}", found):
        what = f"says {found or 'nothing'}, which is no id"
        remedy = "Run `systemd-machine-id-setup` and reboot."
        yield Problem(Group.SYSTEM, "/etc/machine-id", what, remedy)


def selinux(subject: Subject) -> Iterator[Problem]:
    """Where SELinux forbids something, there is a policy for containers."""
    machine = subject.machine
    if machine.text("sys/fs/selinux/enforce").strip() != "1":
        return
    if machine.family == "debian":
        what = "forbids, by a policy that Debian does not have for containers"
        remedy = "Set SELINUX=permissive in /etc/selinux/config, run `setenforce 0`."
        yield Problem(Group.SYSTEM, "SELinux", what, remedy)
    elif "container-selinux" not in machine.packages():
        what = "forbids, and its policy for containers is not installed"
        remedy = "Install the package container-selinux of the operating system."
        yield Problem(Group.SYSTEM, "SELinux", what, remedy)
