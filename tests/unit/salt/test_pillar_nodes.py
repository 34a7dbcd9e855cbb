"""What the pillar says of machines, out of their Node objects."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from .loader import load

OURS = "metalk8s.scality.com/"


def node(name: str, *roles: str, host: str = "", internal: str = "", **more: Any) -> dict[str, Any]:
    """Describe a Node as the API does."""
    labels = {f"node-role.kubernetes.io/{role}": "" for role in roles}
    metadata = {"name": name, "labels": {**labels, f"{OURS}version": "2.4.0"}}
    if host:
        metadata["annotations"] = {f"{OURS}ssh-host": host}
    addresses = [{"type": "Hostname", "address": name}]
    addresses += [{"type": "InternalIP", "address": internal}] if internal else []
    return {"metadata": metadata, "status": {"addresses": addresses}, "spec": {}, **more}


class Api:
    """An API server with some Nodes, or none that answers."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes: list[dict[str, Any]] | None = list(nodes)

    def list_objects(self, api_version: str, kind: str, kubeconfig: str) -> list[dict[str, Any]]:
        assert (api_version, kind) == ("v1", "Node")
        assert pathlib.Path(kubeconfig).is_file()
        if self.nodes is None:
            raise OSError("it does not answer")
        return self.nodes


def module(api: Api) -> Any:
    functions = {"metalk8s_kubernetes.list_objects": api.list_objects}
    return load("_pillar/metalk8s_nodes", salt=functions)


@pytest.fixture
def arguments(tmp_path: pathlib.Path) -> dict[str, Any]:
    (tmp_path / "kubeconfig").touch()
    return {"kubeconfig": str(tmp_path / "kubeconfig"), "kept": str(tmp_path / "nodes.json")}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            node("first", "bootstrap", "master", "etcd", "control-plane", internal="10.0.0.1"),
            {"roles": ["bootstrap", "etcd", "master"], "address": "10.0.0.1"},
        ),
        (node("new", "etcd", host="10.0.0.2"), {"roles": ["etcd"], "address": "10.0.0.2"}),
        (node("plain"), {"roles": ["node"], "address": ""}),
        (node("odd", "storage"), {"roles": ["node"], "address": ""}),
        (node("name", host="machine.example", internal="10.0.0.3"), {"address": "10.0.0.3"}),
        (node("both", host="10.0.0.4", internal="10.0.0.5"), {"address": "10.0.0.4"}),
        (node("pods", spec={"podCIDR": "10.1.0.0/24"}), {"pod_cidr": "10.1.0.0/24"}),
        ({"metadata": {"name": "bare"}}, {"roles": ["node"], "version": "", "pod_cidr": ""}),
        ({"metadata": {"name": "bare", "labels": None, "annotations": None}}, {"address": ""}),
    ],
)
def test_what_a_node_says(found: dict[str, Any], expected: dict[str, Any]) -> None:
    described = module(Api()).described(found)
    assert set(described) == {"roles", "version", "address", "workload_address", "pod_cidr"}
    assert described == described | expected


def test_the_last_good_answer_is_kept(arguments: dict[str, Any]) -> None:
    """Whoever asks while the API server is away gets what it said last."""
    api = Api(node("first", "bootstrap", internal="10.0.0.1"))
    pillar = module(api)
    before = pillar.ext_pillar("any", {}, **arguments)
    assert set(before["metalk8s"]["nodes"]) == {"first"}
    api.nodes = None
    assert pillar.ext_pillar("any", {}, **arguments) == before
    pathlib.Path(arguments["kubeconfig"]).unlink()
    assert pillar.ext_pillar("any", {}, **arguments) == before
    api.nodes = []
    pathlib.Path(arguments["kubeconfig"]).touch()
    assert pillar.ext_pillar("any", {}, **arguments) == {"metalk8s": {"nodes": {}}}


@pytest.mark.parametrize("text", ["", "{", "[]", "5"])
def test_a_torn_file_is_no_answer(arguments: dict[str, Any], text: str) -> None:
    pathlib.Path(arguments["kubeconfig"]).unlink()
    pathlib.Path(arguments["kept"]).write_text(text, encoding="utf-8")
    assert module(Api()).ext_pillar("any", {}, **arguments) == {"metalk8s": {"nodes": {}}}


def test_who_may_not_write_goes_without(arguments: dict[str, Any]) -> None:
    """A full disk, or a folder that is gone: the answer counts, not the copy."""
    arguments["kept"] = "/proc/nowhere/nodes.json"
    found = module(Api(node("first"))).ext_pillar("any", {}, **arguments)
    assert set(found["metalk8s"]["nodes"]) == {"first"}


def test_reading_leaves_no_copy(arguments: dict[str, Any]) -> None:
    module(Api(node("first"))).ext_pillar("any", {}, **arguments, keep=False)
    assert not pathlib.Path(arguments["kept"]).exists()


def test_public_texts_come_along(arguments: dict[str, Any], tmp_path: pathlib.Path) -> None:
    for name in ("authorities", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys/redhat/8").mkdir(parents=True)
    (tmp_path / "keys/redhat/8/Base.asc").write_text("a public key\n", encoding="ascii")
    (tmp_path / "authorities/etcd.crt").write_text("a certificate\n", encoding="ascii")
    (tmp_path / "authorities/etcd.key").write_text("a key\n", encoding="ascii")
    (tmp_path / "keys/metalk8s.asc").write_text("a public key\n", encoding="ascii")
    (tmp_path / "keys/metalk8s.gpg").write_bytes(b"\x99\x01\x8d")
    places = {name: str(tmp_path / name) for name in ("authorities", "keys")}
    found = module(Api()).ext_pillar("any", {}, **arguments, **places)["metalk8s"]
    assert found["authorities"] == {"etcd": "a certificate\n"}
    assert found["signing_keys"] == dict.fromkeys(
        ("metalk8s.asc", "redhat-8-Base.asc"), "a public key\n"
    )
