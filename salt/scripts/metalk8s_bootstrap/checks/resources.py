"""Processors, memory and disks."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

GiB = 1 << 30
CPUS = 2
# A machine of 4 GB keeps some of it from its kernel.
MEMORY = int(3.5 * GiB)
DISK = 40 * 10**9
# Images, packages and their logs of the first hour; ISO images are on top.
FREE = 8 * GiB
ROOMY = ("/var/lib/containerd", "/var/lib/etcd")


def resources(subject: Subject) -> Iterator[Problem]:
    """Fewer processors or less memory, and the control plane starves."""
    machine = subject.machine
    if machine.cpus < CPUS:
        what = f"has {machine.cpus} processor, {CPUS} are needed"
        yield Problem(Group.RESOURCES, "this machine", what, "Give it more processors.")
    if machine.memory < MEMORY:
        what = f"has {machine.memory / GiB:.1f} GiB of memory, {MEMORY / GiB} are needed"
        yield Problem(Group.RESOURCES, "this machine", what, "Give it more memory.")
    size, _ = machine.disk("/")
    if size < DISK:
        what = f"the root file system has {size / 10**9:.0f} GB, {DISK // 10**9} are needed"
        yield Problem(Group.RESOURCES, "/", what, "Make it larger.")
    for folders in machine.file_systems(ROOMY).values() if not subject.begun else ():
        _, free = machine.disk(folders[0])
        if free < FREE:
            what = f"{free / GiB:.1f} GiB are free on its file system, {FREE / GiB:.0f} are needed"
            remedy = "Delete something, or mount a larger disk."
            yield Problem(Group.RESOURCES, ", ".join(folders), what, remedy)
