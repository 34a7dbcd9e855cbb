"""What is in the way of an installation."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.floor import FLOOR
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import RECORD, Subject

# The kernel knows a program by this much of its name.
COMM_LENGTH = 15
# Packages that do what ours do, or get in their way. Ours are never among them.
CONFLICTS = frozenset(
    """
    containerd containerd.io cri-o cri-tools docker docker-ce docker-ce-cli docker-engine docker.io
    etcd etcd-server k3s kubernetes-client kubernetes-cni kubernetes-node microk8s moby-containerd
    moby-engine podman-docker runc salt salt-api salt-common salt-master salt-minion salt-ssh
    """.split()  # noqa: SIM905 - a list of names reads better than 26 literals
)
# Ours have the names of everybody else's.
SAME_NAME = ("kubeadm", "kubectl", "kubelet")
PROGRAMS = tuple(
    f"usr/local/bin/{name}" for name in ("containerd", "dockerd", "etcd", "k3s", "kubelet", "rke2")
)
# A file system of its own may be there already.
FOUND = "lost+found"
# What other installers of Kubernetes leave.
TRACES = (
    "etc/cni/net.d",
    "etc/kubernetes/admin.conf",
    "etc/kubernetes/manifests",
    "etc/rancher",
    "var/lib/cni",
    "var/lib/containerd",
    "var/lib/etcd",
    "var/lib/k0s",
    "var/lib/kubelet",
)

# What a machine of ours keeps of pods when it was taken back; the floor of versions stays, too.
KEPT = ("var/lib/cni", "var/lib/kubelet")


def ports(subject: Subject) -> Iterator[Problem]:
    """Ports of ours are free, or ours already."""
    listeners = subject.machine.listeners
    for port in subject.medium.ports:
        programs = listeners.get(port.number)
        if programs is None or (subject.begun and programs <= {port.program[:COMM_LENGTH], ""}):
            continue
        by = ", ".join(sorted(programs)) or "somebody"
        yield Problem(
            Group.CONFLICT,
            f"port {port.number}",
            f"is taken by {by}, and needed for {port.what}",
            f"Stop {by}: `ss -lntp sport = :{port.number}` shows it.",
        )


def rivals(subject: Subject) -> Iterator[Problem]:
    """Nothing else does what ours do."""
    installed = subject.machine.packages()
    family = "debian" if subject.machine.exists("var/lib/dpkg/status") else "redhat"
    ours = subject.medium.versions["packages"][family]
    for found in sorted(CONFLICTS & installed.keys()):
        what = f"{found} {installed[found]} is installed; it conflicts with ours"
        yield Problem(Group.CONFLICT, "packages", what, f"Remove it: {_removal(family)} {found}")
    for found in SAME_NAME:
        wanted = ours.get(found, {})
        version = "-".join(filter(None, (wanted.get("version"), wanted.get("release"))))
        if found in installed and installed[found] != version:
            what = f"{found} {installed[found]} is installed; ours is {version or 'none'}"
            yield Problem(
                Group.CONFLICT, "packages", what, f"Remove it: {_removal(family)} {found}"
            )
    for path in PROGRAMS:
        if subject.machine.exists(path):
            what = "is a program that conflicts with ours, and of no package"
            yield Problem(Group.CONFLICT, f"/{path}", what, "Uninstall what brought it.")


def _removal(family: str) -> str:
    return "apt-get purge" if family == "debian" else "dnf remove"


def installations(subject: Subject) -> Iterator[Problem]:
    """Neither another Kubernetes nor another version of ours is here."""
    if subject.begun and subject.begun != subject.medium.version:
        what = f"MetalK8s {subject.begun} was installed here; this is {subject.medium.version}"
        remedy = "A bootstrap installs; it does not upgrade. Use the medium of that version."
        yield Problem(Group.CONFLICT, f"/{RECORD}", what, remedy)
    was_ours = subject.machine.exists(FLOOR.lstrip("/"))
    for path in TRACES if not subject.begun else ():
        folder = subject.machine.root / path
        if was_ours and path in KEPT:
            continue
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {FOUND}:
            continue
        if folder.exists():
            what = "is of another installation of Kubernetes"
            remedy = "Uninstall that (kubeadm reset, for one) or take a fresh machine."
            yield Problem(Group.CONFLICT, f"/{path}", what, remedy)
