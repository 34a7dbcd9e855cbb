"""Names of the cluster, asked for by a pod of it; others go to the machine's own resolver.

The rest (every kind of record, changes, dead programs) is in ``operators/dns/tests``.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.integration.conftest import ROOT
from tests.testbed.machine import KUBECTL, NAME_SERVER, Machine, changed

pytestmark = pytest.mark.integration

OBJECTS = """\
apiVersion: v1
kind: Pod
metadata: {{name: asker, labels: {{app: asker}}}}
spec:
  hostname: first
  subdomain: many
  tolerations: [{{operator: Exists}}]
  containers:
    - name: asker
      image: registry.metalk8s.invalid/metalk8s-{version}/nginx:{nginx}
      command: [sleep, infinity]
---
apiVersion: v1
kind: Service
metadata: {{name: many}}
spec: {{clusterIP: None, selector: {{app: asker}}, ports: [{{name: http, port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: own}}
spec: {{selector: {{app: asker}}, ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: out}}
spec: {{type: ExternalName, externalName: www.example.com}}
"""
# The resolver of the machine: each address that it is asked for is one.
RESOLVER = """\
import sys
sys.path.insert(0, "/root")
import question
question.Upstream("198.51.100.7", ("192.0.2.53", 53))._thread.join()
"""


@pytest.fixture(scope="module")
def asking(cluster: Machine, iso_tree: pathlib.Path) -> Iterator[Machine]:
    """Give the cluster with objects to ask for, and with a resolver outside."""
    [nginx] = (path.name for path in (iso_tree / "images/nginx").iterdir())
    objects = OBJECTS.format(version=cluster.version, nginx=nginx)
    cluster.write(
        "/root/question.py", (ROOT / "operators/dns/tests/question.py").read_text("utf-8")
    )
    cluster.write("/root/resolver.py", RESOLVER)
    cluster.shell(f"ip address add {NAME_SERVER}/32 dev lo")
    cluster.shell("systemd-run --quiet --unit test-resolver python3 /root/resolver.py")
    cluster.kubectl("apply -f -", objects)
    cluster.kubectl("wait --for=condition=Ready pod/asker --timeout=60s")
    yield cluster
    cluster.kubectl("delete --wait=false -f -", objects)
    cluster.shell("systemctl stop test-resolver")
    cluster.shell(f"ip address delete {NAME_SERVER}/32 dev lo; rm /root/question.py")


def found(machine: Machine, name: str) -> list[str]:
    """Return the first words of what a pod finds for a name or an address."""
    script = f"{KUBECTL} exec asker -- getent ahostsv4 {name} | awk '{{print $1}}' | sort -u"
    return machine.wait(script, 20).split()


def reverse(machine: Machine, address: str) -> str:
    """Return the name that a pod finds for an address."""
    script = f"{KUBECTL} exec asker -- getent hosts {address} | awk '{{print $2}}'"
    return machine.wait(script, 20).strip()


def test_two_answer_at_the_address_that_pods_are_told(cluster: Machine) -> None:
    cluster.kubectl("-n kube-system rollout status deployment/kube-dns --timeout=120s")
    service = json.loads(cluster.kubectl("-n kube-system get service kube-dns -o json"))
    kubelet = cluster.shell("grep -A1 '^clusterDNS:' /var/lib/kubelet/config.yaml")
    assert kubelet.split("- ")[1].strip() == service["spec"]["clusterIP"]
    endpoints = json.loads(cluster.kubectl("-n kube-system get endpoints kube-dns -o json"))
    assert len(endpoints["subsets"][0]["addresses"]) == 2
    assert not changed(cluster.apply("metalk8s.dns"))


def test_names_of_the_cluster(asking: Machine) -> None:
    api = asking.kubectl("get service kubernetes -o jsonpath='{.spec.clusterIP}'")
    own = asking.kubectl("get service own -o jsonpath='{.spec.clusterIP}'")
    pod = asking.kubectl("get pod asker -o jsonpath='{.status.podIP}'")
    domain = "cluster.local"
    assert found(asking, "kubernetes") == [api]
    assert found(asking, f"own.default.svc.{domain}") == [own]
    assert found(asking, "many") == [pod]
    assert found(asking, "first.many") == [pod]
    assert found(asking, f"{pod.replace('.', '-')}.default.pod.{domain}") == [pod]
    assert reverse(asking, own) == f"own.default.svc.{domain}"


def test_other_names_are_asked_of_the_machines_resolver(asking: Machine) -> None:
    assert found(asking, "www.example.org") == ["198.51.100.7"]
    assert found(asking, "out") == ["198.51.100.7"]


def test_a_killed_authority_comes_back(asking: Machine) -> None:
    """As after a power cut: what it leaves in its pod does not keep the next one from it."""
    counts = '{.items[*].status.containerStatuses[?(@.name=="authority")].restartCount}'
    begun = f"-n kube-system get pods -l k8s-app=kube-dns -o jsonpath='{counts}'"
    before = asking.kubectl(begun)
    asking.shell("pkill -KILL -x knotd")
    after = " ".join(str(int(count) + 1) for count in before.split())
    asking.wait(f"{KUBECTL} {begun} | grep -x '{after}'", 60)
    asking.kubectl("-n kube-system rollout status deployment/kube-dns --timeout=120s")
    assert found(asking, "kubernetes")


def test_a_container_that_anybody_may_ask_knows_nothing_else(cluster: Machine) -> None:
    """Neither who its pod is to the API server, nor the sockets of Knot."""
    script = "-n kube-system exec deployment/kube-dns -c cache -- ls /run/metalk8s-dns /run/secrets"
    done = cluster.call("sh", "-c", f"{KUBECTL} {script}")
    assert "/run/metalk8s-dns:\ncache\n" in done.stdout
    assert "cannot access '/run/secrets'" in done.stderr
