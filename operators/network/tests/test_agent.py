"""The program writes the engine's file last, tells what it lacks, and goes on."""

from __future__ import annotations

import json
import os
import threading

import pytest
from fake_kernel import FakeKernel
from metalk8s_operators.report import Health
from metalk8s_pod_network import cni, events
from metalk8s_pod_network import settings as settings_module
from metalk8s_pod_network.agent import Agent
from metalk8s_pod_network.isolation.isolation import Isolation, Sources
from metalk8s_pod_network.isolation.pods import Namespace, namespace, pod
from metalk8s_pod_network.isolation.policies import policy
from metalk8s_pod_network.kernel import Kernel
from metalk8s_pod_network.peers import peer
from nodes import node, settings
from test_kernel import LINKS, OTHERS
from test_plan import BESIDE, HERE
from waiting import until


class Nodes:
    errors = 0

    def __init__(self, *items):
        self.items = None
        if items:
            self.be(*items)

    def be(self, *items):
        self.items = {item["metadata"]["name"]: peer(item) for item in items}

    def copy(self):
        return self.items


class Copy:
    errors = 0

    def __init__(self, items):
        self.items = items

    def copy(self):
        return self.items


class Bed:
    def __init__(self, folder, *items):
        self.file = folder / "10-metalk8s.conflist"
        self.nodes = Nodes(*items)
        self.fake = FakeKernel(json.loads(json.dumps(LINKS)), OTHERS)
        self.health, self.heard = Health(), threading.Event()
        self.sandboxes = folder / "results"
        self.sandboxes.mkdir()
        chosen = settings(cni=self.file, sandboxes=self.sandboxes)
        self.pods, self.namespaces, self.policies = Copy({}), Copy({}), Copy({})
        self.isolation = Isolation(chosen, Sources(self.pods, self.namespaces, self.policies))
        kernel = Kernel(self.fake.run)
        self.agent = Agent(chosen, self.nodes, self.isolation, kernel, self.health, self.heard)


@pytest.fixture
def bed(tmp_path):
    return Bed(tmp_path, HERE)


def test_ready_with_the_file_of_the_engine(bed):
    assert bed.agent.compare()
    assert bed.health.answer("/readyz") == (200, "ok\n")
    document = json.loads(bed.file.read_text())
    assert document == {
        "generated": "Generated.",
        "cniVersion": "0.3.1",
        "name": "metalk8s",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "mtu": 1450,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": "10.233.0.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    assert bed.file.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in bed.file.parent.iterdir()) == [bed.file.name, "results"]


def test_the_file_follows_range_and_mtu(bed):
    bed.agent.compare()
    first = bed.file.stat().st_mtime_ns
    bed.agent.compare()
    assert bed.file.stat().st_mtime_ns == first, "a file that is right was written"
    bed.nodes.be(node("here", "10.1.0.1", "10.233.7.0/24"))
    bed.fake.links[1]["mtu"] = 9000
    bed.agent.compare()
    [ptp, _] = json.loads(bed.file.read_text())["plugins"]
    assert (ptp["mtu"], ptp["ipam"]["ranges"]) == (8950, [[{"subnet": "10.233.7.0/24"}]])


@pytest.mark.parametrize(
    ("items", "reason"),
    [((), "not told of any machine yet"), ((BESIDE,), "no Node here")],
)
def test_nothing_is_done_before_this_machine_is_known(tmp_path, items, reason):
    bed = Bed(tmp_path, *items)
    before = bed.fake.state()
    assert not bed.agent.compare()
    status, text = bed.health.answer("/readyz")
    assert (status, reason in text) == (503, True)
    assert (bed.fake.state(), bed.file.exists()) == (before, False)


def test_without_its_node_the_kernel_is_left_alone(bed):
    """A Node that is registered anew is not there for a moment."""
    bed.nodes.be(HERE, BESIDE)
    bed.agent.compare()
    before = bed.fake.state()
    bed.nodes.be(BESIDE)
    assert not bed.agent.compare()
    assert bed.fake.state() == before


def test_no_pod_starts_before_its_routes_are_there(bed):
    bed.nodes.be(HERE, BESIDE)
    bed.fake.routes[("10.233.1.0/24", "254")] = {
        "dst": "10.233.1.0/24", "table": "254", "protocol": "4",
    }  # fmt: skip
    assert not bed.agent.compare()
    assert "File exists" in bed.health.reason
    assert not bed.file.exists()
    del bed.fake.routes[("10.233.1.0/24", "254")]
    assert bed.agent.compare()
    assert bed.file.exists()


def test_who_is_left_out_is_told_once(bed, capsys):
    bed.nodes.be(HERE, node("evil", "8.8.8.8", "10.233.9.0/24"))
    bed.agent.compare()
    bed.agent.compare()
    said = capsys.readouterr().err
    assert said.count("Node evil is left out") == 1
    assert "metalk8s_pod_network_left_out 1\n" in bed.health.answer("/metrics")[1]


def test_it_compares_at_a_word_and_ends(bed):
    stop = threading.Event()
    thread = threading.Thread(target=bed.agent.run, args=(stop, 0.01))
    thread.start()
    until(bed.file.exists, "the first comparison")
    bed.nodes.be(HERE, BESIDE)
    bed.heard.set()
    until(lambda: ("10.233.1.0/24", "254") in bed.fake.routes, "the second")
    stop.set()
    bed.heard.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_file_of_others_is_replaced_whole(tmp_path):
    file = tmp_path / "a.conflist"
    file.write_bytes(b"\xff\xfe")
    assert cni.write(file, "text")
    assert file.read_text() == "text"
    assert not cni.write(file, "text")


def test_the_command_line(tmp_path):
    words = (
        "--api=https://127.0.0.1:7443 --node=a --pods=10.233.0.0/16 --machines=10.1.0.0/24 "
        "--machines=10.2.0.0/24 --vxlan-id=1 --vxlan-port=2 --health-port=3 --cni=/x --network=n "
        "--sandboxes=/y"
    )
    found = settings_module.read(words.split())
    assert [str(one) for one in found.machines] == ["10.1.0.0/24", "10.2.0.0/24"]
    assert (found.vxlan_id, found.vxlan_port, found.health_port, found.header) == (1, 2, 3, "")
    with pytest.raises(SystemExit):
        settings_module.read([])


# What the agent makes of the API's and the engine's word of this machine's pods.

WEB = {
    "metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "here",
        "containers": [{"ports": [{"name": "http", "containerPort": 80}]}],
    },
    "status": {"phase": "Pending"},
}
DENY = {"metadata": {"namespace": "shop", "name": "deny"}, "spec": {"podSelector": {}}}


def sandbox(bed, address, pod, *, container="a" * 64, network="metalk8s", age=0):
    """Write what libcni writes when a pod's plugin has ended."""
    namespace, _, name = pod.partition("/")
    document = {
        "kind": "cniCacheV1",
        "containerId": container,
        "ifName": "eth0",
        "networkName": network,
        "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", namespace],
                    ["K8S_POD_NAME", name], ["K8S_POD_INFRA_CONTAINER_ID", container]],
        "result": {"cniVersion": "0.3.1", "ips": [{"version": "4", "address": f"{address}/24"}]},
    }  # fmt: skip
    path = bed.sandboxes / f"{network}-{container}-eth0"
    path.write_text(json.dumps(document))
    os.utime(path, (10_000 - age, 10_000 - age))
    return path


def entries(bed, name):
    """Return what is in a map of the table that is to be."""
    [own] = [one for one in bed.nodes.items.values() if one.name == "here"]
    return dict(bed.isolation.table([own]).collections[name].entries)


def known(bed, *items):
    read = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": pod(one) for one in items}
    bed.pods.items = {name: one for name, one in read.items() if one}
    bed.namespaces.items = {"shop": Namespace()}
    bed.policies.items = {"shop/deny": policy(DENY)}


def test_a_pod_is_known_before_the_api_knows_its_address(bed):
    known(bed, WEB)
    assert entries(bed, "ingress_pods") == {}
    sandbox(bed, "10.233.0.5", "shop/web")
    found = entries(bed, "ingress_pods")
    assert [*found] == ["10.233.0.5"]
    assert found["10.233.0.5"].startswith("jump in_")
    assert entries(bed, "egress_pods") == {"10.233.0.5": "accept"}


def test_the_newest_sandbox_has_the_address(bed):
    other = {**WEB, "metadata": {**WEB["metadata"], "namespace": "other"}}
    known(bed, WEB, {**other, "status": {"podIP": "10.233.0.5", "phase": "Running"}})
    sandbox(bed, "10.233.0.5", "other/web", age=9)
    sandbox(bed, "10.233.0.5", "shop/web", container="b" * 64)
    assert entries(bed, "ingress_pods")["10.233.0.5"].startswith("jump in_")


@pytest.mark.parametrize(
    "status",
    [{"phase": "Succeeded", "podIP": "10.233.0.5"}, {"phase": "Failed", "podIP": "10.233.0.5"}],
)
def test_who_is_over_has_no_address(bed, status):
    known(bed, {**WEB, "status": status})
    assert entries(bed, "ingress_pods") == {}


def test_sandboxes_of_others_and_torn_files_are_no_word(bed):
    known(bed, WEB)
    sandbox(bed, "10.233.0.5", "shop/web", network="docker")
    sandbox(bed, "10.233.0.6", "shop/nobody")
    (bed.sandboxes / "metalk8s-torn-eth0").write_text('{"kind": "cniCa')
    (bed.sandboxes / "metalk8s-list-eth0").write_text("[]")
    assert entries(bed, "ingress_pods") == {}


def test_without_a_sandbox_the_api_is_believed(bed):
    known(bed, {**WEB, "status": {"phase": "Running", "podIP": "10.233.0.7"}})
    assert [*entries(bed, "ingress_pods")] == ["10.233.0.7"]


def test_another_machine_says_nothing_of_addresses_that_are_not_its_own(bed):
    """Its pods would pass for those that a policy lets in."""
    bed.nodes.be(HERE, BESIDE)
    items = [
        {**WEB, "metadata": {**WEB["metadata"], "name": name},
         "spec": {**WEB["spec"], "nodeName": "beside"},
         "status": {"phase": "Running", "podIP": address}}
        for name, address in (("good", "10.233.1.3"), ("evil", "10.233.0.9"), ("far", "8.8.8.8"))
    ]  # fmt: skip
    known(bed, {**WEB, "status": {"phase": "Running", "podIP": "10.233.0.7"}}, *items)
    allow = {**DENY, "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}}
    bed.policies.items = {"shop/allow": policy(allow)}
    [name] = [
        name
        for name in bed.isolation.table(bed.nodes.items.values()).collections
        if name.startswith("in_")
    ]
    found = bed.isolation.table(bed.nodes.items.values()).collections[name].entries
    assert {*found} == {"10.233.0.7", "10.233.1.3"}


def test_rules_stay_while_the_api_server_has_not_told_of_everything(bed):
    """After a restart of the agent alone, for one; and no pod is started before."""
    bed.pods.items = None
    before = list(bed.fake.policies)
    assert not bed.agent.compare()
    assert "all pods and policies" in bed.health.reason
    assert (bed.fake.policies, bed.file.exists()) == (before, False)
    known(bed, WEB)
    assert bed.agent.compare()
    assert bed.fake.policies
    assert bed.file.exists()


def test_a_table_is_written_once_and_mended(bed):
    known(bed, WEB)
    bed.agent.compare()
    bed.fake.lines.clear()
    bed.agent.compare()
    assert not bed.fake.lines
    bed.fake.policies = bed.fake.policies[:-1]
    bed.agent.compare()
    assert "flush chain ip metalk8s_policies ingress" in bed.fake.lines
    bed.fake.lines.clear()
    sandbox(bed, "10.233.0.5", "shop/web")
    bed.agent.compare()
    assert bed.fake.lines, "a new pod"
    everything = "flush chain ip metalk8s_policies ingress"
    assert everything not in bed.fake.lines, "more than what is different"


def test_a_table_that_does_not_fit_is_replaced(bed):
    """A chain of our name that hooks elsewhere, for one, cannot become ours."""
    bed.fake.alien = True
    known(bed, WEB)
    assert bed.agent.compare()
    assert "delete table ip metalk8s_policies" in bed.fake.policies
    assert bed.agent.compare()


def test_a_file_that_is_written_is_heard_of(bed):
    events.watch(bed.sandboxes, bed.heard.set)
    sandbox(bed, "10.233.0.5", "shop/web")
    assert bed.heard.wait(10)
    with pytest.raises(OSError, match="nowhere"):
        events.watch(bed.sandboxes / "nowhere", bed.heard.set)


def test_policies_of_a_namespace_that_is_deleted_hold_to_its_end(bed):
    """Its objects go in any order, and pods take their time."""
    known(bed, {**WEB, "status": {"phase": "Running", "podIP": "10.233.0.7"}})
    isolated = entries(bed, "ingress_pods")["10.233.0.7"]
    assert isolated.startswith("jump in_")
    leaving = {"metadata": {"name": "shop", "deletionTimestamp": "2026-11-22T00:00:00Z"}}
    bed.namespaces.items = {"shop": namespace(leaving)}
    bed.policies.items = {}
    assert entries(bed, "ingress_pods")["10.233.0.7"] == isolated
    bed.namespaces.items = {}
    [own] = bed.nodes.items.values()
    assert "ingress_pods" not in bed.isolation.table([own]).collections


def test_a_policy_that_is_deleted_holds_no_more(bed):
    known(bed, {**WEB, "status": {"phase": "Running", "podIP": "10.233.0.7"}})
    assert entries(bed, "ingress_pods")
    bed.policies.items = {}
    [own] = bed.nodes.items.values()
    assert "ingress_pods" not in bed.isolation.table([own]).collections
