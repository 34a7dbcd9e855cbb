"""What a machine and its configuration have to be like before anything is changed.

Each check gives every problem it finds. docs/reference/bootstrap.md lists them for operators.
"""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.archives import archives
from metalk8s_bootstrap.configuration import NAME_REMEDY, Network, name_problem
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import RECORD, Check, Subject

GiB = 1 << 30
CPUS = 2
# A machine of 4 GB keeps some of it from its kernel.
MEMORY = int(3.5 * GiB)
DISK = 40 * 10**9
# Images, packages and their logs of the first hour; ISO images are on top.
FREE = 8 * GiB
DAY = 86400  # seconds
# Releases of the operating system, by the ID of /etc/os-release, and the family they belong to.
SYSTEMS = {
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "ol"), ("8", "9")),
    "debian": ("12",),
}
ARCHITECTURE = "x86_64"
# Part of the kernel to what is there while it works.
MODULES = {
    "br_netfilter": "proc/sys/net/bridge",
    "nf_conntrack": "proc/sys/net/netfilter",
    "overlay": "sys/module/overlay",
}
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
SWITCHES = ("proc/sys/net/ipv4/ip_forward",)
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
# What other installers of Kubernetes leave.
TRACES = (
    "etc/kubernetes/admin.conf",
    "etc/kubernetes/manifests",
    "etc/rancher",
    "var/lib/etcd/member",
    "var/lib/k0s",
)


# -- the platform ---------------------------------------------------------------------------------
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


# -- its networks ---------------------------------------------------------------------------------
def planes(subject: Subject) -> Iterator[Problem]:
    """The machine has an address in one network of each plane."""
    addresses = subject.machine.addresses
    shown = ", ".join(f"{a} on {i or 'no interface'}" for a, i in sorted(addresses.items()))
    configuration = subject.configuration
    for networks in (configuration.control_plane, configuration.workload_plane):
        if networks and not any(a in n.cidr for n in networks for a in addresses):
            key = networks[0].key.partition("[")[0]
            tried = ", ".join(str(network.cidr) for network in networks)
            yield Problem(
                Group.NETWORK,
                configuration.place(key),
                f"{key}: no interface of this machine has an address in {tried}",
                f"Correct it, or the interface; this machine has {shown or 'no address'}.",
            )


def overlaps(subject: Subject) -> Iterator[Problem]:
    """Networks inside the cluster exist nowhere else."""
    configuration = subject.configuration
    inside = [n for n in (configuration.pods, configuration.services) if n]
    for index, network in enumerate(inside):
        outside = (*configuration.control_plane, *configuration.workload_plane)
        for other in (*inside[index + 1 :], *outside):
            if network.cidr.overlaps(other.cidr):
                yield _overlap(subject, network, other, str(other))
        for route in subject.machine.routes:
            # A default route leads everywhere, and the cluster's own leave with a second run.
            if (
                route.network.prefixlen
                and not subject.begun
                and network.cidr.overlaps(route.network)
            ):
                shown = f"a route of this machine ({route.network} on {route.interface})"
                yield _overlap(subject, network, network, shown)


def _overlap(subject: Subject, network: Network, other: Network, shown: str) -> Problem:
    line = network.line or other.line
    where = f"{subject.configuration.path}:{line}" if line else str(subject.configuration.path)
    what = f"{network} overlaps {shown}"
    return Problem(Group.NETWORK, where, what, f"Set {network.key} to a network used nowhere else.")


def host(subject: Subject) -> Iterator[Problem]:
    """The address of the API server can be reached from here, or is here."""
    wanted = subject.configuration.host
    if wanted is None or wanted in subject.machine.addresses:
        return
    if not subject.machine.routes_to(wanted):
        where = subject.configuration.place("apiServer.host")
        what = f"apiServer.host: there is no route to {wanted}, and it is none of this machine's"
        remedy = "Name an address of this machine or a VIP that it can reach, or add a route."
        yield Problem(Group.NETWORK, where, what, remedy)


def vip(subject: Subject) -> Iterator[Problem]:
    """The VIP that we move is next to this machine, and nobody has it before we do."""
    wanted, machine = subject.configuration.host, subject.machine
    if not subject.configuration.keepalived.enabled or wanted is None:
        return
    where = subject.configuration.place("apiServer.host")
    remedy = (
        "Name a free address in the network of this machine's interface, or disable keepalived."
    )
    routes = machine.routes_to(wanted)
    if routes and routes[0].gateway is not None:
        what = (
            f"apiServer.host: {wanted} is behind {routes[0].gateway}; a VIP cannot be moved there"
        )
        yield Problem(Group.NETWORK, where, what, remedy)
    if subject.begun:  # it may be ours by now
        return
    if wanted in machine.addresses:
        what = f"apiServer.host: {wanted} is this machine's own address; keepalived would take it"
        yield Problem(Group.NETWORK, where, what, remedy)
        return
    owner = machine.neighbour(wanted)
    if owner:
        what = f"apiServer.host: {wanted} is taken by a machine with the hardware address {owner}"
        yield Problem(Group.NETWORK, where, what, remedy)


# -- its name -------------------------------------------------------------------------------------
def name(subject: Subject) -> Iterator[Problem]:
    """The machine is called as the configuration says, and as a node may be called."""
    found, wanted = subject.machine.name, subject.configuration.minion
    problem = name_problem(found)
    if problem:
        yield Problem(
            Group.NAME, "/etc/hostname", f"the host name {found or '(none)'} {problem}", NAME_REMEDY
        )
    elif wanted and wanted != found:
        where = subject.configuration.place("ca.minion")
        what = f"ca.minion is {wanted}, but this machine is {found}"
        remedy = f"Write ca.minion: {found}, or run it on {wanted}."
        yield Problem(Group.NAME, where, what, remedy)
    if found and not subject.machine.resolves(found):
        what = f"the host name {found} means no address"
        yield Problem(Group.NAME, "/etc/hosts", what, f"Add a line: ADDRESS {found}")


# -- its size -------------------------------------------------------------------------------------
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
    for folder in ("/var/lib/containerd", "/var/lib/etcd") if not subject.begun else ():
        _, free = machine.disk(folder)
        if free < FREE:
            what = f"{free / GiB:.1f} GiB are free on its file system, {FREE / GiB:.0f} are needed"
            yield Problem(
                Group.RESOURCES, folder, what, "Delete something, or mount a larger disk."
            )


# -- what is in the way ---------------------------------------------------------------------------
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


def packages(subject: Subject) -> Iterator[Problem]:
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
    for path in TRACES if not subject.begun else ():
        folder = subject.machine.root / path
        if folder.is_dir() and not any(folder.iterdir()):
            continue
        if folder.exists():
            what = "is of another installation of Kubernetes"
            remedy = "Uninstall that (kubeadm reset, for one) or take a fresh machine."
            yield Problem(Group.CONFLICT, f"/{path}", what, remedy)


# -- its settings ---------------------------------------------------------------------------------
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


CHECKS: tuple[Check, ...] = (
    user,
    system,
    planes,
    overlaps,
    host,
    vip,
    name,
    resources,
    ports,
    packages,
    installations,
    swap,
    kernel,
    clock,
    archives,
)


def run(subject: Subject) -> list[Problem]:
    """Run every check; what they say, in their order."""
    return [problem for check in CHECKS for problem in check(subject)]
