"""The operating system, and who runs this."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

# Releases of the operating system, by the ID of /etc/os-release, and the family they belong to.
SYSTEMS = {
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol"), ("8", "9")),
    "debian": ("12",),
}
ARCHITECTURE = "x86_64"


def user(subject: Subject) -> Iterator[Problem]:
    """Only root installs packages."""
    if subject.machine.user != 0:
        what = f"runs as user {subject.machine.user}, not as root"
        yield Problem(
            Group.PLATFORM, "bootstrap.sh", what, "Run it as root, for example with sudo."
        )


def system(subject: Subject) -> Iterator[Problem]:
    """There are packages for few systems."""
    release = subject.machine.system
    name, version = release.get("ID", ""), release.get("VERSION_ID", "")
    if version.partition(".")[0] not in SYSTEMS.get(name, ()):
        shown = release.get("PRETTY_NAME") or f"{name} {version}".strip() or "unknown"
        what = f"the operating system is {shown}"
        yield Problem(Group.PLATFORM, "/etc/os-release", what, "Install Debian 12, or EL 8 or 9.")
    if subject.machine.architecture != ARCHITECTURE:
        what = f"the processor is {subject.machine.architecture}, not {ARCHITECTURE}"
        yield Problem(Group.PLATFORM, "this machine", what, "Take another machine.")
    if not subject.machine.runs_systemd:
        what = "systemd is not what started it"
        remedy = "Boot the machine with systemd: it starts and watches the kubelet."
        yield Problem(Group.PLATFORM, "this machine", what, remedy)
