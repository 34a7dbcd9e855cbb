"""A Service of type LoadBalancer, answered to who is outside the cluster.

The rest (other machines, failures, who gets which address) is in ``operators/load_balancer/tests``.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import pathlib
import urllib.request
from collections.abc import Iterator

import pytest

from tests.testbed.machine import KUBECTL, Machine, changed

pytestmark = pytest.mark.integration

OBJECTS = """\
apiVersion: v1
kind: Pod
metadata: {{name: shown, labels: {{app: shown}}}}
spec:
  tolerations: [{{operator: Exists}}]
  containers:
    - name: shown
      image: registry.metalk8s.invalid/metalk8s-{version}/nginx:{nginx}
      command: [sh, -c, "exec nginx -g 'daemon off;'"]
      securityContext: {{runAsUser: 0}}
      volumeMounts:
        - {{name: configuration, mountPath: /etc/nginx/conf.d}}
  volumes:
    - name: configuration
      configMap: {{name: shown}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: shown}}
data:
  shown.conf: |
    server {{ listen 8080; location / {{ return 200 "$remote_addr\\n"; }} }}
---
apiVersion: v1
kind: Service
metadata: {{name: shown}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {{app: shown}}
  ports: [{{port: 80, targetPort: 8080}}]
"""
POOL = """\
apiVersion: metalk8s.scality.com/v1alpha1
kind: LoadBalancerPool
metadata: {{name: outside}}
spec: {{addresses: ["{address}"]}}
"""
STATUS = "jsonpath='{.status.loadBalancer.ingress[0].ip}'"
TOLD = "/run/metalk8s-load-balancer/keepalived.conf"
TABLE = "nft list table ip metalk8s_load_balancer"


@pytest.fixture(scope="module")
def address(cluster: Machine) -> ipaddress.IPv4Address:
    """Return an address of the network that nobody has: the engine begins with the first."""
    for link in json.loads(cluster.shell("ip -json -4 address")):
        for one in link["addr_info"]:
            if one["local"] == cluster.address:
                network = ipaddress.IPv4Interface(f"{one['local']}/{one['prefixlen']}").network
                return network.broadcast_address - 9
    raise AssertionError(cluster.address)


@pytest.fixture(scope="module")
def shown(
    cluster: Machine, iso_tree: pathlib.Path, address: ipaddress.IPv4Address
) -> Iterator[Machine]:
    """Give the cluster with a Service, and then a pool."""
    [nginx] = (path.name for path in (iso_tree / "images/nginx").iterdir())
    objects = OBJECTS.format(version=cluster.version, nginx=nginx)
    pool = POOL.format(address=address)
    cluster.kubectl("apply -f -", objects)
    cluster.kubectl("wait --for=condition=Ready pod/shown --timeout=60s")
    cluster.wait(f"{KUBECTL} get events | grep -E 'NoPool +service/shown'", 30)
    assert cluster.call("test", "-e", TOLD).returncode == 1
    cluster.kubectl("apply -f -", pool)
    yield cluster
    cluster.kubectl("delete --wait=false -f -", objects)
    cluster.kubectl("delete --ignore-not-found -f -", pool)


def test_its_programs_run(cluster: Machine) -> None:
    cluster.kubectl(
        "-n kube-system rollout status deployment/load-balancer-allocator --timeout=120s"
    )
    cluster.kubectl("-n kube-system rollout status daemonset/load-balancer-speaker --timeout=60s")
    assert not changed(cluster.apply("metalk8s.load-balancer"))


def test_a_service_is_answered_to_who_is_outside(
    shown: Machine, address: ipaddress.IPv4Address
) -> None:
    """With the address of who asked, since the pod is on the machine that has the Service's."""
    service = f"{KUBECTL} get service shown -o {STATUS}"
    shown.wait(f"{service} | grep -x {address}", 30)
    shown.wait(f"ip -oneline -4 address | grep 'inet {address}/32 '", 30)
    with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
        asked_by = ipaddress.IPv4Address(answer.read().decode().strip())
    assert asked_by != ipaddress.IPv4Address(shown.address)
    assert f"elements = {{ {address} }}" in shown.shell(TABLE)


def test_nothing_else_is_there(shown: Machine, address: ipaddress.IPv4Address) -> None:
    """Not the API server, for one, nor ssh, which listens at all addresses."""
    for port in (22, 6443, 10250):
        connection = http.client.HTTPConnection(str(address), port, timeout=2)
        with pytest.raises(TimeoutError):
            connection.connect()


def test_who_asks_in_vain_is_told_why(shown: Machine) -> None:
    shown.kubectl("create service loadbalancer another --tcp=80")
    shown.wait(f"{KUBECTL} get events | grep -E 'PoolExhausted +service/another'", 30)
    shown.kubectl("delete service another")


def test_what_is_no_range_is_no_pool(shown: Machine) -> None:
    bad = POOL.format(address="192.0.2.300").replace("outside", "bad")
    done = shown.call("sh", "-c", f"echo '{bad}' | {KUBECTL} apply -f -")
    assert done.returncode
    assert "spec.addresses" in done.stderr


def test_without_a_pool_it_is_as_before(shown: Machine, address: ipaddress.IPv4Address) -> None:
    shown.kubectl("delete loadbalancerpool outside")
    shown.wait(f"! ip -oneline -4 address | grep -q 'inet {address}/32 ' && echo gone", 30)
    shown.wait(f"! {TABLE} && echo gone", 30)
    assert shown.kubectl(f"get service shown -o {STATUS}") == ""
    assert shown.call("test", "-e", TOLD).returncode == 1
