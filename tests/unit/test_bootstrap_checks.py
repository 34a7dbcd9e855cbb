"""Every bad situation, one change to a machine on which all is well."""

import ast
import dataclasses
import re
import shutil

import pytest
from metalk8s_bootstrap import command, problems
from metalk8s_bootstrap.checks.resources import GiB
from metalk8s_bootstrap.problems import Group
from metalk8s_bootstrap.subject import RECORD
from yaml import safe_load

from tests.unit import bootstrap
from tests.unit.mistakes import (
    ARCHIVE,
    YAML,
    be,
    both,
    disk,
    found,
    install,
    iso,
    listen,
    other_at_the_place,
    remove,
    replace,
    vip,
    write,
    yaml,
)
from tests.unit.test_bootstrap_configuration import SITUATIONS

MODULES = "lib/modules/6.1/modules.dep"
MACHINES = {
    "not root": (Group.PLATFORM, be(user=1000), "runs as user 1000"),
    "another system": (
        Group.PLATFORM,
        write("etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n'),
        "the operating system is ubuntu 22.04",
    ),
    "another release": (
        Group.PLATFORM,
        replace("etc/os-release", '12"\nID', '11"\nID'),
        "",
    ),
    "unknown system": (Group.PLATFORM, remove("etc/os-release"), "operating system is unknown"),
    "another processor": (Group.PLATFORM, be(architecture="aarch64"), "processor is aarch64"),
    "no systemd": (Group.PLATFORM, remove("run/systemd/system"), "systemd is not what started it"),
    "no interface in the CIDR": (
        Group.NETWORK,
        yaml(": 10.50.0.0/24", ": 10.99.0.0/24"),
        "yaml:4: networks.controlPlane: no interface of this machine has an address in 10.99.0.0",
    ),
    "no interface in any CIDR": (
        Group.NETWORK,
        yaml("[10.51.0.0/24, 10.50.0.0/24]", "[10.1.0.0/24, 10.2.0.0/24]"),
        "has an address in 10.1.0.0/24, 10.2.0.0/24",
    ),
    "a VIP that is the machine's own address": (
        Group.NETWORK,
        vip("10.50.0.2"),
        "yaml:9: apiServer.host: 10.50.0.2 is this machine's own address; keepalived would take it",
    ),
    "a VIP that another machine has": (
        Group.NETWORK,
        both(vip("10.50.0.9"), be(neighbour=lambda address: f"02:42:{int(address):x}")),
        "10.50.0.9 is taken by a machine with the hardware address 02:42:a320009",
    ),
    "a VIP behind a router": (
        Group.NETWORK,
        both(
            vip("10.50.0.9"),
            replace("proc/net/route", "eth0 0000320A 00000000", "eth0 0000320A 0100320A"),
        ),
        "apiServer.host: 10.50.0.9 is behind 10.50.0.1; a VIP cannot be moved there",
    ),
    "no address at all": (Group.NETWORK, remove("proc/net/fib_trie"), "machine has no address"),
    "pods in services": (
        Group.NETWORK,
        yaml("ca:\n", "  services: 10.233.64.0/20\nca:\n"),
        "yaml:6: networks.pods (10.233.0.0/16) overlaps networks.services (10.233.64.0/20)",
    ),
    "pods in the control plane": (
        Group.NETWORK,
        yaml("ca:\n", "  pods: 10.50.0.0/16\nca:\n"),
        "overlaps networks.controlPlane (10.50.0.0/24)",
    ),
    "services on the host's network": (
        Group.NETWORK,
        replace("proc/net/route", "eth0 0000320A", "eth1 0000600A"),
        "networks.services (10.96.0.0/12) overlaps a route of this machine (10.96.0.0/24 on eth1)",
    ),
    "no route to the VIP": (
        Group.NETWORK,
        both(
            yaml("host: 10.50.0.2", "host: 10.200.0.9"),
            replace(
                "proc/net/route",
                "eth0 00000000 0100320A 0003 0 0 0 00000000",
                "eth0 0000090A 00000000 0001 0 0 0 00FFFFFF",
            ),
        ),
        "yaml:9: apiServer.host: there is no route to 10.200.0.9",
    ),
    "host name of no node": (
        Group.NAME,
        write("proc/sys/kernel/hostname", "Boot_strap\n"),
        "the host name Boot_strap is no name that a node can have",
    ),
    "no host name": (Group.NAME, write("proc/sys/kernel/hostname", ""), "host name (none)"),
    "another host name": (
        Group.NAME,
        write("proc/sys/kernel/hostname", "other\n"),
        "yaml:7: ca.minion is bootstrap, but this machine is other",
    ),
    "host name without address": (Group.NAME, be(resolves=lambda _: False), "does not resolve"),
    "one processor": (Group.RESOURCES, be(cpus=1), "has 1 processor, 2 are needed"),
    "little memory": (
        Group.RESOURCES,
        replace("proc/meminfo", "4000000", "2000000"),
        "has 1.9 GiB of memory, 3.5 are needed",
    ),
    "no memory": (Group.RESOURCES, remove("proc/meminfo"), "has 0.0 GiB"),
    "small disk": (Group.RESOURCES, disk(9 * 10**9, 20 * GiB), "the root file system has 9 GB"),
    "full disk": (Group.RESOURCES, disk(50 * 10**9, GiB), "1.0 GiB are free on its file system"),
    "port taken": (
        Group.CONFLICT,
        listen(6443),
        "port 6443: is taken by nginx, and needed for API server",
    ),
    "containerd of the system": (
        Group.CONFLICT,
        install("containerd.io", "1.7"),
        "containerd.io 1.7 is installed; it conflicts with ours",
    ),
    "another kubelet": (
        Group.CONFLICT,
        install("kubelet", "1.28.0-00"),
        "kubelet 1.28.0-00 is installed; ours is 1.20.2-1",
    ),
    "Salt of others": (Group.CONFLICT, install("salt-minion", "3006"), "apt-get purge salt-minion"),
    "program of no package": (
        Group.CONFLICT,
        write("usr/local/bin/k3s", ""),
        "/usr/local/bin/k3s: is a program that conflicts",
    ),
    "another Kubernetes": (
        Group.CONFLICT,
        write("etc/kubernetes/manifests/etcd.yaml", ""),
        "/etc/kubernetes/manifests: is of another installation",
    ),
    "another version of ours": (
        Group.CONFLICT,
        write(RECORD, "2.3.0\n"),
        "MetalK8s 2.3.0 was installed here; this is 2.4.0-dev",
    ),
    "foreign program on our port": (
        Group.CONFLICT,
        both(write(RECORD, "2.4.0-dev\n"), listen(6443)),
        "port 6443: is taken by nginx",
    ),
    "swap": (
        Group.SYSTEM,
        write("proc/swaps", "Filename Type\n/dev/sda2 partition\n"),
        "/dev/sda2 is swapped to\n    Run `swapoff /dev/sda2`",
    ),
    "no br_netfilter": (
        Group.SYSTEM,
        both(replace(MODULES, "br-netfilter", "br-other"), write("proc/sys/net/bridge/x", "")),
        "the kernel: module br_netfilter is not there (6.1)\n    Boot the distribution's own",
    ),
    "folders of settings that other modules made": (
        Group.SYSTEM,
        remove("lib/modules"),
        "the kernel: module br_netfilter, nf_conntrack is not there (6.1)",
    ),
    "a kernel without what kube-proxy's rules need": (
        Group.SYSTEM,
        both(replace(MODULES, "xt_comment", "x"), replace(MODULES, "nft_compat", "x")),
        "the kernel: module nft_compat, xt_comment is not there (6.1)",
    ),
    "a kernel that loads no modules": (
        Group.SYSTEM,
        write("proc/sys/kernel/modules_disabled", "1\n"),
        "nf_conntrack, bridge, isofs",
    ),
    "a module that is switched off": (
        Group.SYSTEM,
        write("etc/modprobe.d/hardening.conf", "blacklist x\ninstall veth /bin/true\n"),
        "module veth is switched off by /etc/modprobe.d/hardening.conf",
    ),
    "no forwarding": (
        Group.SYSTEM,
        remove("proc/sys/net/ipv4/ip_forward"),
        "/proc/sys/net/ipv4/ip_forward: cannot be set",
    ),
    "no memory controller": (
        Group.SYSTEM,
        replace("proc/cgroups", "memory\t4\t3\t1", "memory\t4\t3\t0"),
        "has no cgroup controllers memory",
    ),
    "clock": (Group.SYSTEM, be(now=1.0), "shows a time before this medium was made"),
    "no ISO": (
        Group.ARCHIVES,
        yaml(ARCHIVE, "  - /root/none.iso\n"),
        "yaml:11: archives[0]: /root/none.iso is not there",
    ),
    "no ISO image": (
        Group.ARCHIVES,
        both(write("root/a.iso", "x" * 40000), yaml(ARCHIVE, "  - /root/a.iso\n")),
        "is no ISO 9660 image",
    ),
    "below a file": (
        Group.ARCHIVES,
        yaml(ARCHIVE, "  - /etc/os-release/a.iso\n"),
        "cannot be read: Not a directory",
    ),
    "image of something else": (Group.ARCHIVES, iso("Debian 12.1"), "(Debian 12.1)"),
    "image without version": (Group.ARCHIVES, iso("Demo"), "is an image of something else (Demo)"),
    "image of another version": (
        Group.ARCHIVES,
        iso("Demo 2.5.0"),
        "archives: none has version 2.4.0-dev, the version of bootstrap.sh",
    ),
    "two of a version": (
        Group.ARCHIVES,
        both(iso("Demo 2.4.0-dev"), yaml("  - /root/a.iso\n", f"  - /root/a.iso\n{ARCHIVE}")),
        "archives[1]: /srv/scality/metalk8s-2.4.0-dev is version 2.4.0-dev, and so is /root/a.iso",
    ),
    "folder": (Group.ARCHIVES, yaml(ARCHIVE, "  - /etc\n"), "is a folder without product.txt"),
    "folder of something else": (
        Group.ARCHIVES,
        both(write("opt/x/product.txt", "NAME=X\n"), yaml(ARCHIVE, "  - /opt/x\n")),
        "is a folder of something else",
    ),
    "folder elsewhere": (
        Group.ARCHIVES,
        both(
            write("opt/x/product.txt", "NAME=Demo\nVERSION=2.4.0-dev\n"),
            yaml(ARCHIVE, "  - /opt/x\n"),
        ),
        "is a folder, but not the place of that version",
    ),
    "place that is not free": (
        Group.ARCHIVES,
        both(
            write("srv/scality/metalk8s-2.5.0/x", ""),
            iso("Demo 2.5.0"),
            yaml("  - /root/a.iso\n", f"  - /root/a.iso\n{ARCHIVE}"),
        ),
        "/root/a.iso belongs at /srv/scality/metalk8s-2.5.0, where something else is",
    ),
}
MACHINES["another release"] = (
    Group.PLATFORM,
    write("etc/os-release", 'ID=debian\nVERSION_ID="11"\n'),
    "the operating system is debian 11",
)


def test_all_is_well(fake):
    assert found(fake) == []
    assert problems.status([]) == 0


@pytest.mark.parametrize("name", MACHINES)
def test_machines(fake, name):
    group, change, words = MACHINES[name]
    changed = change(fake)
    fake = changed if isinstance(changed, bootstrap.Fake) else fake
    told = found(fake)
    assert words in "\n".join(map(str, told))
    assert problems.status(told) == group
    assert {problem.group for problem in told} == {group}, told


def test_there_are_enough_situations():
    assert len(SITUATIONS) + len(MACHINES) > 80


def test_everything_is_told_at_once(fake):
    for name in ("bad CIDR", "wrong kind"):
        SITUATIONS[name][0](fake)
    for name in ("swap", "port taken", "no ISO"):
        MACHINES[name][1](fake)
    told = found(fake)
    assert [int(problem.group) for problem in told] == [21, 21, 25, 26, 27]
    assert problems.status(told) == 21


def test_after_a_bootstrap_ours_is_fine(fake):
    """What it installed itself is not in its way when it is run again."""
    fake.write(RECORD, "2.4.0-dev\n")
    listen(10257, "kube-controller")(fake)
    install("kubelet", "1.20.2-1")(fake)
    fake.write("etc/kubernetes/manifests/etcd.yaml", "")
    row = "cni0 0000E90A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
    fake.write("proc/net/route", bootstrap.FILES["proc/net/route"] + row)
    assert found(disk(50 * 10**9, GiB)(fake)) == []


def test_an_empty_folder_is_no_trace(fake):
    (fake.root / "etc/kubernetes/manifests").mkdir(parents=True)
    assert found(fake) == []


def test_ports_are_documented(root):
    table = safe_load((root / "salt/states/metalk8s/parameters/ports.yaml").read_text())
    columns = ("what", "address", "users", "protection")
    rows = [
        " | ".join(str(part) for part in (port_of(row), *(row[c] for c in columns)))
        for row in table.values()
    ]
    text = (root / "docs/reference/ports.md").read_text()
    assert re.findall(r"(?m)^\| ((?:\d|VRRP).*) \|$", text) == rows


def port_of(row):
    if "udp" in row:
        return f"{row['udp']}/UDP"
    return row["number"] if "number" in row else row["protocol"].upper()


def test_modules_that_are_loaded_or_built_in(fake):
    """Nothing has to be on disk then; a kernel in a container shows no more than these."""
    shutil.rmtree(fake.root / "lib/modules")
    for sign in bootstrap.KERNEL["modules"].values():
        fake.write(f"{sign[1:]}/x", "")
    assert found(fake) == []


def test_swap_may_be_allowed(fake):
    MACHINES["swap"][1](fake)
    fake.write(YAML, f"{bootstrap.CONFIGURATION}site: {{kubelet: {{fail_swap_on: false}}}}\n")
    assert found(fake) == []


def test_iso_image(fake):
    iso("Demo 2.4.0-dev")(fake)
    assert found(fake) == []


def test_image_whose_place_is_not_yet_there(fake):
    other = other_at_the_place(fake)
    told = command.find(fake.machine, dataclasses.replace(fake.medium, root=other))[1]
    assert "where something else is" in str(told[0])
    shutil.rmtree(fake.root / bootstrap.PLACE)
    assert command.find(fake.machine, dataclasses.replace(fake.medium, root=other))[1] == []


def test_a_vip_that_is_ours_by_now(fake):
    vip("10.50.0.9")(fake)
    assert found(fake) == []
    fake.write(RECORD, f"{bootstrap.VERSION}\n")
    fake.replace("proc/net/fib_trie", "10.9.9.9", "10.50.0.9")
    assert found(fake) == []
    moved = fake.be(neighbour=lambda _: "02:42:0a:32:00:03")
    moved.replace("proc/net/fib_trie", "10.50.0.9", "10.9.9.9")
    assert found(moved) == []


def test_nothing_is_newer_than_the_oldest_python(root):
    for path in (root / "salt/scripts/metalk8s_bootstrap").rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
