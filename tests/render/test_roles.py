"""What roles share, and what the choices of a site reach."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml

from buildchain.project import catalog

from .conftest import MACHINES, TREE
from .test_tree import ROLES, files_of

pytestmark = pytest.mark.render

PINS = catalog.load(TREE.parent, "default")
# In Debian's closure because a package of ours depends on them, or because every machine has them.
BY_THEMSELVES = {"iproute2", "iptables", "mount", "python3", "sosreport", "metalk8s-salt-minion"}
MANAGED, POD = "metalk8s_static_pod.managed", "metalk8s_static_pod.absent"


def components(rendered: dict[str, Any], machine: str, sls: str) -> set[str]:
    states = rendered[machine]["sls"][sls]["states"]
    return {state["sls"].split(".")[1] for state in states}


@pytest.mark.parametrize(("role", "other"), [("etcd", "master"), ("master", "etcd")])
def test_a_role_that_leaves_takes_nothing_that_another_needs(
    rendered: dict[str, Any], role: str, other: str
) -> None:
    """Of each set of roles: tests/unit/salt/test_machine_roles.py."""
    machine = "etcd master"
    assert rendered[machine]["errors"] == []
    stays = components(rendered, machine, f"metalk8s.roles.{other}")
    gone = components(rendered, machine, f"metalk8s.roles.{role}.absent")
    assert gone
    assert not gone & stays
    states = rendered["debian-12"]["sls"][f"metalk8s.roles.{role}.absent"]["states"]
    assert [state["function"] for state in states] == ["test.nop"], "bootstrap needs all of it"


def test_nothing_goes_while_others_count_on_the_member(rendered: dict[str, Any]) -> None:
    """It is asked before all else: what follows would stop it, its files or none."""
    for sls in ("roles.bootstrap.absent", "etcd.absent"):
        first = rendered["debian-12"]["sls"][f"metalk8s.{sls}"]["states"][0]
        assert first["function"] == "metalk8s_etcd.left"


def used_by_pods(rendered: dict[str, Any], machine: str, sls: str) -> dict[str, set[str]]:
    """Say which files and folders of the machine each static pod has, by its manifest."""
    found = {}
    for state in rendered[machine]["sls"][sls]["states"]:
        if state["function"] == MANAGED:
            volumes = yaml.safe_load(state["file"]["text"])["spec"]["volumes"]
            paths = {v["hostPath"]["path"] for v in volumes if "hostPath" in v}
            found[state["arguments"]["name"]] = paths | set(state["arguments"]["config_files"])
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_pod_uses_goes_after_it(rendered: dict[str, Any], machine: str) -> None:
    """Its certificates, its configuration and its data, and the folders that they are in."""
    used = used_by_pods(rendered, machine, "metalk8s.roles.bootstrap")
    runs = set(used)
    assert len(runs) >= 6
    for state in rendered[machine]["sls"]["metalk8s.roles.bootstrap.absent"]["states"]:
        name = state["arguments"]["name"]
        if state["function"] == POD:
            runs.discard(name)
        if state["function"] == "file.absent":
            users = {
                pod
                for pod in runs
                for path in used[pod]
                if path == name or path.startswith(f"{name}/")
            }
            assert not users, f"{state['id']}: {name}"
    assert not runs


def test_pods_are_waited_for_before_their_files_go(rendered: dict[str, Any]) -> None:
    """No manifest is only deleted: the kubelet would still run what it says."""
    role = "bootstrap"
    absent = rendered["debian-12"]["sls"][f"metalk8s.roles.{role}.absent"]["states"]
    forward = rendered["debian-12"]["sls"][f"metalk8s.roles.{role}"]["states"]
    run = {
        s["arguments"]["name"] for s in forward if s["function"] == "metalk8s_static_pod.managed"
    }
    stopped = {s["arguments"]["name"] for s in absent if s["function"] == POD}
    folder = rendered["debian-12"]["map"]["kubelet"]["static_pods"]
    assert run <= stopped
    removed = {s["arguments"]["name"] for s in absent if s["function"] == "file.absent"}
    assert not {name for name in removed if name.startswith(f"{folder}/")}


@pytest.mark.parametrize("role", ROLES)
def test_what_the_medium_brings_for_a_role_is_installed(
    rendered: dict[str, Any], role: str
) -> None:
    """Nothing is shipped that no state and no package asks for."""
    states = rendered["debian-12"]["sls"][f"metalk8s.roles.{role}"]["states"]
    installed = {
        package if isinstance(package, str) else next(iter(package))
        for state in states
        if state["function"] == "pkg.installed"
        for package in state["arguments"]["pkgs"]
    }
    assert set(PINS.debian_roles[role]) - installed <= BY_THEMSELVES


def test_an_engine_elsewhere(rendered: dict[str, Any]) -> None:
    """Its folder and its socket are those of the site, for whoever asks it."""
    assert rendered["node"]["errors"] == []
    files = {}
    for state in rendered["node"]["sls"]["metalk8s.roles.node"]["states"]:
        if "file" in state:
            files[state["file"]["path"]] = state["file"]["text"]
    engine = tomllib.loads(files["/etc/containerd/config.toml"])
    assert (engine["root"], engine["grpc"]["address"]) == ("/data/engine", "/run/site/engine.sock")
    assert "endpoint=unix:///run/site/engine.sock" in files["/var/lib/kubelet/kubeadm-flags.env"]
    annotations = rendered["node"]["map"]["cluster"]["annotations"]
    assert annotations["kubeadm.alpha.kubernetes.io/cri-socket"] == "/run/site/engine.sock"


def test_the_driver_of_control_groups(rendered: dict[str, Any]) -> None:
    """Without a choice of the site, engine and kubelet leave them to systemd."""
    files = files_of(rendered, "debian-12")
    assert "SystemdCgroup = true" in files["/etc/containerd/config.toml"]
    assert "\ncgroupDriver: systemd\n" in files["/var/lib/kubelet/config.yaml"]


@pytest.mark.parametrize(
    ("machine", "resolver"),
    [
        ("debian-12", "/etc/resolv.conf"),
        ("debian-12-keepalived", "/run/systemd/resolve/resolv.conf"),
    ],
)
def test_the_resolver_of_pods(rendered: dict[str, Any], machine: str, resolver: str) -> None:
    """Pods get no stub that answers on the node's loopback interface only."""
    text = files_of(rendered, machine)["/var/lib/kubelet/config.yaml"]
    assert f"\nresolvConf: {resolver}\n" in text


def test_authorities_are_made_once(rendered: dict[str, Any]) -> None:
    """Neither another size of keys nor another age makes one anew; what is missing stops all."""
    states = rendered["debian-12"]["sls"]["metalk8s.authorities"]["states"]
    functions = [state["function"] for state in states]
    first = functions.index("metalk8s_authorities.intact")
    makers = [i for i, name in enumerate(functions) if name.startswith("metalk8s_pki.")]
    assert first < min(makers) < max(makers) < functions.index("metalk8s_authorities.recorded")
    for number in makers:
        arguments = states[number]["arguments"]
        if functions[number] == "metalk8s_pki.private_key":
            assert (arguments["key_bits"], arguments["kept"]) == (3072, True)
    pairs = states[first]["arguments"]["pairs"]
    assert len(pairs) == 6


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("role", ROLES)
def test_loopback_is_never_open_to_neighbours(
    rendered: dict[str, Any], machine: str, role: str
) -> None:
    """Rules are there before the setting that needs them, and go after it (CVE-2020-8558)."""

    def order(sls: str) -> list[str]:
        return [state["id"] for state in rendered[machine]["sls"][sls]["states"]]

    forward, back = order(f"metalk8s.roles.{role}"), order("metalk8s.roles.bootstrap.absent")
    loaded = forward.index("The rules of MetalK8s are loaded")
    for later in (
        "Have the settings of the kernel at every start",
        "Set net ipv4 conf all route_localnet",
        "Run the kubelet",
    ):
        assert loaded < forward.index(later)
    assert back.index("Close loopback to neighbours") < back.index("Unload the rules of MetalK8s")
