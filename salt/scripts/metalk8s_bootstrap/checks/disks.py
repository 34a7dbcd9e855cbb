"""File systems: where files are written, and where programs are run from."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

WRITTEN = ("/", "/etc", "/opt", "/srv", "/usr", "/var/lib", "/var/lib/containerd", "/var/lib/etcd",
           "/var/lib/kubelet", "/var/log")  # fmt: skip
# dpkg runs the scripts of packages from there; what images bring has file systems of its own.
RUN_FROM = ("/usr", "/opt", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/kubelet")
# Images and packages are many small files.
INODES = 200_000
CROWDED = ("/", "/var/lib/containerd")


def disks(subject: Subject) -> Iterator[Problem]:
    """What an installation writes can be written, and what it runs can be run."""
    machine = subject.machine
    for what, option, paths, remedy in (
        ("is read-only", "ro", WRITTEN, "Mount it for writing, now and in /etc/fstab."),
        (
            "forbids programs (noexec)",
            "noexec",
            RUN_FROM,
            "Mount it without noexec.",
        ),
    ):
        for point, inside in machine.file_systems(paths).items():
            mount = machine.mount_of(point)
            if mount and option in mount.options:
                text = f"{what}; needed for {', '.join(inside)}"
                yield Problem(Group.SYSTEM, f"the file system at {point}", text, remedy)
    for inside in machine.file_systems(CROWDED).values() if not subject.begun else ():
        every, free = machine.inodes(inside[0])
        if every and free < INODES:
            what = f"{free} more files fit on its file system, {INODES} are needed"
            remedy = "Delete files, or make one with more inodes."
            yield Problem(Group.RESOURCES, ", ".join(inside), what, remedy)
