"""The kernel: its modules, control groups and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from metalk8s_bootstrap.machine import Machine
from metalk8s_bootstrap.modules import Modules
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

MODULES = (
    "Boot the distribution's own kernel with its modules installed (reboot after an update of it), "
    "and let modprobe load them."
)
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
# The freezer of cgroups v2, without which runc cannot stop a container.
OLDEST_WITH_V2 = (5, 2)
SWITCHES = ("proc/sys/net/ipv4/ip_forward",)
NAMESPACES = ("ipc", "mnt", "net", "pid", "uts")
# sysctl.d(5): the last of equal names wins; one name in several folders is one file.
SETTINGS = ("usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d")
LINE = re.compile(r"^\s*-?([\w./*-]+)\s*=\s*(\S+)\s*$")
# One more name of what we set.
SAME = {"net.ipv4.conf.all.forwarding": "net.ipv4.ip_forward"}


def modules(subject: Subject) -> Iterator[Problem]:
    """What the states load, and what the kernel loads when it is asked, can be had."""
    wanted = subject.medium.parameters["kernel"]
    found = Modules.of(subject.machine)
    reasons: dict[str, list[str]] = {}
    signs = {**wanted["modules"], **dict.fromkeys(wanted["modules_on_demand"], "")}
    for name, sign in signs.items():
        reason = found.why_not(name, sign)
        if reason:
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield Problem(Group.SYSTEM, "the kernel", f"module {', '.join(names)} {reason}", MODULES)


def groups(subject: Subject) -> Iterator[Problem]:
    """Control groups of either version can limit containers."""
    machine = subject.machine
    missing = sorted(set(CONTROLLERS) - machine.cgroups)
    if missing:
        version = "v2" if machine.has_cgroups_v2 else "v1"
        what = f"has no cgroup controllers {', '.join(missing)} (cgroups {version})"
        remedy = "Enable them on the kernel's command line (cgroup_enable=…) and reboot."
        yield Problem(Group.SYSTEM, "the kernel", what, remedy)
    release = tuple(map(int, re.findall(r"\d+", machine.release)[:2]))
    if machine.has_cgroups_v2 and release < OLDEST_WITH_V2:
        what = f"cgroups v2 on {machine.release}, which cannot freeze a group"
        remedy = "Boot with systemd.unified_cgroup_hierarchy=0, or a kernel from 5.2 on."
        yield Problem(Group.SYSTEM, "the kernel", what, remedy)


def sysctls(subject: Subject) -> Iterator[Problem]:
    """What we set can be set, and nothing of the machine sets it back when it boots."""
    machine = subject.machine
    for switch in SWITCHES:
        if not machine.may_write(switch):
            remedy = "Mount /proc/sys so that it can be written."
            yield Problem(Group.SYSTEM, f"/{switch}", "cannot be set", remedy)
    for kind in NAMESPACES:
        name = f"user.max_{kind}_namespaces"
        if machine.text(f"proc/sys/user/max_{kind}_namespaces").strip() == "0":
            remedy = f"Remove {name} from the settings of sysctl.d(5) and reboot."
            yield Problem(Group.SYSTEM, "the kernel", f"{name} is 0: there is no container", remedy)
    kernel = subject.medium.parameters["kernel"]
    for where, key, value in _later(machine, kernel["settings_file"], kernel["settings"]):
        what = f"sets {key} to {value} at every start, after {kernel['settings_file']}"
        yield Problem(Group.SYSTEM, where, what, "Remove the line; MetalK8s sets it.")


def _later(
    machine: Machine, ours: str, wanted: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    """Give each line that overrides one of ours: where, name, value."""
    files = {path.name: path for folder in SETTINGS for path in (machine.root / folder).glob("*")}
    # systemd's link to it comes late, procps reads it last.
    files["99-sysctl.conf"] = machine.root / "etc/sysctl.conf"
    for name in sorted(files):
        path = files[name].relative_to(machine.root)
        if not name.endswith(".conf") or name <= ours.rpartition("/")[2]:
            continue
        for number, line in enumerate(machine.text(str(path)).splitlines(), 1):
            match = LINE.match(line)
            key = match[1].replace("/", ".") if match else ""
            key = SAME.get(key, key)
            if match and key in wanted and match[2] != str(wanted[key]):
                yield f"/{path}:{number}", key, match[2]
