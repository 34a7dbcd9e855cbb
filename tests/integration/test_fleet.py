"""Four machines, one cluster: they join, any master may die, and they leave.

From the ISO, on a network without a way out. One fleet for all tests, in their order: what they do
to it, those after them find. ``METALK8S_MASTERS_KILLED`` says how many masters die, each in its
turn (default: one, the bootstrap machine). Runs ``docker`` and ``iptables``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import pytest

from tests.integration.conftest import require
from tests.testbed import fleet as fleets
from tests.testbed.fleet import Fleet
from tests.testbed.machine import KUBECTL, Machine, Sniffer, docker

pytestmark = pytest.mark.integration

KILLED = int(os.environ.get("METALK8S_MASTERS_KILLED", "1"))
WORKER, SECOND, THIRD = "worker", "second", "third"
MASTERS = (SECOND, THIRD)
Node = Callable[..., contextlib.AbstractContextManager[tuple[Machine, Sniffer]]]
# Seconds in which the API has to go on; on an idle machine, it takes two to four.
OUTAGE = 30
PROBLEMS = 22  # exit status of deploy-node.sh
ETCDCTL = (
    "etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt "
    "--cert /etc/kubernetes/pki/etcd/healthcheck-client.crt "
    "--key /etc/kubernetes/pki/etcd/healthcheck-client.key"
)

# Of Python: one says who asks, one asks. HTTPServer would look its own name up, and nobody answers.
ANSWER = """
import http.server, socketserver
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.client_address[0].encode())
socketserver.TCPServer(("", 8080), Answer).serve_forever()
"""
ASK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"


@pytest.fixture(scope="module")
def watched(node: Node, debian_root_image: str) -> Iterator[tuple[Fleet, Sniffer]]:
    """Bootstrap a machine with a virtual address, beside three that have nothing yet."""
    require("iptables")
    with (
        node(keepalived=True) as (first, sniffer),
        fleets.gathered(first, debian_root_image, (WORKER, *MASTERS)) as fleet,
    ):
        first.bootstrap()
        yield fleet, sniffer


@pytest.fixture(scope="module")
def fleet(watched: tuple[Fleet, Sniffer]) -> Fleet:
    """Return its machines."""
    return watched[0]


def script(fleet: Fleet, name: str) -> str:
    return f"/srv/scality/metalk8s-{fleet.first.version}/{name}"


def deploy(fleet: Fleet, *words: str) -> str:
    """Let a machine join, as its manifest says; return what the operator sees."""
    done = fleet.first.call(script(fleet, "deploy-node.sh"), *words)
    log = fleet.first.call("tail", "-n", "60", "/var/log/metalk8s/deploy-node.log").stdout
    assert done.returncode == 0, done.stdout + done.stderr + log
    return done.stdout


def remove(fleet: Fleet, *words: str) -> str:
    """Let a machine leave; return what the operator sees."""
    done = fleet.first.call(script(fleet, "remove-node.sh"), *words)
    log = fleet.first.call("tail", "-n", "60", "/var/log/metalk8s/remove-node.log").stdout
    assert done.returncode == 0, done.stdout + done.stderr + log
    return done.stdout


def nodes(fleet: Fleet) -> dict[str, tuple[str, set[str]]]:
    """Return state and roles of each Node."""
    lines = fleet.first.kubectl("get nodes --no-headers").splitlines()
    return {
        name: (state, set(roles.split(","))) for name, state, roles, *_ in map(str.split, lines)
    }


def members(machine: Machine) -> set[str]:
    """Name the members of etcd; none of them is a learner."""
    lines = machine.shell(f"{ETCDCTL} member list").splitlines()
    found = [line.split(", ") for line in lines]
    assert all((state, learner) == ("started", "false") for _, state, *_, learner in found), lines
    return {name for _, _, name, *_ in found}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"ssh_key_path": "/etc/hostname"}, "/etc/hostname"),
        ({"ssh_user": "nobody"}, "nobody"),
        ({"ssh_host": "10.250.0.1"}, "10.250.0.1"),
        ({"ssh_host": "bootstrap"}, "bootstrap"),
        ({"ssh_sudo": "maybe"}, "maybe"),
        ({"ssh_port": "2222"}, "2222"),
    ],
)
def test_bad_joins_change_nothing(fleet: Fleet, annotations: dict[str, str], said: str) -> None:
    """Each is told in a sentence before anything is done, here or there."""
    fleet.declare("bad", of=WORKER, **annotations)
    before = fleet.others[WORKER].changed_files()
    done = fleet.first.call(script(fleet, "deploy-node.sh"), "--check", "bad")
    assert done.returncode == PROBLEMS, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert fleet.others[WORKER].changed_files() == before
    fleet.first.kubectl("delete node bad")


def test_a_worker_joins(fleet: Fleet) -> None:
    """By one command, which goes on after it was killed; pods run there."""
    fleet.declare(WORKER)
    command = f"timeout --signal=KILL 12 {script(fleet, 'deploy-node.sh')} {WORKER}"
    fleet.first.call("sh", "-c", command)
    assert f"{WORKER} is what it shall be" in deploy(fleet, WORKER)
    assert nodes(fleet)[WORKER] == ("Ready", {"<none>"})
    fleet.first.wait(f"{KUBECTL} get pods -A -o wide | grep kube-proxy | grep {WORKER} | grep 1/1")


def run_pod(fleet: Fleet, name: str, machine: str) -> str:
    """Run a pod that answers on a machine of the cluster; return its address."""
    tag = fleet.first.shell(f"ls {script(fleet, 'images/network-agent')}").strip()
    image = f"registry.metalk8s.invalid/metalk8s-{fleet.first.version}/network-agent:{tag}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": machine,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": name, "image": image, "command": ["python3", "-c", ANSWER]},
            ],
        },
    }
    fleet.first.kubectl("apply -f -", json.dumps(manifest))
    fleet.first.kubectl(f"wait --for=condition=Ready pod/{name} --timeout=120s")
    return fleet.first.kubectl(f"get pod {name} -o 'jsonpath={{.status.podIP}}'")


def test_pods_of_two_machines_talk(fleet: Fleet) -> None:
    """At the pod's own address and at its Service's, and who is asked sees which pod asks."""
    there, here = run_pod(fleet, "there", WORKER), run_pod(fleet, "here", "bootstrap")
    fleet.first.kubectl("expose pod there --port=80 --target-port=8080")
    service = fleet.first.kubectl("get service there -o 'jsonpath={.spec.clusterIP}'")
    for url in (f"http://{there}:8080/", f"http://{service}/"):
        ask = f"{KUBECTL} exec here -- python3 -c '{ASK}' {url}"
        assert fleet.first.wait(ask, 30).strip() == here
    back = f"{KUBECTL} exec there -- python3 -c '{ASK}' http://{here}:8080/"
    assert fleet.first.wait(back, 30).strip() == there
    fleet.first.kubectl("delete pod/here pod/there service/there")


def test_masters_join(fleet: Fleet) -> None:
    """Each with a member of etcd, an API server and the ISO."""
    for number, name in enumerate(MASTERS):
        fleet.declare(name, "master", "etcd")
        deploy(fleet, name)
        assert nodes(fleet)[name] == ("Ready", {"etcd", "master"})
        assert members(fleet.first) == {"bootstrap", *MASTERS[: number + 1]}
        machine = fleet.others[name]
        balancer = f"{KUBECTL} --server=https://127.0.0.1:7443"
        assert machine.shell(f"{balancer} get --raw=/readyz") == "ok"
        place = f"/srv/scality/metalk8s-{machine.version}"
        assert machine.shell(f"sha256sum <{place}/MANIFEST") == fleet.first.shell(
            f"sha256sum <{place}/MANIFEST"
        )


def test_again_changes_nothing(fleet: Fleet) -> None:
    """Every machine is what it shall be."""
    for name in (SECOND, WORKER):
        assert re.search(r" 0 changed\. Log", deploy(fleet, name))


def test_nothing_tried_to_reach_outside(watched: tuple[Fleet, Sniffer]) -> None:
    assert not watched[1].outside(), watched[1].outside()


def test_who_may_read_what(fleet: Fleet) -> None:
    """A worker's kubelet and minion get no secret of a master; masters do, in one copy."""
    worker, second = fleet.others[WORKER], fleet.others[SECOND]
    kubelet = "kubectl --kubeconfig /etc/kubernetes/kubelet.conf --server https://127.0.0.1:7443"
    refused = worker.call("sh", "-c", f"{kubelet} get secrets -A")
    assert "forbidden" in refused.stderr
    ask = "salt-call --log-level=critical --out=json"
    for secret in ("service_accounts", "encryption"):
        said = worker.shell(f"{ask} metalk8s_secrets.ask {secret}")
        assert "it is for the roles master" in said
    stolen = worker.shell(f"{ask} publish.full_data bootstrap cmd.run 'cat /etc/shadow'")
    assert json.loads(stolen)["local"] == {}
    assert worker.call("ls", "/etc/kubernetes/pki/sa.key").returncode != 0
    for path in ("/etc/kubernetes/pki/sa.key", "/etc/kubernetes/encryption/configuration.yaml"):
        digest = f"sha256sum <{path}"
        assert second.shell(digest) == fleet.first.shell(digest)
    log = fleet.first.shell("grep -rl 'BEGIN RSA PRIVATE' /var/lib/metalk8s/salt-master || true")
    assert log == ""


class Writer:
    """Counts up in the cluster, and knows how far it was told it has come.

    :ivar longest: seconds between two answers.
    """

    def __init__(self, machine: Machine, server: str) -> None:
        self.machine, self.server = machine, server
        self.acknowledged, self.longest = 0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number, last = 0, time.monotonic()
        while not self._stop.is_set():
            number += 1
            patch = json.dumps({"data": {"number": str(number)}})
            words = [*KUBECTL.split(), f"--server={self.server}", "--request-timeout=3s"]
            words += ["patch", "configmap", "counter", f"--patch={patch}"]
            if self.machine.call(*words).returncode == 0:
                self.acknowledged = number
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
            self._stop.wait(0.2)


# Pulled anew whenever one starts: whoever has the image serves it.
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {machine}}}
  containers:
    - name: one
      image: registry.metalk8s.invalid/metalk8s-{version}/nginx:{nginx}
      imagePullPolicy: Always
      command: [sh, -c, exec sleep 1000]
      securityContext: {{runAsUser: 0}}
"""


def starts_a_pod(fleet: Fleet, witness: Machine, name: str) -> None:
    """Let a pod start on the worker, with an image that has to be pulled."""
    version = fleet.first.version
    nginx = witness.shell(f"ls /srv/scality/metalk8s-{version}/images/nginx").strip()
    manifest = POD.format(name=name, machine=WORKER, version=version, nginx=nginx)
    witness.kubectl("apply -f -", manifest)
    witness.kubectl(f"wait --for=condition=Ready pod/{name} --timeout=180s")
    witness.kubectl(f"delete pod {name} --grace-period=1 --timeout=120s")


def test_any_master_may_die(fleet: Fleet) -> None:
    """The API goes on, no acknowledged write is lost, pods start; it comes back by itself."""
    for dead in ["bootstrap", *MASTERS][:KILLED]:
        everybody = {"bootstrap": fleet.first, **fleet.others}
        alive = [machine for name, machine in everybody.items() if name in MASTERS and name != dead]
        witness = alive[0]
        witness.shell(f"{KUBECTL} create configmap counter --from-literal=number=0 || true")
        server = f"https://{fleet.first.vip}:6443"
        with Writer(witness, server) as writer:
            witness.wait(
                f"{KUBECTL} get configmap counter -o 'jsonpath={{.data.number}}' | grep -v ^0$"
            )
            docker("kill", everybody[dead].name)
            reached = writer.acknowledged
            until = time.monotonic() + OUTAGE
            while writer.acknowledged < reached + 10 and time.monotonic() < until:
                time.sleep(0.5)
        assert writer.acknowledged >= reached + 10, "the API did not go on"
        print(f"{dead} died: {writer.longest:.1f} s until the next answer")
        starts_a_pod(fleet, witness, f"after-{dead}")
        read = witness.shell(f"{KUBECTL} get configmap counter -o 'jsonpath={{.data.number}}'")
        assert int(read) >= writer.acknowledged
        docker("start", everybody[dead].name)
        everybody[dead].wait_for_systemd()
        witness.wait(f"{KUBECTL} get nodes | grep '^{dead} ' | grep -w Ready", 300)
        everybody[dead].wait(f"{ETCDCTL} endpoint health 2>&1", 180)


def test_machines_leave_and_join_again(fleet: Fleet) -> None:
    """A worker, and a master whose member leaves etcd; under their names they are taken again."""
    remove(fleet, WORKER)
    assert WORKER not in nodes(fleet)
    worker = fleet.others[WORKER]
    worker.wait("systemctl is-active salt-minion || true", 60)
    left = worker.shell(
        "ls -d /etc/kubernetes /etc/salt/minion.d/metalk8s.conf 2>/dev/null || true"
    )
    assert left == ""
    fleet.declare(WORKER)
    deploy(fleet, WORKER)
    assert nodes(fleet)[WORKER][0] == "Ready"
    remove(fleet, THIRD)
    assert members(fleet.first) == {"bootstrap", SECOND}


@pytest.mark.soak
def test_a_dead_master_is_removed(fleet: Fleet) -> None:
    """Without it, as nobody is there to ask; what is left works."""
    fleet.declare(THIRD, "master", "etcd")
    deploy(fleet, THIRD)
    docker("kill", fleet.others[THIRD].name)
    fleet.first.wait(f"{KUBECTL} get nodes | grep '^{THIRD} ' | grep NotReady", 180)
    remove(fleet, "--dead", THIRD)
    assert members(fleet.first) == {"bootstrap", SECOND}
    assert set(nodes(fleet)) == {"bootstrap", SECOND, WORKER}
