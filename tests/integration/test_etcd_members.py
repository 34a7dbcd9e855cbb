"""Members of a real etcd, on addresses of the loopback network: they join, lose their data, leave.

States and modules are those of the tree, etcd and etcdctl those that were built. Runs ``openssl``.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import time
import types
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.conftest import require, run
from tests.unit.salt.loader import load

pytestmark = pytest.mark.integration

NAMES = ("one", "two", "three")
# Of this process alone, whoever else tests beside it.
NETWORK = f"127.{1 + os.getpid() // 250 % 250}.{1 + os.getpid() % 250}"


def certify(folder: pathlib.Path, addresses: list[str]) -> None:
    """Make one certificate, its own authority, for all members and whoever asks them."""
    names = ",".join(f"IP:{address}" for address in addresses)
    run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-keyout", folder / "healthcheck-client.key", "-out", folder / "ca.crt"),
        *("-days", "2", "-subj", "/CN=etcd", "-addext", f"subjectAltName={names}"),
    )
    shutil.copy(folder / "ca.crt", folder / "healthcheck-client.crt")


class Fleet:
    """Machines that have nothing but a folder and an address each."""

    def __init__(self, folder: pathlib.Path, programs: pathlib.Path) -> None:
        self.folder, self.programs = folder, programs
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(NAMES, 1)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.pillar: dict[str, Any] = {"metalk8s": {"nodes": {}}}
        self.modules: dict[tuple[str, bool], types.SimpleNamespace] = {}
        certify(folder, [*self.addresses.values(), "127.0.0.1"])  # where connections come from

    def data(self, name: str) -> pathlib.Path:
        return self.folder / name / "data"

    def knows(self, *names: str) -> None:
        """Let the pillar of all machines name some of them."""
        self.pillar["metalk8s"]["nodes"].clear()
        for name in names:
            node = {"roles": ["etcd"], "address": self.addresses[name]}
            self.pillar["metalk8s"]["nodes"][name] = node

    def at(self, name: str, test: bool = False) -> types.SimpleNamespace:
        """Load the modules as a machine has them."""
        if (name, test) not in self.modules:
            (self.folder / name).mkdir(exist_ok=True)
            functions: dict[str, Callable[..., Any]] = {}
            found = {}
            for module in ("metalk8s_etcd", "metalk8s_etcd_data", "metalk8s_membership"):
                found[module] = load(f"_modules/{module}", pillar=self.pillar, salt=functions)
                functions |= {
                    f"{module}.{key}": value
                    for key, value in vars(found[module]).items()
                    if isinstance(value, types.FunctionType) and not key.startswith("_")
                }
            etcd = found["metalk8s_etcd"]
            etcd.FOLDER, etcd.LOOPBACK = str(self.folder), self.addresses[name]
            etcd.DIAL, etcd.COMMAND, etcd.PAUSE = 1, 4, 0.2
            found["metalk8s_etcd_data"].RECORD = str(self.folder / name / "initial.json")
            no_pod = {"metalk8s_static_pod.absent": lambda name, pod: {"result": True}}
            state = load(
                "_states/metalk8s_etcd", salt=functions, states=no_pod, opts={"test": test}
            )
            state.PAUSE = 0.2
            self.modules[name, test] = types.SimpleNamespace(
                etcd=etcd, data=found["metalk8s_etcd_data"], state=state
            )
        return self.modules[name, test]

    def becomes_member(self, name: str, test: bool = False) -> dict[str, Any]:
        others = [other for other in self.pillar["metalk8s"]["nodes"] if other != name]
        answer: dict[str, Any] = self.at(name, test).state.member(
            name,
            address=self.addresses[name],
            first=not others,
            others=others,
            data=str(self.data(name)),
            manifest="/nonexistent",
        )
        return answer

    def start(self, name: str) -> None:
        """Run etcd as its manifest does."""
        address, urls = self.addresses[name], self.at(name).etcd
        client, peer = urls.client_url(address), urls.peer_url(address)
        initial = self.at(name).data.initial(name, peer)
        pair = (f"{self.folder}/healthcheck-client.crt", f"{self.folder}/healthcheck-client.key")
        argv = [
            *(str(self.programs / "etcd"), f"--name={name}", f"--data-dir={self.data(name)}"),
            *(f"--advertise-client-urls={client}", f"--listen-client-urls={client}"),
            *(f"--initial-advertise-peer-urls={peer}", f"--listen-peer-urls={peer}"),
            f"--initial-cluster={initial['cluster']}",
            f"--initial-cluster-state={initial['state']}",
            f"--listen-metrics-urls=http://{address}:2381",
            *(f"--cert-file={pair[0]}", f"--key-file={pair[1]}", "--client-cert-auth=true"),
            *(f"--peer-cert-file={pair[0]}", f"--peer-key-file={pair[1]}"),
            *("--peer-client-cert-auth=true", f"--peer-trusted-ca-file={self.folder}/ca.crt"),
            *(f"--trusted-ca-file={self.folder}/ca.crt", "--unsafe-no-fsync=true"),
        ]
        log = (self.folder / name / "log").open("ab")
        with log:
            self.running[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def votes(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.at(name).state.votes(
            name, address=self.addresses[name], timeout=60
        )
        return answer

    def joins(self, name: str) -> None:
        """Do all that a highstate does."""
        assert self.becomes_member(name)["result"] is True
        self.start(name)
        answer = self.votes(name)
        assert answer["result"] is True, answer["comment"]

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def members(self, name: str) -> dict[str, bool]:
        """Tell who is a member, and whether it learns."""
        return {one["name"]: one["learner"] for one in self.at(name).etcd.members()}

    def asks(self, name: str, *arguments: str) -> str:
        """Call etcdctl as a client of one member; quorums are elected within seconds."""
        certificate = f"--cert={self.folder}/healthcheck-client.crt"
        key, endpoint = (
            certificate.replace("crt", "key").replace("cert", "key"),
            self.addresses[name],
        )
        return run(
            *(self.programs / "etcdctl", f"--endpoints=https://{endpoint}:2379"),
            *(f"--cacert={self.folder}/ca.crt", certificate, key, *arguments),
        )


@pytest.fixture
def fleet(
    tmp_path: pathlib.Path, build_root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    """Give machines that know each other; end what runs on them."""
    require("openssl")
    programs = build_root / "packages/etcd/compiled"
    if not (programs / "etcdctl").is_file():
        pytest.fail(f"no etcd in {programs}: run ./doit.sh iso")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    found = Fleet(tmp_path, programs)
    try:
        yield found
    finally:
        for name in [*found.running]:
            found.kill(name)


def health(fleet: Fleet, name: str) -> int:
    """Ask as the kubelet's probe does; give the status of the answer."""
    with contextlib.suppress(urllib.error.HTTPError):
        url = f"http://{fleet.addresses[name]}:2381/health"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    return 503


def test_from_one_to_three_and_back(fleet: Fleet) -> None:
    """Each joins as a learner and votes; the second time there is nothing to do; one leaves."""
    foreseen = fleet.becomes_member("one", test=True)
    assert (foreseen["result"], foreseen["changes"]["begins"]["state"]) == (None, "new")
    fleet.joins("one")
    fleet.asks("one", "put", "a", "1")
    fleet.knows(*NAMES)
    for name in ("two", "three"):
        assert fleet.becomes_member(name, test=True)["changes"]["member"] == "join"
        fleet.joins(name)
    assert fleet.members("one") == dict.fromkeys(NAMES, False)
    assert fleet.asks("three", "get", "a", "--print-value-only").strip() == "1"
    for name in NAMES:
        for answer in (fleet.becomes_member(name), fleet.votes(name)):
            assert (answer["result"], answer["changes"]) == (True, {}), answer
        assert health(fleet, name) == 200
    state = fleet.at("one").etcd.status()
    assert [one["healthy"] for one in state] == [True] * 3
    assert fleet.at("two").etcd.leader() in NAMES
    # Whoever counts on it is asked first; whoever was removed may go.
    machine = fleet.at("three").state
    others = {name: fleet.addresses[name] for name in ("one", "two")}
    refused = machine.left("three", others=others, data=str(fleet.data("three")))
    assert refused["result"] is False
    assert "one, two count on it" in refused["comment"]
    assert fleet.at("one").etcd.remove_member("three") == {
        "changed": True,
        "members": ["one", "two"],
    }
    assert machine.left("three", others=others, data=str(fleet.data("three")))["result"] is True
    assert fleet.at("one").etcd.remove_member("three")["changed"] is False
    fleet.kill("three")
    refused = fleet.becomes_member("three")
    assert refused["result"] is False
    assert "of a member that was removed" in refused["comment"]
    shutil.rmtree(fleet.data("three"))
    fleet.joins("three")
    assert fleet.members("one") == dict.fromkeys(NAMES, False)


def test_killed_on_the_way(fleet: Fleet) -> None:
    """The next run goes on where the former ended; nobody else can begin meanwhile."""
    fleet.joins("one")
    fleet.knows(*NAMES)
    assert fleet.becomes_member("two")["changes"]["member"] == "join"
    assert fleet.members("one") == {"": True, "one": False}
    (fleet.folder / "two/initial.json").unlink()
    again = fleet.becomes_member("two")
    assert list(again["changes"]) == ["begins"]
    refused = fleet.becomes_member("three")
    assert refused["result"] is False
    assert "one new member at a time" in refused["comment"]
    fleet.start("two")
    until = time.monotonic() + 30
    while fleet.members("one") != {"one": False, "two": True} and time.monotonic() < until:
        time.sleep(0.1)
    # A learner is well for its probes, and serves nobody; the one that votes goes on alone.
    while health(fleet, "two") != 200 and time.monotonic() < until:
        time.sleep(0.1)
    assert health(fleet, "two") == 200
    fleet.kill("two")
    fleet.asks("one", "put", "a", "1")
    assert fleet.becomes_member("two")["changes"] == {}
    fleet.start("two")
    assert fleet.votes("two")["changes"] == {"votes": "two"}
    fleet.joins("three")


def test_lost_data(fleet: Fleet) -> None:
    """A member without its data begins anew when the others can decide that, and not else."""
    fleet.joins("one")
    fleet.knows(*NAMES)
    fleet.joins("two")
    fleet.asks("one", "put", "a", "1")
    fleet.kill("two")
    shutil.rmtree(fleet.data("two"))
    refused = fleet.becomes_member("two")
    assert refused["result"] is False
    assert "of 2 members that vote, 0 others are well" in refused["comment"]


def test_one_of_three_loses_its_data(fleet: Fleet) -> None:
    """Also the first one, which once began the cluster: it never begins a second."""
    fleet.joins("one")
    fleet.knows(*NAMES)
    fleet.joins("two")
    fleet.joins("three")
    fleet.asks("one", "put", "a", "1")
    fleet.kill("one")
    shutil.rmtree(fleet.data("one") / "member/wal")
    answer = fleet.becomes_member("one")
    assert (answer["result"], answer["changes"]["member"]) == (True, "replace"), answer
    assert not (fleet.data("one") / "member").exists()
    fleet.start("one")
    assert fleet.votes("one")["changes"] == {"votes": "one"}
    assert fleet.asks("one", "get", "a", "--print-value-only").strip() == "1"
    assert fleet.members("two") == dict.fromkeys(NAMES, False)
    for name in NAMES:
        fleet.kill(name)
    shutil.rmtree(fleet.data("one"))
    refused = fleet.becomes_member("one")
    assert refused["result"] is False
    assert "would begin another cluster than that of two, three" in refused["comment"]


def test_data_of_another_cluster(fleet: Fleet) -> None:
    """They stay as they are, until somebody removes them."""
    fleet.joins("two")
    fleet.kill("two")
    fleet.joins("one")
    fleet.knows("one", "two")
    refused = fleet.becomes_member("two")
    assert refused["result"] is False
    assert "of another cluster" in refused["comment"]
    dead = fleet.at("two").state.left(
        "two", others={"one": fleet.addresses["one"]}, data=str(fleet.data("two"))
    )
    assert dead["result"] is True
    with pytest.raises(fleet.at("one").etcd.EtcdError, match="only member of etcd that votes"):
        fleet.at("one").etcd.remove_member("one")
