"""From the ISO to a node that is ready, without a network: ``bootstrap.sh`` on a clean machine.

The machine is a node of the test bed with the ISO as a file. ``METALK8S_KILLS`` says how often the
one that is killed is (default: 2). What the cluster is like is in ``test_cluster.py``.

Runs ``docker``. The fixtures ``node`` and ``first`` come from ``conftest.py``.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.testbed.machine import (
    BOOTSTRAP,
    NAME_SERVER,
    Bootstrapped,
    Machine,
    Sniffer,
    changes,
)

pytestmark = pytest.mark.integration

KILLS = int(os.environ.get("METALK8S_KILLS", "20"))
# Until when a run is killed, in seconds: as long as one takes, or it would be done.
LATEST = 60

Node = Callable[..., contextlib.AbstractContextManager[tuple[Machine, Sniffer]]]


def test_node_is_ready(first: Bootstrapped) -> None:
    """One line a step, with its duration; then the node is there."""
    lines = first.output.splitlines()
    assert [line.partition("]")[0] for line in lines[:6]] == [f"[{n}/6" for n in range(1, 7)]
    assert all(re.search(r"\d\.\d s( |$)", line) for line in lines[:6])
    assert len(changes(first.output)) == 2
    assert all(changes(first.output))
    assert lines[6].startswith(f"MetalK8s {first.machine.version} is there, after ")
    nodes = first.machine.kubectl("get nodes --no-headers")
    assert re.fullmatch(r"bootstrap +Ready +\S+ +\S+ +v1\.20\.2\+metalk8s\.1\n", nodes)


def test_nothing_tried_to_reach_outside(first: Bootstrapped) -> None:
    """Neither an address nor a name of the world; and who tried would have been seen."""
    seen = first.sniffer.outside()
    assert not seen, seen
    # A machine that is alone has nobody to tell about its virtual address: a group is not asked.
    assert not to_groups(first)
    script = (
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('224.0.0.18', 9)); "
        "socket.create_connection(('198.51.100.1', 80), timeout=1)"
    )
    first.machine.call("python3", "-c", script)
    first.machine.call("getent", "-s", "dns", "hosts", "registry.example")
    found = {(packet.destination, packet.port) for packet in first.sniffer.outside()}
    assert found == {("198.51.100.1", 80), (NAME_SERVER, 53)}
    assert to_groups(first) == {"224.0.0.18"}


def to_groups(first: Bootstrapped) -> set[str]:
    """Name the multicast groups that the machine has sent to."""
    own = (first.machine.address, first.machine.vip)
    sent = [packet for packet in first.sniffer.packets if packet.source in own]
    assert not [packet for packet in sent if packet.is_vrrp]
    return {packet.destination for packet in sent if packet.is_multicast}


def test_second_run_changes_nothing(first: Bootstrapped) -> None:
    """Neither a file nor an object, and no container is another afterwards.

    The master alone is asked, or, when it is not known that the last run ended well, everything is
    looked at as it was at first.
    """
    first.machine.kubectl("-n kube-system rollout status daemonset/kube-proxy --timeout=120s")
    before = first.machine.containers()
    again = first.machine.bootstrap()
    assert "left to the Salt master, which answers" in again
    assert changes(again) == [0]
    first.machine.forget_last_run()
    assert changes(first.machine.bootstrap()) == [0, 0]
    assert first.machine.containers() == before
    assert first.machine.files() == first.files


def test_mistakes_are_told_before_anything_is_changed(node: Node) -> None:
    """All of them at once, with the status of the gravest."""
    with node() as (machine, _):
        machine.shell(
            'sed -i \'s#minion": "bootstrap#minion": "other#\' /etc/metalk8s/bootstrap.yaml'
        )
        machine.shell("mkdir -p /etc/kubernetes; touch /etc/kubernetes/admin.conf")
        listener = "import socket,time; s=socket.create_server(('', 6443)); time.sleep(99)"
        machine.shell(f'python3 -c "{listener}" >/dev/null 2>&1 & sleep 1')
        before = machine.changed_files()
        done = machine.call(BOOTSTRAP)
        assert done.returncode == 23, done.stdout + done.stderr
        assert done.stdout == ""
        assert done.stderr.count("bootstrap.sh: error: ") == 3, done.stderr
        assert "ca.minion is other, but this machine is bootstrap" in done.stderr
        assert "3 problems; nothing was changed" in done.stderr
        assert machine.changed_files() == before


@pytest.mark.soak
def test_killed_runs_are_gone_on_with(node: Node, first: Bootstrapped) -> None:
    """At random moments, the process alone or all it started; what comes of it is the same.

    Here without a virtual address: of that, nothing is there.
    """
    seed = int(os.environ.get("METALK8S_SEED", time.time_ns() % 10**6))
    chance = random.Random(seed)
    with node() as (machine, _):
        for _ in range(KILLS):
            seconds, whole = chance.uniform(0, LATEST), chance.random() < 0.5
            kill(machine, seconds, whole=whole)
        machine.bootstrap()
        machine.forget_last_run()
        assert changes(machine.bootstrap()) == [0, 0], f"METALK8S_SEED={seed}"
        theirs = {line for line in first.files if "keepalived" not in line}
        assert len(theirs) == len(first.files) - 5
        assert machine.files() == theirs, f"METALK8S_SEED={seed}"
        machine.kubectl("wait --for=condition=Ready node/bootstrap --timeout=60s")


def kill(machine: Machine, seconds: float, *, whole: bool) -> None:
    """Run bootstrap.sh for some seconds, then kill it, with all that it has started or alone."""
    script = f"echo $$ >/run/victim; exec {BOOTSTRAP}"
    argv = ["docker", "exec", machine.name, "sh", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            machine.shell(f"kill -9 {'-' if whole else ''}$(cat /run/victim)")
            running.wait(60)
