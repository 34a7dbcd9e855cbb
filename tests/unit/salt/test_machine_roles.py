"""What leaves a machine with a role, for every set of roles, by the state files as they are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from .loader import STATES, load

ROLES = ("node", "infra", "etcd", "master", "bootstrap")
SETS = [
    subset
    for length in range(1, len(ROLES) + 1)
    for subset in itertools.combinations(ROLES, length)
]


def render(path: str, default_renderer: str, saltenv: str) -> Any:
    """Read a state file as Salt would; none of them computes what it includes."""
    assert (default_renderer, saltenv) == ("jinja|yaml", "base")
    return yaml.safe_load((STATES / path.removeprefix("salt://")).read_text(encoding="utf-8"))


module = load("_modules/metalk8s_roles", salt={"slsutil.renderer": render})
NEEDED = {role: module.components(role, "base") for role in ROLES}


def needed(roles: Any) -> set[str]:
    return {name for role in roles for name in NEEDED[role]}


def leaving(role: str, roles: Any) -> list[str]:
    found: list[str] = module.leaving(role, list(roles), "base")
    assert all(name.endswith(".absent") for name in found)
    return [name.removesuffix(".absent") for name in found]


def test_roles_are_those_of_the_tree() -> None:
    """Each needs all that a node needs, and can be taken back."""
    folders = {path.name for path in (STATES / "metalk8s/roles").iterdir()}
    assert folders == set(ROLES) == set(module.ROLES)
    for role in ROLES:
        assert set(NEEDED["node"]) <= set(NEEDED[role])
        for name in NEEDED[role]:
            file = STATES / name.replace(".", "/") / "absent.sls"
            assert file.is_file(), file


@pytest.mark.parametrize("roles", SETS, ids=",".join)
def test_a_role_takes_what_no_other_needs(roles: tuple[str, ...]) -> None:
    """In the reverse order; a label that is gone already makes no difference."""
    for role in roles:
        others = [other for other in roles if other != role]
        gone = leaving(role, roles)
        assert set(gone) == needed([role]) - needed(others)
        assert gone == [name for name in reversed(NEEDED[role]) if name in gone]
        assert leaving(role, others) == gone


@pytest.mark.parametrize("order", [*itertools.permutations(ROLES)], ids=",".join)
def test_roles_that_leave_one_after_another(order: tuple[str, ...]) -> None:
    """Each component goes once, whatever the order, and none too early."""
    gone: list[str] = []
    for number, role in enumerate(order):
        gone += leaving(role, order[number:])
        assert not set(gone) & needed(order[number + 1 :])
    assert sorted(gone) == sorted(needed(order))


def test_a_machine_that_leaves() -> None:
    """It keeps nothing, and takes nothing of the cluster's; what all roles need goes last."""
    found = [name.removesuffix(".absent") for name in module.everything("base")]
    assert len(found) == len(set(found))
    assert set(found) == needed(role for role in ROLES if role != "bootstrap")
    assert found[-len(NEEDED["node"]) :] == NEEDED["node"][::-1]
    assert found.index("metalk8s.kube-apiserver") < found.index("metalk8s.etcd")


@pytest.mark.parametrize("roles", SETS, ids=",".join)
def test_what_no_role_needs(roles: tuple[str, ...]) -> None:
    """All that another role may have left, and nothing that is needed."""
    found = [name.removesuffix(".absent") for name in module.superfluous(list(roles), "base")]
    every = needed(role for role in ROLES if role != "bootstrap")
    assert set(found) == every - needed(roles)


def test_roles_are_written_down_once() -> None:
    """At the Node, where that is a change; with those whose labels have come since."""
    node: dict[str, Any] = {"metadata": {"name": "n/1"}}
    asked = []

    def call(method: str, path: str, body: Any, kubeconfig: str) -> Any:
        asked.append(method)
        assert (path, kubeconfig) == ("/api/v1/nodes/n%2F1", "k")
        node["metadata"] |= body["metadata"] if body else {}
        return node

    salt = {"metalk8s_kubernetes.call": call}
    record = load("_modules/metalk8s_roles", salt=salt).record
    assert record("n/1", "etcd,master", "k") == {"changed": True}
    assert record("n/1", "etcd,master", "k") == {"changed": False}
    assert record("n/1", "node", "k") == {"changed": True}
    assert node["metadata"]["annotations"] == {"metalk8s.scality.com/applied-roles": "node"}
    assert asked == ["GET", "PATCH", "GET", "GET", "PATCH"]
    label = "node-role.kubernetes.io/"
    node["metadata"]["labels"] = {f"{label}master": "", f"{label}control-plane": "", "etcd": ""}
    assert record("n/1", "node", "k") == {"changed": True}
    assert node["metadata"]["annotations"] == {"metalk8s.scality.com/applied-roles": "master,node"}
    assert record("n/1", "node", "k") == {"changed": False}
