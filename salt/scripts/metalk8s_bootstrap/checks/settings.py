"""Swap, the kernel and the clock."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

DAY = 86400  # seconds
# Part of the kernel to what is there while it works.
MODULES = {
    "br_netfilter": "proc/sys/net/bridge",
    "nf_conntrack": "proc/sys/net/netfilter",
    "overlay": "sys/module/overlay",
}
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
SWITCHES = ("proc/sys/net/ipv4/ip_forward",)


def swap(subject: Subject) -> Iterator[Problem]:
    """The kubelet counts on memory that stays where it is."""
    wanted = subject.configuration.site.get("kubelet", {})
    for found in subject.machine.swaps if wanted.get("fail_swap_on", True) else ():
        remedy = f"Run `swapoff {found}` and remove it from /etc/fstab."
        yield Problem(Group.SYSTEM, "/proc/swaps", f"{found} is swapped to", remedy)


def kernel(subject: Subject) -> Iterator[Problem]:
    """The kernel can do what containers and their network need."""
    machine = subject.machine
    for module, sign in MODULES.items():
        if not machine.has_module(module, sign):
            what = f"has no module {module} ({machine.release})"
            remedy = "Boot the distribution's own kernel, with its modules installed."
            yield Problem(Group.SYSTEM, "the kernel", what, remedy)
    for switch in SWITCHES:
        if not machine.may_write(switch):
            remedy = "Mount /proc/sys so that it can be written."
            yield Problem(Group.SYSTEM, f"/{switch}", "cannot be set", remedy)
    missing = sorted(set(CONTROLLERS) - machine.cgroups)
    if missing:
        what = f"has no cgroup controllers {', '.join(missing)}"
        remedy = "Enable them on the kernel's command line (cgroup_enable=…) and reboot."
        yield Problem(Group.SYSTEM, "the kernel", what, remedy)


def clock(subject: Subject) -> Iterator[Problem]:
    """Certificates begin now; a clock that was never set makes them end before they begin."""
    if subject.machine.now < subject.medium.date - DAY:
        remedy = "Set the clock (timedatectl set-time …) and keep it set, by NTP."
        what = "shows a time before this medium was made"
        yield Problem(Group.SYSTEM, "the clock", what, remedy)
