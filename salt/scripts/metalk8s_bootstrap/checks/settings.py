"""Swap, the kernel and the clock."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.modules import Modules
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

DAY = 86400  # seconds
MODULES = (
    "Boot the distribution's own kernel with its modules installed (reboot after an update of it), "
    "and let modprobe load them."
)
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
SWITCHES = ("proc/sys/net/ipv4/ip_forward",)


def swap(subject: Subject) -> Iterator[Problem]:
    """The kubelet counts on memory that stays where it is."""
    wanted = subject.configuration.site.get("kubelet", {})
    for found in subject.machine.swaps if wanted.get("fail_swap_on", True) else ():
        remedy = f"Run `swapoff {found}` and remove it from /etc/fstab."
        yield Problem(Group.SYSTEM, "/proc/swaps", f"{found} is swapped to", remedy)


def modules(subject: Subject) -> Iterator[Problem]:
    """What the states load, and what the kernel loads when it is asked, can be had."""
    wanted = subject.medium.parameters["kernel"]
    found = Modules.of(subject.machine)
    reasons: dict[str, list[str]] = {}
    for name, sign in {
        **wanted["modules"],
        **dict.fromkeys(wanted["modules_on_demand"], ""),
    }.items():
        reason = found.why_not(name, sign)
        if reason:
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield Problem(Group.SYSTEM, "the kernel", f"module {', '.join(names)} {reason}", MODULES)


def kernel(subject: Subject) -> Iterator[Problem]:
    """The kernel can do what containers and their network need."""
    machine = subject.machine
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
