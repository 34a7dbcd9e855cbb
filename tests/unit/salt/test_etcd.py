"""What etcd says, through an ``etcdctl`` that stands in for the real one."""

from __future__ import annotations

import itertools
import json
import pathlib
import socket
import struct
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .loader import load

# Answers with a file named by endpoint and question; without one it refuses as etcdctl does.
ETCDCTL = """#!/bin/sh
echo "$*" >>"$0.log"
env >"$0.environment"
for word; do
    case $word in
        --endpoints=https://*) at=${word#--endpoints=https://} ;;
        --*) ;;
        *) asked=${asked:+$asked-}$word ;;
    esac
done
file=$(dirname "$0")/$(echo "${at%%:*}-$asked" | tr / _)
if [ -f "$file" ]; then cat "$file"; exit; fi
echo '{"level":"warn","msg":"retrying of unary invoker failed"}' >&2
echo "Error: $(cat "$file.error" 2>/dev/null || echo etcdserver: no such thing)" >&2
exit 1
"""
BIG = 2**64 - 2  # numbers of members have all 64 bits


def said(number: int, name: str, host: str, learner: bool = False) -> dict[str, Any]:
    """Describe a member as etcdctl does: what is empty is left out."""
    found: dict[str, Any] = {"ID": number, "peerURLs": [f"https://{host}:2380"]}
    if name:
        found |= {"name": name, "clientURLs": [f"https://{host}:{{port}}"]}
    return found | ({"isLearner": True} if learner else {})


class Programs:
    """A folder that is in front of all others in PATH."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        self.folder, self.port = folder, port
        (folder / "etcdctl").write_text(ETCDCTL)
        (folder / "etcdctl").chmod(0o755)

    def answer(self, host: str, question: str, document: Any) -> None:
        text = json.dumps(document).replace("{port}", str(self.port))
        (self.folder / f"{host}-{question}".replace("/", "_")).write_text(text)

    def lists(self, host: str, *members: dict[str, Any], question: str = "member-list") -> None:
        header = {"cluster_id": BIG - 1, "member_id": 1}
        self.answer(host, question, {"header": header, "members": list(members)})

    def asked(self) -> list[str]:
        """Say what was asked, without the flags that are always the same."""
        lines = (self.folder / "etcdctl.log").read_text().splitlines()
        return [line.partition("--write-out=")[2].partition(" ")[2] for line in lines]


@pytest.fixture
def programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """Let somebody listen at all addresses of loopback."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with socket.create_server(("127.0.0.2", port)), socket.create_server(("127.0.0.3", port)):
            yield Programs(tmp_path, port)


@pytest.fixture
def etcd(programs: Programs) -> types.ModuleType:
    """Load the module of a machine beside 127.0.0.2 and 127.0.0.3."""
    nodes = {
        "three": {"roles": ["etcd"], "address": "127.0.0.3"},
        "two": {"roles": ["bootstrap", "infra"], "address": "127.0.0.2"},
        "away": {"roles": ["etcd"], "address": ""},
        "worker": {"roles": ["node"], "address": "127.0.0.9"},
    }
    module = load("_modules/metalk8s_etcd", pillar={"metalk8s": {"nodes": nodes}})
    module.CLIENTS, module.PAUSE, module.FOLDER = programs.port, 0, str(programs.folder)
    return module


ONE, TWO = said(BIG, "one", "127.0.0.1"), said(2, "two", "127.0.0.2")
EXPECTED = said(3, "", "127.0.0.3", learner=True)


def test_members(etcd: Any, programs: Programs) -> None:
    """The first that answers is believed; numbers are as etcdctl shows them; no proxy is used."""
    programs.lists("127.0.0.3", ONE, TWO, EXPECTED)
    found = etcd.members()
    assert [(one["id"], one["name"], one["learner"]) for one in found] == [
        *(("3", "", True), (f"{BIG:x}", "one", False), ("2", "two", False)),
    ]
    assert {one["cluster"] for one in found} == {f"{BIG - 1:x}"}
    log = (programs.folder / "etcdctl.log").read_text().splitlines()
    ends = [line.split()[0].removeprefix("--endpoints=") for line in log]
    assert ends == [f"https://127.0.0.{number}:{programs.port}" for number in (1, 3)]
    assert "PROXY" not in (programs.folder / "etcdctl.environment").read_text()
    assert "--dial-timeout=3s --command-timeout=8s" in log[0]


def test_nobody_answers(etcd: Any, programs: Programs) -> None:
    """Each with its reason, and whom nobody listens for is not waited for."""
    (programs.folder / "127.0.0.2-member-list.error").write_text("etcdserver: rpc not supported")
    closed = "https://127.0.0.1:1"
    with pytest.raises(etcd.EtcdError) as caught:
        etcd.members([closed, f"https://127.0.0.2:{programs.port}"])
    assert str(caught.value) == (
        f"etcd at {closed} does not list its members: [Errno 111] Connection refused; "
        f"etcd at https://127.0.0.2:{programs.port} does not list its members: "
        "etcdserver: rpc not supported"
    )
    assert len(programs.asked()) == 1


def test_an_etcdctl_that_hangs_or_is_not_there(etcd: Any, programs: Programs) -> None:
    """Every question has an end."""
    (programs.folder / "etcdctl").write_text("#!/bin/sh\nexec sleep 60\n")
    etcd.LONGEST = 0.2
    with pytest.raises(etcd.EtcdError, match=r"timed out after 0\.2 seconds"):
        etcd.members()
    (programs.folder / "ca.crt").touch()
    (programs.folder / "healthcheck-client.crt").touch()
    assert etcd.can_ask() is True
    (programs.folder / "etcdctl").unlink()
    assert etcd.can_ask() is False
    with pytest.raises(etcd.EtcdError, match="No such file"):
        etcd.members()


def test_status(etcd: Any, programs: Programs) -> None:
    """A learner is well when it has a leader; who votes has to answer from a quorum, too."""
    learner = said(4, "four", "127.0.0.3", learner=True)
    programs.lists("127.0.0.1", ONE, TWO, EXPECTED, learner)
    state = {"version": "3.4.23", "leader": BIG, "raftIndex": 7, "dbSize": 4096}
    for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
        programs.answer(host, "endpoint-status", [{"Endpoint": host, "Status": state}])
    programs.answer("127.0.0.1", "endpoint-health", [{"health": True}])
    (programs.folder / "127.0.0.2-endpoint-health.error").write_text("unhealthy cluster")
    found = {one["name"]: one for one in etcd.status()}
    assert [one for one in found if found[one]["healthy"]] == ["four", "one"]
    assert [one for one in found if found[one]["leader"]] == ["one"]
    assert (found["one"]["raft_index"], found["one"]["size"]) == (7, 4096)
    assert found["one"]["version"] == "3.4.23"
    assert found[""]["problem"] == "a machine at https://127.0.0.3:2380 has not started its member"
    assert found[""]["started"] is False
    assert "does not answer from a quorum: unhealthy cluster" in found["two"]["problem"]
    assert etcd.leader() == "one"
    full = state | {"errors": ["alarm:NOSPACE"], "leader": 0}
    programs.answer("127.0.0.1", "endpoint-status", [{"Status": full}])
    assert [one["problem"] for one in etcd.status() if one["name"] == "one"] == ["alarm:NOSPACE"]
    assert etcd.leader() == ""


def test_add_learner(etcd: Any, programs: Programs) -> None:
    """One that etcd does not take yet is offered again; a refusal is quoted."""
    programs.lists("127.0.0.1", ONE)
    question = "member-add-two"
    error = programs.folder / f"127.0.0.1-{question}.error"
    error.write_text("etcdserver: Peer URLs already exists")
    with pytest.raises(etcd.EtcdError, match="does not expect two as a member: etcdserver: Peer"):
        etcd.add_learner("two", "127.0.0.2")
    error.write_text("etcdserver: unhealthy cluster")
    now = itertools.count(step=30)  # however long an etcdctl takes
    etcd.time = types.SimpleNamespace(monotonic=now.__next__, sleep=lambda _: None)
    with pytest.raises(etcd.EtcdError, match="unhealthy cluster"):
        etcd.add_learner("two", "127.0.0.2")
    assert len(programs.asked()) > 4
    programs.lists("127.0.0.1", ONE, TWO, question=question)
    assert [one["name"] for one in etcd.add_learner("two", "127.0.0.2")] == ["one", "two"]
    assert programs.asked()[-1] == ("member add two --learner --peer-urls=https://127.0.0.2:2380")


def test_promote(etcd: Any, programs: Programs) -> None:
    """Who votes already is left alone; etcdctl has no JSON for the answer."""
    programs.lists("127.0.0.1", ONE, said(17, "two", "127.0.0.2", learner=True))
    (programs.folder / "127.0.0.1-member-promote-11").write_text("Member promoted in cluster")
    assert etcd.promote("two") is True
    assert "--write-out=simple" in (programs.folder / "etcdctl.log").read_text().splitlines()[-1]
    assert etcd.promote("one") is False
    with pytest.raises(etcd.EtcdError, match="no member three that has started"):
        etcd.promote("three")


def test_remove_member(etcd: Any, programs: Programs) -> None:
    """Another one that votes is asked; one that never started goes by its address."""
    programs.lists("127.0.0.1", ONE, TWO, EXPECTED)
    programs.lists("127.0.0.2", ONE, TWO, EXPECTED)
    programs.answer("127.0.0.2", f"member-remove-{BIG:x}", {})
    assert etcd.remove_member("one") == {"changed": True, "members": ["3", "two"]}
    programs.answer("127.0.0.2", "member-remove-3", {})
    programs.answer("127.0.0.1", "member-remove-3", {})
    for arguments in (("three",), ("unknown", "127.0.0.3")):
        assert etcd.remove_member(*arguments) == {"changed": True, "members": ["one", "two"]}
    # Whatever is known of its address: the number is what those are told whom it keeps out.
    assert etcd.remove_member("3") == {"changed": True, "members": ["one", "two"]}
    for name in ("worker", "2"):
        assert etcd.remove_member(name)["changed"] is False
    programs.lists("127.0.0.1", ONE, EXPECTED, said(4, "four", "127.0.0.2", learner=True))
    with pytest.raises(etcd.EtcdError, match="one is the only member of etcd that votes"):
        etcd.remove_member("one")


@pytest.fixture
def data(tmp_path: pathlib.Path) -> Any:
    module = load("_modules/metalk8s_etcd_data")
    module.RECORD = str(tmp_path / "initial.json")
    return module


def number(value: int) -> bytes:
    """Write a number as protocol buffers do."""
    text = b""
    while value > 0x7F:
        text, value = text + bytes([value & 0x7F | 0x80]), value >> 7
    return text + bytes([value])


def log(member: int, cluster: int, kind: int = 1) -> bytes:
    """Write the beginning of a log as etcd 3.4 does: a checksum, and whose it is."""
    whose = b"\x08" + number(member) + b"\x10" + number(cluster)
    text = b""
    for record in (
        b"\x08\x04\x10\x00",
        b"\x08" + number(kind) + b"\x10" + number(9) + b"\x1a" + number(len(whose)) + whose,
    ):
        padding = -len(record) % 8
        length = len(record) | ((0x80 | padding) << 56 if padding else 0)
        text += struct.pack("<Q", length) + record + bytes(padding)
    return text + bytes(4096)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_whose_data(tmp_path_factory: Any, member: int, cluster: int) -> None:
    folder = tmp_path_factory.mktemp("data", numbered=True)
    identity = load("_modules/metalk8s_etcd_data").identity
    assert identity(str(folder)) == {}
    wal = folder / "member/wal"
    wal.mkdir(parents=True)
    (wal / "0.tmp").write_bytes(b"preallocated")
    assert identity(str(folder)) == {}
    (wal / "0000000000000000-0000000000000000.wal").write_bytes(log(member, cluster))
    assert identity(str(folder)) == {"id": f"{member:x}", "cluster": f"{cluster:x}"}


@given(st.binary(max_size=64) | st.builds(log, st.just(1), st.just(2), st.integers(2, 5)))
def test_damaged_data(tmp_path_factory: Any, text: bytes) -> None:
    """Whatever is there, it is an error that names the file, or something that could be a log."""
    module = load("_modules/metalk8s_etcd_data")
    wal = tmp_path_factory.mktemp("data", numbered=True) / "member/wal"
    wal.mkdir(parents=True)
    (wal / "a.wal").write_bytes(text)
    with pytest.raises(module.EtcdDataError, match=r"a\.wal does not say which member wrote it"):
        module.identity(str(wal.parents[1]))


def test_how_it_began(data: Any) -> None:
    """Before anything is decided, it would be a cluster of its own; then it stays as it was."""
    assert data.recorded() == {}
    assert data.initial("one", "https://h:2380") == {
        "cluster": "one=https://h:2380",
        "state": "new",
    }
    file = pathlib.Path(data.RECORD)
    file.with_name(".initial.json.new").write_text("half")
    data.keep({"cluster": "a=b", "state": "existing"})
    assert data.initial("one", "https://h:2380") == {"cluster": "a=b", "state": "existing"}
    assert [path.name for path in file.parent.iterdir()] == ["initial.json"]
    assert file.stat().st_mode & 0o777 == 0o644
