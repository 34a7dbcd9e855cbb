"""Four machines, one cluster: they join, any master may die, and they leave.

From the ISO, on a network without a way out. One fleet for all tests, in their order: what they do
to it, those after them find. ``METALK8S_MASTERS_KILLED`` says how many masters die, each in its
turn (default: one, the bootstrap machine). Runs ``docker`` and ``iptables``.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import re
from collections.abc import Callable, Iterator

import pytest

from tests.conformance import choice, report
from tests.conformance import suite as suites
from tests.conformance.suite import Suite
from tests.integration.conftest import require
from tests.testbed import faults
from tests.testbed import fleet as fleets
from tests.testbed.fleet import Fleet
from tests.testbed.machine import KUBECTL, Machine, Sniffer, docker
from tests.testbed.outside import Asker, announced
from tests.testbed.pods import ASK, ASK_API, ASK_NAME, run_pod, starts_a_pod
from tests.testbed.writer import Writer

pytestmark = pytest.mark.integration

KILLED = int(os.environ.get("METALK8S_MASTERS_KILLED", "1"))
WORKER, SECOND, THIRD = "worker", "second", "third"
MASTERS = (SECOND, THIRD)
Node = Callable[..., contextlib.AbstractContextManager[tuple[Machine, Sniffer]]]
# Seconds within which the API answers again; on an idle machine, it takes one to four.
OUTAGE = 10
# Seconds within which another machine answers at the address of a Service.
MOVED = 5
GOES_ON = 60  # seconds that ten answers may take then
HEALED = 60  # seconds after which nothing is left of a partition
LEFT = ("/etc/kubernetes", "/etc/salt/minion.d/metalk8s.conf")  # of a machine that joined
# Of Kubernetes' own tests: how many run side by side, and the seconds they may take. With four on
# two processors, beside other tests, a probe of their pods ran out of its second, and one failed.
PROCESSES, DOZEN_SECONDS, WHOLE_SECONDS = 3, 600, 90 * 60
BROKEN = 2  # exit status of doctor.sh
PROBLEMS = 22  # exit status of deploy-node.sh
ETCDCTL = (
    "etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt "
    "--cert /etc/kubernetes/pki/etcd/healthcheck-client.crt "
    "--key /etc/kubernetes/pki/etcd/healthcheck-client.key"
)


@pytest.fixture(scope="module")
def watched(node: Node, debian_root_image: str) -> Iterator[tuple[Fleet, Sniffer]]:
    """Bootstrap a machine with a virtual address, beside three that have nothing yet."""
    require("iptables")
    with (
        node(keepalived=True) as (first, sniffer),
        fleets.gathered(first, debian_root_image, (WORKER, *MASTERS)) as fleet,
    ):
        faults.give_disk(fleet.others[THIRD], "/var/lib/etcd", "10G")
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


def deploy_and_kill(fleet: Fleet, name: str, seconds: float) -> bool:
    """Begin a deployment, and kill it; tell whether it was done before."""
    command = f"timeout --signal=KILL {seconds:.1f} {script(fleet, 'deploy-node.sh')} {name}"
    return fleet.first.call("sh", "-c", command).returncode == 0


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


def test_a_clock_that_is_off(fleet: Fleet) -> None:
    """By an hour: that is told, with the difference."""
    fleet.declare(WORKER)
    with faults.clock_off(fleet.others[WORKER], 3600):
        done = fleet.first.call(script(fleet, "deploy-node.sh"), "--check", WORKER)
    assert done.returncode == PROBLEMS, done.stdout + done.stderr
    assert re.search(r"its clock is 3[56]\d\d\.\d s ahead of", done.stderr), done.stderr
    fleet.first.kubectl(f"delete node {WORKER}")


def test_a_worker_joins(fleet: Fleet) -> None:
    """By one command, which goes on after it was killed, and leaves no runner; pods run there."""
    fleet.declare(WORKER)
    deploy_and_kill(fleet, WORKER, 12)
    assert f"{WORKER} is what it shall be" in deploy(fleet, WORKER)
    fleet.first.wait("! pgrep --full '[m]etalk8s_deploy.serve' && echo gone", 30)
    assert nodes(fleet)[WORKER] == ("Ready", {"<none>"})
    fleet.first.wait(f"{KUBECTL} get pods -A -o wide | grep kube-proxy | grep {WORKER} | grep 1/1")


def test_names_are_on_two_machines(fleet: Fleet) -> None:
    """Both pods were on the first one; the deployment of the second one has parted them."""
    where = "-o 'jsonpath={.items[*].spec.nodeName}'"
    found = fleet.first.kubectl(f"-n kube-system get pods -l k8s-app=kube-dns {where}")
    assert set(found.split()) == {"bootstrap", WORKER}
    status = "-n kube-system rollout status deployment/kube-dns --timeout=1s"
    assert "successfully rolled out" in fleet.first.kubectl(status)


def test_pods_of_two_machines_talk(fleet: Fleet) -> None:
    """At the pod's own address and at its Service's, and who is asked sees which pod asks."""
    there, here = run_pod(fleet, "there", WORKER), run_pod(fleet, "here", "bootstrap")
    plane = fleet.workload_address(fleet.others[WORKER])
    fleet.first.wait(f"ip route get {there} | grep 'via {plane} '", 30)
    fleet.first.kubectl("expose pod there --port=80 --target-port=8080")
    service = fleet.first.kubectl("get service there -o 'jsonpath={.spec.clusterIP}'")
    for url in (f"http://{there}:8080/", f"http://{service}/"):
        ask = f"{KUBECTL} exec here -- python3 -c '{ASK}' {url}"
        assert fleet.first.wait(ask, 30).strip() == here
    back = f"{KUBECTL} exec there -- python3 -c '{ASK}' http://{here}:8080/"
    assert fleet.first.wait(back, 30).strip() == there
    # Its Service leads to the machine's address in the control plane.
    api = f"{KUBECTL} exec there -- python3 -c '{ASK_API}' https://10.96.0.1/readyz"
    assert fleet.first.wait(api, 30).strip() == "ok"
    fleet.first.kubectl("delete pod/here pod/there service/there")


def test_masters_join(fleet: Fleet) -> None:
    """Each with a member of etcd, an API server and the ISO; the first is killed on its way."""
    for number, name in enumerate(MASTERS):
        fleet.declare(name, "master", "etcd")
        if number == 0:
            deploy_and_kill(fleet, name, 40)
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


@pytest.mark.parametrize("name", [SECOND, pytest.param(WORKER, marks=pytest.mark.soak)])
def test_again_changes_nothing(fleet: Fleet, name: str) -> None:
    """A machine is what it shall be; a master is all that a worker is."""
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


@pytest.fixture
def suite(fleet: Fleet, build_root: pathlib.Path) -> Suite:
    """Return Kubernetes' own tests, and a fleet of which three machines take pods."""
    found = suites.built(build_root)
    if found is None:
        missing = "Kubernetes' own tests (./doit.sh _conformance_image)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"missing: {missing}")
    # Whoever runs these alone finds the first machine alone.
    joined, roles = nodes(fleet), {WORKER: (), **dict.fromkeys(MASTERS, ("master", "etcd"))}
    for name in fleet.others:
        if name not in joined:
            fleet.declare(name, *roles[name])
            deploy(fleet, name)
    found.provide(fleet.others.values())
    fleet.first.kubectl("wait --for=condition=Ready node --all --timeout=120s")
    return found


def passes(
    suite: Suite, fleet: Fleet, names: list[str], folder: pathlib.Path, seconds: int
) -> None:
    """Run some of them; each has to run and to pass."""
    outcomes = suite.run(fleet.first, names, folder, processes=PROCESSES, seconds=seconds)
    print(report.told(outcomes))
    suites.clean(fleet.first)
    assert {one.verdict for one in outcomes} == {report.PASSED}, report.told(outcomes)


def test_kubernetes_knows_its_own(suite: Suite, tmp_path: pathlib.Path) -> None:
    """What is chosen is chosen from the tests that there are."""
    known = suite.known(tmp_path)
    if os.environ.get("METALK8S_UPDATE_GOLDEN"):
        choice.KNOWN.write_text("\n".join([*known, ""]), encoding="utf-8")
    assert known == choice.known()


def test_kubernetes_own_dozen(fleet: Fleet, suite: Suite, tmp_path: pathlib.Path) -> None:
    """A dozen of Kubernetes' own tests of networks passes, on pods of three machines."""
    passes(suite, fleet, list(choice.read().dozen), tmp_path, DOZEN_SECONDS)


@pytest.mark.soak
def test_kubernetes_own_whole(fleet: Fleet, suite: Suite, tmp_path: pathlib.Path) -> None:
    """So do all that docs/reference/conformance.md does not except."""
    passes(suite, fleet, choice.read().whole(choice.known()), tmp_path, WHOLE_SECONDS)


def test_any_master_may_die(fleet: Fleet) -> None:
    """The API and names go on, no acknowledged write is lost, pods start; it comes back.

    The address of a Service of type LoadBalancer, which it had, is another machine's.
    """
    run_pod(fleet, "asks", WORKER)
    for dead in ["bootstrap", *MASTERS][:KILLED]:
        machine = {"bootstrap": fleet.first, **fleet.others}[dead]
        name = next(name for name in MASTERS if name != dead)
        witness = fleet.others[name]
        with (
            announced(fleet, dead, witness, (WORKER, name)) as address,
            Asker(address) as asker,
            Writer(witness, f"https://{fleet.first.vip}:6443") as writer,
        ):
            assert asker.goes_on(GOES_ON), f"nobody answers at {address}"
            docker("kill", machine.name)
            assert asker.goes_on(GOES_ON), f"nobody answers at {address} any more"
            assert writer.goes_on(GOES_ON), "the API did not go on"
        print(f"{dead} died: {writer.longest:.1f} s until the next answer")
        print(f"its Service: {asker.longest:.1f} s until the next answer")
        assert writer.longest <= OUTAGE
        assert asker.longest <= MOVED
        witness.wait(f"{KUBECTL} exec asks -- python3 -c '{ASK_NAME}'", HEALED)
        starts_a_pod(fleet, witness, f"after-{dead}", WORKER)
        assert writer.read() >= writer.acknowledged
        docker("start", machine.name)
        machine.wait_for_systemd()
        is_whole(fleet, witness, dead, 300)
    fleet.first.kubectl("delete pod asks")


def is_whole(fleet: Fleet, witness: Machine, name: str, seconds: int) -> None:
    """Wait until a master that was away is one again."""
    witness.wait(f"{KUBECTL} get nodes | grep '^{name} ' | grep -w Ready", seconds)
    machine = {"bootstrap": fleet.first, **fleet.others}[name]
    machine.wait(f"{ETCDCTL} endpoint health 2>&1", seconds)
    # Its Node is ready by the others' API servers, too.
    machine.wait(f"{KUBECTL} --server=https://{machine.address}:6443 get --raw=/readyz", seconds)


def test_a_partition(fleet: Fleet) -> None:
    """The majority serves, the minority does not lie; healed, it is whole within a minute."""
    witness, own = fleet.others[SECOND], f"--server=https://{fleet.first.address}:6443"
    with Writer(witness, f"https://{fleet.first.vip}:6443") as writer:
        with faults.cut_off(fleet.first):
            assert writer.goes_on(GOES_ON), "the API did not go on"
            for words in ("get configmap counter", "delete configmap counter"):
                command = f"{KUBECTL} {own} --request-timeout=8s {words}"
                alone = fleet.first.call("sh", "-c", command)
                assert alone.returncode, f"{words}: {alone.stdout}"
        assert writer.goes_on(GOES_ON), "the API did not go on afterwards"
        is_whole(fleet, witness, "bootstrap", HEALED)
    assert writer.read() >= writer.acknowledged
    holders = [one for one in fleet.machines if f" {fleet.first.vip}/" in one.shell("ip -4 addr")]
    assert len(holders) == 1, "the virtual address is on one machine"


def test_a_full_disk(fleet: Fleet) -> None:
    """Of one member of etcd: nothing is lost, the doctor names it; with room, it is whole."""
    third, folder = fleet.others[THIRD], "/var/lib/etcd"
    with Writer(fleet.others[SECOND], f"https://{fleet.first.vip}:6443") as writer:
        with faults.full(third, folder):
            assert writer.goes_on(GOES_ON), "the API did not go on"
            said = fleet.first.call(script(fleet, "doctor.sh"))
        assert re.search(rf"ERROR {THIRD}: {folder} has [01] % free", said.stdout), said.stdout
        assert said.returncode == BROKEN, said.stdout
        is_whole(fleet, fleet.first, THIRD, 300)
    assert writer.read() >= writer.acknowledged


def test_a_worker_leaves(fleet: Fleet) -> None:
    """Nothing of ours is left on it that would work on."""
    remove(fleet, WORKER)
    assert WORKER not in nodes(fleet)
    # The minion goes when it has said that it does.
    left = " && ".join(f"test ! -e {path}" for path in LEFT)
    fleet.others[WORKER].wait(f"{left} && echo gone", 120)


@pytest.mark.soak
def test_who_left_joins_again(fleet: Fleet) -> None:
    """Under its name, which is free again."""
    fleet.declare(WORKER)
    deploy(fleet, WORKER)
    assert nodes(fleet)[WORKER][0] == "Ready"


@pytest.mark.soak
def test_a_master_leaves(fleet: Fleet) -> None:
    """Its member leaves etcd first."""
    remove(fleet, THIRD)
    assert members(fleet.first) == {"bootstrap", SECOND}


@pytest.mark.soak
def test_a_master_becomes_a_worker(fleet: Fleet) -> None:
    """By its labels, and its member leaves etcd."""
    roles = "node-role.kubernetes.io/etcd- node-role.kubernetes.io/master-"
    fleet.first.kubectl(f"label node {SECOND} {roles}")
    deploy(fleet, SECOND)
    assert nodes(fleet)[SECOND] == ("Ready", {"<none>"})
    assert members(fleet.first) == {"bootstrap"}


@pytest.mark.soak
def test_nothing_of_a_master_is_left(fleet: Fleet) -> None:
    """On a machine that is one no more; and nobody asks it."""
    second, keys = fleet.others[SECOND], "/etc/kubernetes/pki/sa.key /etc/kubernetes/pki/etcd/*.key"
    places = f"{keys} /etc/kubernetes/encryption/*"
    more = "/var/lib/etcd/member /etc/kubernetes/manifests/kube-* /etc/kubernetes/admin.conf"
    assert second.shell(f"ls -d {places} {more} 2>/dev/null || true") == ""
    for machine in (second, fleet.others[WORKER]):
        servers = machine.shell("grep -E '^ +server ' /etc/metalk8s/balancer/haproxy.cfg")
        assert fleet.first.address in servers
        assert second.address not in servers
    assert re.search(r" 0 changed\. Log", deploy(fleet, SECOND))


@pytest.mark.soak
def test_a_worker_becomes_a_master(fleet: Fleet) -> None:
    """Again, by its labels."""
    roles = "node-role.kubernetes.io/etcd= node-role.kubernetes.io/master="
    fleet.first.kubectl(f"label node {SECOND} {roles}")
    deploy(fleet, SECOND)
    assert members(fleet.first) == {"bootstrap", SECOND}


@pytest.mark.soak
def test_twenty_kills(fleet: Fleet) -> None:
    """At any moment of a master's joining: the next run ends it, and nothing is left behind."""
    chance = random.Random(15)
    keys = fleet.first.shell("ls /etc/metalk8s/pki /var/lib/metalk8s/salt-master")
    for _ in range(20):
        fleet.declare(THIRD, "master", "etcd")
        if deploy_and_kill(fleet, THIRD, chance.uniform(1, 120)):
            remove(fleet, THIRD)
    fleet.declare(THIRD, "master", "etcd")
    deploy(fleet, THIRD)
    assert nodes(fleet)[THIRD] == ("Ready", {"etcd", "master"})
    assert members(fleet.first) == {"bootstrap", SECOND, THIRD}
    assert keys == fleet.first.shell("ls /etc/metalk8s/pki /var/lib/metalk8s/salt-master")
    remove(fleet, THIRD)


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
