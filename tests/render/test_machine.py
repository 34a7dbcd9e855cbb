"""Machines among others: what leaves with them, and where the virtual address may be."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.salt.loader import load

from .conftest import NUMBER, OTHERS, OWN

pytestmark = pytest.mark.render


def states(rendered: dict[str, Any], machine: str, sls: str) -> list[dict[str, Any]]:
    found = rendered[f"leaving {machine}"]["sls"][f"metalk8s.{sls}"]
    assert found["errors"] == []
    listed: list[dict[str, Any]] = found["states"]
    return listed


@pytest.mark.parametrize("machine", ["worker", "master"])
def test_the_minion_leaves_last(rendered: dict[str, Any], machine: str) -> None:
    """Until it has said how it went, nothing of its own goes; etcd is asked before all."""
    [first, *middle, last] = states(rendered, machine, "machine.absent")
    assert first["function"] == "metalk8s_etcd.left"
    assert last["function"] == "metalk8s_machine.minion_leaves"
    files = set(last["arguments"]["files"])
    known = rendered[f"leaving {machine}"]["map"]
    assert f"{known['pki']['authorities']['salt']['path']}.crt" in files
    for state in middle:
        name = state["arguments"]["name"]
        assert not any(file == name or file.startswith(f"{name}/") for file in files), state["id"]
        assert name != known["salt_minion"]["service"]
    parts = {state["sls"] for state in middle}
    assert {f"metalk8s.{name}.absent" for name in ("etcd", "kube-apiserver", "kubelet")} <= parts
    assert not parts & {f"metalk8s.{name}.absent" for name in ("cluster", "kube-proxy")}


@pytest.mark.parametrize("machine", ["worker", "master"])
def test_what_no_role_needs_goes(rendered: dict[str, Any], machine: str) -> None:
    """What a machine has, stays; of a master that is a worker now, nothing is left."""
    parts = {state["sls"] for state in states(rendered, machine, "machine.subtracted")}
    kept = {f"metalk8s.{name}.absent" for name in ("kubelet", "balancer", "firewall", "repo")}
    control = {f"metalk8s.{name}.absent" for name in ("kube-apiserver", "archive", "keepalived")}
    assert not parts & kept
    assert parts & control == (control if machine == "worker" else set())


def test_the_first_machine_leaves_alone(rendered: dict[str, Any]) -> None:
    """The others could not go on for long without it."""
    [error] = rendered["leaving first"]["sls"]["metalk8s.machine.absent"]["errors"]
    assert "node is the bootstrap machine of first, third, which cannot be without it" in error


def test_the_virtual_address_is_for_masters(rendered: dict[str, Any]) -> None:
    """Each tells all others, none itself; a machine without an API server has no keepalived."""
    worker = states(rendered, "worker", "keepalived")
    assert {state["function"] for state in worker} == {
        *("cmd.run", "file.absent", "metalk8s_static_pod.absent"),
    }
    files = {
        state["file"]["path"].rpartition("/")[2]: state["file"]["text"]
        for state in states(rendered, "master", "keepalived")
        if "file" in state
    }
    peers = files["keepalived.conf"].partition("unicast_peer {")[2].partition("}")[0].split()
    assert peers == ["10.100.0.5", "10.100.0.7"]
    assert "unicast_src_ip 10.100.0.2\n" in files["keepalived.conf"]
    assert "chain input" not in files["redirection.nft"], "only who is alone drops VRRP"


@pytest.mark.parametrize(
    ("machine", "others"),
    [("debian-12", []), ("first restored", ["second", "third"]), ("first among others", None)],
)
def test_who_joined_is_known_without_the_cluster(
    rendered: dict[str, Any], machine: str, others: list[str] | None
) -> None:
    """Restored without /var, a machine finds no cluster: who is pinned in /etc has one."""
    found = rendered[machine]["sls"]["metalk8s.etcd.running"]
    assert found["errors"] == []
    [asked] = [one for one in found["states"] if one["function"] == "metalk8s_etcd.member"]
    assert asked["arguments"]["first"] is True
    assert asked["arguments"]["others"] == (sorted(OTHERS) if others is None else others)


def test_a_reset_forgets_who_joined(rendered: dict[str, Any]) -> None:
    """The machine begins a cluster again afterwards."""
    absent = rendered["debian-12"]["sls"]["metalk8s.roles.bootstrap.absent"]["states"]
    gone = {one["arguments"]["name"] for one in absent if one["function"] == "file.absent"}
    assert load("_modules/metalk8s_machines").PINS in gone


def test_a_master_without_etcd_learns_of_members(rendered: dict[str, Any]) -> None:
    """By the states of its role, so nothing else changes; an API server comes by deployment."""
    sls = rendered["master serves"]["sls"]
    neighbours, role = (sls[f"metalk8s.{name}"] for name in ("neighbours", "roles.master"))
    assert (neighbours["errors"], role["errors"]) == ([], [])
    [manifest] = [one for one in neighbours["states"] if one["id"] == "Run the API server"]
    servers = ",".join(f"https://{address}:2379" for address in sorted(OTHERS.values()))
    assert f"--etcd-servers={servers}\n" in manifest["file"]["text"]
    there = [(one["id"], one["arguments"]) for one in role["states"]]
    for one in neighbours["states"]:
        assert (one["id"], one["arguments"]) in there
    for machine in ("master will serve", "debian-12-master"):
        states = rendered[machine]["sls"]["metalk8s.neighbours"]["states"]
        assert not {one["sls"] for one in states if "kube-apiserver" in one["sls"]}


def test_a_master_asks_its_own_api_server(rendered: dict[str, Any]) -> None:
    """Whoever administers may ask another machine's, which says nothing of this one."""
    states = rendered["debian-12-master"]["sls"]["metalk8s.roles.master"]["states"]
    ids = [one["id"] for one in states]
    [own] = [one for one in states if one["id"] == "The API server of this machine answers"]
    assert own["function"] == "metalk8s_tls.answers"
    assert own["arguments"]["name"] == f"https://{OWN}:6443/readyz"
    assert own["arguments"]["authority"] == "/etc/kubernetes/pki/ca.crt"
    assert ids.index("Run the API server") < ids.index(own["id"])


def test_a_name_that_is_a_number(rendered: dict[str, Any]) -> None:
    """It stays a text, whatever YAML makes of it without quotes."""
    read = yaml.safe_load(NUMBER)
    assert read != NUMBER
    configurations = set()
    for sls in rendered[NUMBER]["sls"].values():
        assert sls["errors"] == []
        for state in sls["states"]:
            assert read not in [state["arguments"].get(key) for key in ("name", "node", "pod")]
            text = state.get("file", {}).get("text", "")
            assert not re.search(rf"(?m)^[ -]*([A-Za-z_-]+: *)?{NUMBER}$", text), state["id"]
            if re.search("(?m)^id: ", text) and "minion" in state["file"]["path"]:
                configurations.add(state["file"]["path"])
                assert yaml.safe_load(text)["id"] == NUMBER
    assert len(configurations) >= 2
