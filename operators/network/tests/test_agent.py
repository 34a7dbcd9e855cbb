"""The program writes the engine's file last, tells what it lacks, and goes on."""

from __future__ import annotations

import json
import threading

import pytest
from fake_kernel import FakeKernel
from metalk8s_operators.report import Health
from metalk8s_pod_network import cni
from metalk8s_pod_network import settings as settings_module
from metalk8s_pod_network.agent import Agent
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


class Bed:
    def __init__(self, folder, *items):
        self.file = folder / "10-metalk8s.conflist"
        self.nodes = Nodes(*items)
        self.fake = FakeKernel(json.loads(json.dumps(LINKS)), OTHERS)
        self.health, self.heard = Health(), threading.Event()
        chosen = settings(cni=self.file)
        self.agent = Agent(chosen, self.nodes, Kernel(self.fake.run), self.health, self.heard)


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
    assert [path.name for path in bed.file.parent.iterdir()] == [bed.file.name]


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
        "--machines=10.2.0.0/24 --vxlan-id=1 --vxlan-port=2 --health-port=3 --cni=/x --network=n"
    )
    found = settings_module.read(words.split())
    assert [str(one) for one in found.machines] == ["10.1.0.0/24", "10.2.0.0/24"]
    assert (found.vxlan_id, found.vxlan_port, found.health_port, found.header) == (1, 2, 3, "")
    with pytest.raises(SystemExit):
        settings_module.read([])
