"""Machines among others: what leaves with them, and where the virtual address may be."""

from __future__ import annotations

from typing import Any

import pytest

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
