"""Machines that cannot become one of a cluster: each is told so at once, and stays as it was."""

import hashlib
import json
import re
import signal
from pathlib import Path

import pytest
from metalk8s_bootstrap import command
from metalk8s_bootstrap.subject import RECORD

from tests.unit import bootstrap
from tests.unit.mistakes import (
    ARCHIVE,
    be,
    both,
    disk,
    el,
    found,
    inodes,
    install,
    link,
    mounted,
    remove,
    replace,
    says,
    write,
    yaml,
)
from tests.unit.test_bootstrap_checks import MODULES

V2 = "sys/fs/cgroup/cgroup.controllers"
STATUS = bootstrap.FILES["var/lib/dpkg/status"]
NFT = """\
table ip filter {
	chain FORWARD {
		type filter hook forward priority filter; policy accept;
	}
}
table inet site {
	chain incoming {
		type filter hook input priority filter; policy drop;
	}
	chain outgoing {
		type filter hook output priority filter; policy drop;
	}
}
"""
UNMET = """\
Reading package lists...
Some packages could not be installed.
The following packages have unmet dependencies:
 iptables : Depends: netbase but it is not installable
 python3.11 : PreDepends: libc6 (>= 2.36) but 2.31-13 is to be installed
              Depends: libssl3 but it is not installable
E: Unable to correct problems, you have held broken packages.
"""
DNF = """\
Error:
 Problem: conflicting requests
  - nothing provides python3.11 needed by metalk8s-salt-3008.2-1.x86_64 from metalk8s-medium
  - nothing provides conntrack-tools needed by kubeadm-1.20.2-1.x86_64 from metalk8s-medium
"""


def hold(name, version):
    text = f"Package: {name}\nStatus: hold ok installed\nVersion: {version}\n\n"
    return write("var/lib/dpkg/status", STATUS + text)


def in_the_middle(*states):
    texts = [
        f"Package: p{number}\nStatus: install {state}\nVersion: 1\n\n"
        for number, state in enumerate(states)
    ]
    return write("var/lib/dpkg/status", STATUS + "".join(texts))


# Status, change, what is said, words of the documentation's line for that status.
MACHINES = {
    "no module for conntrack": (
        26, replace(MODULES, "/nf_conntrack.", "/other."),
        "the kernel: module nf_conntrack is not there (6.1)", "a module",
    ),
    "a kernel that was replaced and not booted": (
        26, both(remove("lib/modules"), write("lib/modules/6.2/modules.dep", "x.ko:\n")),
        "module br_netfilter, nf_conntrack is not there (6.1)", "a module",
    ),
    "no modules at any price": (
        26, write("proc/sys/kernel/modules_disabled", "1\n"),
        "kernel.modules_disabled keeps it out", "may not",
    ),
    "a module that is switched off": (
        26, write("etc/modprobe.d/cis.conf", "install isofs /usr/bin/false\n"),
        "module isofs is switched off by /etc/modprobe.d/cis.conf", "may not",
    ),
    "cgroups v2 without memory": (
        26, write(V2, "cpu cpuset pids\n"), "has no cgroup controllers memory (cgroups v2)",
        "cgroup controllers",
    ),
    "cgroups v1 without memory": (
        26, replace("proc/cgroups", "memory\t4\t3\t1", "memory\t4\t3\t0"),
        "has no cgroup controllers memory (cgroups v1)", "cgroup controllers",
    ),
    "cgroups v2 on an old kernel": (
        26, both(
            write(V2, "cpu cpuset memory pids\n"), be(release="4.18.0-5"),
            lambda fake: (fake.root / "lib/modules/6.1").rename(
                fake.root / "lib/modules/4.18.0-5") and None,
        ),
        "cgroups v2 on 4.18.0-5", "cgroups v2 before Linux 5.2",
    ),
    "no namespaces": (
        26, write("proc/sys/user/max_net_namespaces", "0\n"),
        "user.max_net_namespaces is 0", "namespaces",
    ),
    "no forwarding after a reboot": (
        26, write("etc/sysctl.d/99-hardening.conf", "\nnet.ipv4.ip_forward=0\n"),
        "/etc/sysctl.d/99-hardening.conf:2: sets net.ipv4.ip_forward to 0 at every start",
        "sysctl.d",
    ),
    "no forwarding, by another name and in the old place": (
        26, write("etc/sysctl.conf", "net/ipv4/conf/all/forwarding = 0\n"),
        "/etc/sysctl.conf:1: sets net.ipv4.ip_forward to 0", "sysctl.d",
    ),
    "read-only root": (
        26, mounted("/srv", "rw", "ro,relatime"),
        "the file system at /: is read-only; needed for /, /etc, /opt", "read-only",
    ),
    "read-only /etc": (
        26, mounted("/etc", "ro"), "the file system at /etc: is read-only; needed for /etc",
        "read-only",
    ),
    "/var without programs": (
        26, mounted("/var", "rw,noexec"),
        "the file system at /var: forbids programs (noexec); needed for /var/lib/dpkg", "noexec",
    ),
    "/opt without programs": (
        26, mounted("/opt", "rw,noexec"), "the file system at /opt: forbids programs", "noexec",
    ),
    "full disk": (24, disk(50 * 10**9, 0), "0.0 GiB are free", "GiB free"),
    "no more files": (24, inodes(1000), "1000 more files fit on its file system", "files"),
    "1 GB of memory": (
        24, replace("proc/meminfo", "4000000", "1000000"), "has 1.0 GiB of memory", "memory",
    ),
    "wrong time": (26, be(now=0.0), "a time before this medium was made", "clock"),
    "time of a far future": (
        26, be(now=bootstrap.NOW + 11 * 365 * 86400), "ten years after this medium was made",
        "clock",
    ),
    "a hardware clock that was never set": (
        26, write("sys/class/rtc/rtc0/since_epoch", "5\n"),
        "the hardware clock: is 23148 days from the system's", "hardware clock",
    ),
    "no resolver": (26, remove("etc/resolv.conf"), "/etc/resolv.conf: is not there", "resolver"),
    "a resolver's file that leads nowhere": (
        26, link("etc/resolv.conf", "../run/nothing"), "or is a link to nothing", "resolver",
    ),
    "a resolver that does not run": (
        26, remove("run/systemd/resolve"), "systemd-resolved (127.0.0.53), which is not running",
        "resolver",
    ),
    "proxies for every service": (
        26, write("etc/systemd/system.conf.d/proxy.conf",
                  '[Manager]\nDefaultEnvironment="A=b" "HTTPS_PROXY=http://nowhere:3128"\n'),
        "/etc/systemd/system.conf.d/proxy.conf: sends all services to a proxy", "proxy",
    ),
    "no id": (26, write("etc/machine-id", "uninitialized\n"), "uninitialized, which is", "id of"),
    "swap that comes back": (
        26, write("etc/fstab", "/dev/vda / ext4 rw\n/dev/vdb none swap sw 0 0\n"),
        "/etc/fstab:2: /dev/vdb is swapped to at the next start", "swap",
    ),
    "SELinux on Debian": (
        26, write("sys/fs/selinux/enforce", "1"), "SELinux: forbids, by a policy that Debian",
        "SELinux",
    ),
    "SELinux without a policy for containers": (
        26, both(el, write("sys/fs/selinux/enforce", "1")),
        "Install the package container-selinux", "container-selinux",
    ),
    "packages that cannot be had": (
        25, says("apt-get", 100, UNMET, "install"),
        "packages: iptables depends on netbase but it is not installable", "packages that",
    ),
    "a medium that APT does not take": (
        25, says("apt-get", 100, "E: The repository is not signed.\n", "update"),
        "packages: The repository is not signed.", "packages that",
    ),
    "an EL machine without Python 3.11": (
        25, both(el, says("dnf", 1, DNF)),
        "metalk8s-salt-3008.2-1.x86_64 needs python3.11, which is neither installed nor",
        "packages that",
    ),
    "no APT": (25, says("apt-get", 127, ""), "packages: there is no apt-get", "packages that"),
    "a kubelet that is held": (
        25, hold("kubelet", "1.19.0-1"), "kubelet is held at 1.19.0-1, the medium has 1.20.2-1",
        "held",
    ),
    "dpkg in the middle": (
        26, in_the_middle("ok half-configured", "reinstreq installed", *5 * ["ok unpacked"]),
        "dpkg: is in the middle of p0 (half-configured), p1 (installed), p2 (unpacked), "
        "p3 (unpacked), p4 (unpacked) and 2 more", "dpkg",
    ),
    "the number of an account": (
        25, write("etc/passwd", "root:x:0:0::/:/bin/sh\ngit:x:6443:100::/:/bin/sh\n"),
        "/etc/passwd: git has number 6443; metalk8s-apiserver is to have 6443", "number",
    ),
    "the name of a group": (
        25, write("etc/group", "root:x:0:\nmetalk8s-sa-key:x:999:\n"),
        "/etc/group: metalk8s-sa-key has number 999; metalk8s-sa-key is to have 6440", "number",
    ),
    "data of another etcd": (
        25, write("var/lib/etcd/member/wal", ""), "/var/lib/etcd: is of another installation",
        "what another installation left",
    ),
    "a network of other containers": (
        25, write("etc/cni/net.d/87-podman-bridge.conflist", "{}"),
        "/etc/cni/net.d: is of another installation", "what another installation left",
    ),
    "pods of another kubelet": (
        25, write("var/lib/kubelet/pods/a/x", ""), "/var/lib/kubelet: is of another installation",
        "what another installation left",
    ),
    "another version of ours": (
        25, write(RECORD, "2.3.0\n"), "MetalK8s 2.3.0 was installed here", "another version of",
    ),
    "a packet filter that drops what comes": (
        22, says("nft", 0, NFT), "the packet filter: chain incoming of table inet site drops",
        "packet filter",
    ),
    "a packet filter that drops what passes": (
        22, says("nft", 0, NFT.replace("forward priority filter; policy accept",
                                       "forward priority filter; policy drop")
                 .replace("hook input priority filter; policy drop", "hook input priority 0;")),
        "chain FORWARD of table ip filter drops", "packet filter",
    ),
    "a packet filter of iptables": (
        22, be(call=lambda argv: {"nft": (127, ""), "iptables": (0, "-P INPUT DROP\n")}.get(
            argv[0], (0, ""))),
        "chain INPUT of iptables drops", "packet filter",
    ),
    "a machine without a name": (
        23, both(write("proc/sys/kernel/hostname", "localhost\n"),
                 yaml("minion: bootstrap", "minion: localhost")),
        "the host name localhost is every machine's name", "host name",
    ),
    "a medium of another version at its place": (
        27, both(write("old.iso", "x" * 40000), yaml(ARCHIVE, "  - /old.iso\n")),
        "/old.iso is no ISO 9660 image", "no image of ours",
    ),
}  # fmt: skip


def tree(root):
    """Return a hash of everything below a folder: names, modes, times, contents, links."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        target = str(path.readlink()) if path.is_symlink() else ""
        row = (str(path), status.st_mode, status.st_mtime_ns, target, content)
        digest.update(repr(row).encode())
    return digest.hexdigest()


@pytest.fixture
def bootstrapped(tmp_path, capsys):
    """Return a call of the command on a machine: its status, and what it said of mistakes."""

    def do(fake):
        argv = ["--medium", str(fake.medium.root), "--scratch", str(tmp_path / "scratch")]
        status = command.main([*argv, "--verified", "1", "--", "--key", "/k"], fake.machine, 0)
        return status, capsys.readouterr().err

    yield do
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.parametrize("name", MACHINES)
def test_it_is_told_and_nothing_is_changed(fake, bootstrapped, name):
    wanted, change, words, _ = MACHINES[name]
    changed = change(fake)
    fake = changed if isinstance(changed, bootstrap.Fake) else fake
    before = tree(fake.root)
    status, said = bootstrapped(fake)
    assert words in said
    assert status == wanted, said
    errors = said.count("bootstrap.sh: error: ")
    several = f"{errors} problems" if errors > 1 else "1 problem"
    assert said.endswith(f"bootstrap.sh: {several}; nothing was changed\n")
    # Each package that is missing is an error of its own; one mistake in several places is one.
    assert errors == (said.count("error: packages: ") or 1)
    assert tree(fake.root) == before


def test_there_are_enough():
    assert len(MACHINES) >= 30


def test_they_are_documented(root):
    """Each is in the line of its status, by a word that an operator may search."""
    text = (root / "docs/reference/bootstrap.md").read_text()
    lines = dict(re.findall(r"(?m)^\| (\d\d) \| (.{60,}) \|$", text))
    missing = {
        name: words
        for name, (status, _, _, words) in MACHINES.items()
        if words not in lines.get(str(status), "")
    }
    assert missing == {}


def test_a_minimal_machine(fake, root):
    """One with what Debian calls required, APT and systemd, and no file that it need not have."""
    lock = json.loads((root / "buildchain/pins/default/debian.lock").read_text())
    paragraphs = [
        f"Package: {file['name']}\nStatus: install ok installed\nVersion: {file['version']}\n\n"
        for file in lock["floor"]["packages"]
    ]
    fake.write("var/lib/dpkg/status", "".join(paragraphs))
    for name in (
        *("etc/sysctl.d", "etc/modprobe.d", "etc/fstab", "etc/systemd", "run/systemd/resolve"),
        *("sys/class/rtc", "var/lib/etcd", "proc/sys/user", "proc/sys/net/netfilter"),
    ):
        remove(name)(fake)
    fake.write("etc/resolv.conf", "")
    # cgroups v2, neither nft nor iptables, and a kernel of Debian's.
    fake.write(V2, "cpuset cpu io memory hugetlb pids rdma misc\n")
    fake.write("proc/self/mountinfo", "21 1 0:20 / / rw,relatime - ext4 /dev/vda1 rw\n")
    (fake.root / "lib/modules/6.1").rename(fake.root / "lib/modules/6.1.0-56-cloud-amd64")
    fake = fake.be(
        release="6.1.0-56-cloud-amd64",
        call=lambda argv: (0, "") if argv[0] == "apt-get" else (127, ""),
    )
    assert found(fake) == []


def test_what_is_allowed(fake):
    """Of each mistake, what looks like it and is none."""
    fake.write("etc/fstab", "/dev/vdb none swap sw,noauto 0 0\n#/dev/vdc none swap sw\n")
    fake.write("etc/sysctl.d/50-before.conf", "net.ipv4.ip_forward=0\n")
    fake.write("etc/sysctl.d/99-no.txt", "net.ipv4.ip_forward=0\n")
    fake.write("sys/fs/selinux/enforce", "0")
    fake.write("etc/passwd", "metalk8s-etcd:x:2379:2379::/:/bin/sh\nbroken\n")
    mounted("/tmp", "rw,noexec")(fake)
    text = bootstrap.CONFIGURATION + "site: {firewall: {own_rules: true}}\n"
    fake.write("etc/metalk8s/bootstrap.yaml", text)
    fake = says("nft", 0, NFT)(fake)
    assert found(fake) == []
    el(fake)
    fake.write("sys/fs/selinux/enforce", "1")
    assert found(fake.be(run=lambda _: "container-selinux 2-1\n")) == []


def test_after_a_bootstrap(fake):
    """What it left half done, and held at its own version, the next run goes on with."""
    text = "Package: kubelet\nStatus: hold ok installed\nVersion: 1.20.2-1\n\n"
    text += "Package: x\nStatus: install ok half-configured\nVersion: 1\n\n"
    fake.write("var/lib/dpkg/status", STATUS + text)
    fake.write(RECORD, f"{bootstrap.VERSION}\n")
    fake.write("var/lib/kubelet/pods/a/x", "")
    assert found(inodes(10)(fake)) == []


def test_how_apt_is_asked(fake):
    """From the medium alone, about the machine's packages, and nothing is written there."""
    asked, configured = [], []

    def call(argv):
        asked.append(argv)
        if argv[0] == "apt-get":
            configured.append(Path(argv[3]).read_text())
        return 0, ""

    assert found(fake.be(call=call)) == []
    update, simulation = [argv for argv in asked if argv[0] == "apt-get"]
    assert update[:3] == simulation[:3] == ["apt-get", "-q", "-c"]
    assert update[4:] == ["--error-on=any", "update"]
    assert simulation[4:] == [
        *("--simulate", "--yes", "--no-install-recommends", "install"),
        *("kubelet=1.20.2-1", "metalk8s-salt-minion=3008.2-1"),
        "conntrack",
    ]
    for text in configured:
        assert f'Dir::State::Status "{fake.root}/var/lib/dpkg/status";\n' in text
        assert 'Dir::Log "' in text
        assert text.count(str(fake.root)) == 1
        # The machine's own would be run, and change it.
        assert "#clear APT::Update::Post-Invoke;\n" in text
    assert not Path(update[3]).exists()


def test_dnf_that_has_nothing_to_say(fake):
    el(fake)
    assert found(fake.be(call=lambda argv: (127 if argv[0] == "dnf" else 0, ""))) != []
    assert found(fake.be(call=lambda argv: (1, "Operation aborted.\n"))) == []


def test_what_apt_says_that_nobody_knows(fake):
    told = found(says("apt-get", 100, "bad\nluck\n", "install")(fake))
    assert [problem.what for problem in told] == ["luck"]


def test_a_package_that_conflicts_is_told_once(fake):
    install("containerd.io", "1.7")(fake)
    told = found(says("apt-get", 100, UNMET)(fake))
    assert len(told) == 1


def test_a_machine_that_was_ours_may_keep_what_pods_left(tmp_path):
    """And one that was not may not: docs/how-to/reset-a-node.md leaves both folders."""
    found = bootstrap.make(tmp_path)
    for path in ("var/lib/cni/cache", "var/lib/kubelet/pods"):
        (found.root / path).mkdir(parents=True)
    sentence = "is of another installation of Kubernetes"
    _, problems = command.find(found.machine, found.medium)
    assert [one.where for one in problems if one.what == sentence] == [
        "/var/lib/cni",
        "/var/lib/kubelet",
    ]
    found.write("etc/metalk8s/keys/at-least", "2.4.0-dev\n")
    _, problems = command.find(found.machine, found.medium)
    assert not [one for one in problems if one.what == sentence]
