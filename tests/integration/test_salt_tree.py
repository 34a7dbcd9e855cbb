"""The Salt tree of the ISO on a clean Debian 12 machine without a network.

The machine is a systemd container with the ISO's tree at its place under /srv/scality; the only way
for a package to reach it is the ISO's repository, with the package manager's own signature checks.

Runs ``docker``. The fixtures ``iso_tree``, ``debian_root_image`` and ``salt_venv`` come from
``conftest.py``; the image holds a minimal Debian 12 with systemd and python3.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.integration

SALT = "/opt/salt"
# What a node has before it belongs to a cluster; test_cluster.py goes on from there.
PARTS = "metalk8s.container-engine,metalk8s.kubelet.installed"
PACKAGES = ("kubectl", "kubelet", "metalk8s-cni-plugins", "metalk8s-containerd", "metalk8s-runc")
# This machine has no network but its own.
NETWORKS = {"controlPlane": "127.0.0.0/8", "workloadPlane": "127.0.0.0/8"}
# Its own cgroups, made writable: with a bind of the host's, each systemd would tidy the cgroups of
# all the others, and leave its own behind.
BOOT = """
for cgroups in /sys/fs/cgroup /sys/fs/cgroup/*; do
    mount -o remount,bind,rw $cgroups 2>/dev/null
done
systemctl mask systemd-firstboot.service systemd-udevd.service \\
    dev-hugepages.mount sys-kernel-debug.mount
exec /lib/systemd/systemd
"""
# every capability but CAP_SYS_RESOURCE, which the reference machine does not have to give
CAPABILITIES = [
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "BLOCK_SUSPEND",
    "DAC_READ_SEARCH",
    "IPC_LOCK",
    "IPC_OWNER",
    "LEASE",
    "LINUX_IMMUTABLE",
    "NET_ADMIN",
    "NET_BROADCAST",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
]


def docker(
    *arguments: str, check: bool = True, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run docker; what it said is part of a failure."""
    run = subprocess.run(
        ["docker", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert not check or run.returncode == 0, (
        f"docker {' '.join(arguments)}\n{run.stdout}\n{run.stderr}"
    )
    return run


@dataclasses.dataclass(frozen=True)
class Node:
    """A machine with the ISO of ``version`` mounted."""

    name: str
    version: str

    def run(self, command: str, *, check: bool = True) -> str:
        """Run a shell command on the machine, for what it prints."""
        run = docker("exec", self.name, "sh", "-c", command, check=check)
        return run.stdout + (run.stderr if not check else "")

    def apply(
        self, *names: str, site: dict[str, Any] | None = None, role: str = "bootstrap"
    ) -> dict[str, dict[str, Any]]:
        """Apply states: ID → result.

        :param role: by default that of the machine with the medium, from which others get all.
        """
        known = {"bootstrap": {"networks": NETWORKS}, "node": {"roles": [role]}}
        pillar = {"metalk8s": {"site": site or {}, **known}}
        run = docker(
            *(
                "exec",
                self.name,
                f"{SALT}/bin/python3",
                f"{SALT}/bin/salt-call",
                "--local",
                "--out=json",
            ),
            *("--log-level=critical", "state.apply", *names, f"saltenv=metalk8s-{self.version}"),
            f"pillar={json.dumps(pillar)}",
            check=False,
        )
        assert run.stdout.startswith("{"), run.stdout + run.stderr
        results = json.loads(run.stdout)["local"]
        assert isinstance(results, dict), results
        return {result["__id__"]: result for result in results.values()}

    def packages(self) -> set[str]:
        """Name the packages that are installed, or whose configuration is left."""
        return set(self.run("dpkg-query --show --showformat '${Package}\\n'").split())


def start_node(image: str, iso: pathlib.Path, salt: pathlib.Path, *more: str) -> Node:
    """Start a machine without a network and wait until its systemd has started everything."""
    version = json.loads((iso / "salt/metalk8s/versions.json").read_text(encoding="utf-8"))[
        "metalk8s"
    ]["version"]
    mount = f"/srv/scality/metalk8s-{version}"
    name = docker(
        *("run", "--detach", "--network=none", "--cgroupns=private"),
        *(f"--cap-add={capability}" for capability in CAPABILITIES),
        *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
        *("--security-opt=systempaths=unconfined", "--device-cgroup-rule=a *:* rwm"),
        *(
            "--tmpfs=/run:exec",
            "--tmpfs=/tmp:exec",
            "--volume=/var/lib/containerd",
            "--env=container=docker",
        ),
        *(f"--volume={iso}:{mount}:ro", f"--volume={salt}:{SALT}:ro", *more),
        *("--entrypoint=/bin/sh", image, "-c"),
        BOOT,
    ).stdout.strip()
    node = Node(name, version)
    for _ in range(60):
        if node.run("systemctl is-system-running", check=False).strip() in {"running", "degraded"}:
            break
        time.sleep(0.5)
    else:
        pytest.fail(f"systemd does not come up\n{docker('logs', name).stdout}")
    # systemd.scope: systemd makes no scope for what docker starts, which belongs to no unit
    configuration = f"""\
        file_client: local
        systemd.scope: false
        id: node
        pillarenv_from_saltenv: true
        file_roots:
          metalk8s-{version}: [{mount}/salt]
        pillar_roots:
          metalk8s-{version}: [{mount}/pillar]
        """
    docker(
        *("exec", "--interactive", name, "sh", "-c", "mkdir -p /etc/salt && cat >/etc/salt/minion"),
        text=textwrap.dedent(configuration),
    )
    call = f"{SALT}/bin/python3 {SALT}/bin/salt-call --local"
    node.run(f"{call} saltutil.sync_all saltenv=metalk8s-{version}")
    return node


@pytest.fixture(scope="module")
def machines(
    debian_root_image: str, iso_tree: pathlib.Path, salt_venv: pathlib.Path
) -> Iterator[Any]:
    """Start machines, and remove them at the end."""
    if not shutil.which("docker"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("docker: not on this machine")
    started: list[Node] = []

    def start(*more: str) -> Node:
        started.append(start_node(debian_root_image, iso_tree, salt_venv, *more))
        return started[-1]

    yield start
    for node in started:
        docker("rm", "--force", "--volumes", node.name)


@pytest.fixture(scope="module")
def before(machines: Any) -> tuple[Node, set[str]]:
    """Give a clean machine and its packages."""
    node = machines()
    return node, node.packages()


@pytest.fixture(scope="module")
def node(before: tuple[Node, set[str]]) -> Node:
    """Give a machine to which they were applied."""
    machine, packages = before
    assert not packages.intersection(PACKAGES)
    results = machine.apply(PARTS)
    assert_succeeded(results)
    assert all(
        result["changes"] for name, result in results.items() if not name.endswith("is ready")
    ), results
    return machine


def assert_succeeded(results: dict[str, dict[str, Any]]) -> None:
    """Show what failed and why."""
    assert not {name: result["comment"] for name, result in results.items() if not result["result"]}


def changes(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Keep what changed."""
    return {name: result["changes"] for name, result in results.items() if result["changes"]}


def test_packages_are_those_of_the_iso(node: Node, iso_tree: pathlib.Path) -> None:
    """The exact versions are there, held, and came from the one repository."""
    versions = json.loads((iso_tree / "salt/metalk8s/versions.json").read_text(encoding="utf-8"))
    for name in PACKAGES:
        wanted = versions["packages"]["debian"][name]["version"]
        assert node.run(f"dpkg-query --show --showformat '${{Version}}' {name}") == wanted
        assert f"file:/srv/scality/metalk8s-{node.version}/packages" in node.run(
            f"apt-cache policy {name}"
        )
    assert node.run("apt-mark showhold").split() == sorted(PACKAGES)
    assert (
        node.run("kubelet --version").strip()
        == f"Kubernetes v{versions['kubernetes']['version']}+metalk8s.1"
    )


def test_container_engine_runs_with_our_configuration(node: Node) -> None:
    """The daemon answers and says the settings of the file that we wrote."""
    assert node.run("systemctl is-active containerd; systemctl is-enabled containerd").split() == [
        "active",
        "enabled",
    ]
    assert "Server:" in node.run("ctr version")
    assert node.run("head -n 1 /etc/containerd/config.toml").startswith(
        f"# Generated by MetalK8s {node.version}."
    )
    assert f"/metalk8s-{node.version}/pause:" in node.run(
        "containerd config dump | grep sandbox_image"
    )


def test_kubelet_waits_for_its_configuration(node: Node) -> None:
    """Nothing starts a kubelet that would not know its cluster."""
    assert node.run("systemctl is-active kubelet", check=False).strip() == "inactive"


def test_second_run_changes_nothing(node: Node) -> None:
    """What is there is seen to be there."""
    again = node.apply(PARTS)
    assert_succeeded(again)
    assert not changes(again)


def test_lost_index_is_read_again(node: Node) -> None:
    """A run killed between writing the source and reading the index is made good by the next."""
    node.run("rm -rf /var/lib/apt/lists/*")
    results = node.apply(PARTS)
    assert_succeeded(results)
    assert set(changes(results)) == {"Refresh the index of the MetalK8s package repository"}


def test_broken_configuration_never_lands(node: Node) -> None:
    """containerd's own parser refuses the file before it replaces the one in use."""
    node.run("sha256sum /etc/containerd/config.toml >/root/before")
    results = node.apply(
        "metalk8s.container-engine", site={"container_engine": {"cni": {"programs": 'a" broken'}}}
    )
    assert results["Configure the container engine"]["result"] is False
    node.run("sha256sum --check /root/before && systemctl is-active containerd")


@pytest.mark.parametrize(
    "member", ["keys/metalk8s.asc", "packages/debian/metalk8s/dists/bookworm/InRelease"]
)
def test_repository_whose_signature_fails_is_refused(
    machines: Any, iso_tree: pathlib.Path, tmp_path: pathlib.Path, member: str
) -> None:
    """A changed index or a damaged key: nothing is installed."""
    forged = tmp_path / "forged"
    text = (iso_tree / member).read_text(encoding="utf-8")
    forged.write_text(text.replace("\n\n", "\n\nX", 1), encoding="utf-8")
    version = json.loads((iso_tree / "salt/metalk8s/versions.json").read_text(encoding="utf-8"))[
        "metalk8s"
    ]["version"]
    node = machines(f"--volume={forged}:/srv/scality/metalk8s-{version}/{member}:ro")
    results = node.apply(PARTS)
    assert results["Refresh the index of the MetalK8s package repository"]["result"] is False
    assert not set(PACKAGES) & node.packages()


def test_absent_takes_the_role_back(before: tuple[Node, set[str]], node: Node) -> None:
    """The last of this file: what the role brought is gone, running containers included."""
    _, packages = before
    node.run("mkdir -p /root/image && cp /usr/bin/kubectl /root/image/")
    node.run(
        "ctr --namespace k8s.io run --detach --rootfs /root/image leftover "
        "/kubectl --server=http://127.0.0.1:1 proxy --unix-socket=/socket"
    )
    assert "RUNNING" in node.run("ctr --namespace k8s.io tasks list")
    results = node.apply("metalk8s.roles.node.absent", role="node")
    assert_succeeded(results)
    assert set(changes(results)) >= {"Remove the container engine", "Remove the kubelet"}
    assert not node.run("grep -lE 'containerd|kubectl' /proc/[0-9]*/comm || true")
    left = node.packages()
    assert packages <= left
    assert left - packages <= set(node.run("apt-mark showauto").split())  # for apt-get autoremove
    assert not set(PACKAGES) & left
    for path in ("/etc/containerd", "/etc/apt/sources.list.d/metalk8s.sources"):
        assert node.run(f"test -e {path} || echo gone").strip() == "gone"
    assert "metalk8s" not in node.run("ls /var/lib/apt/lists")
    again = node.apply("metalk8s.roles.node.absent", role="node")
    assert_succeeded(again)
    assert not changes(again)
