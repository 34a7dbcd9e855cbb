"""Requests from outside reach pods of a cluster, as its Ingresses say.

The rest (which path, hostile Ingresses, changes under load) is in ``operators/ingress/tests``.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.testbed.machine import KUBECTL, Machine, changed

pytestmark = pytest.mark.integration

OBJECTS = """\
apiVersion: v1
kind: Pod
metadata: {{name: shop, labels: {{app: shop}}}}
spec:
  tolerations: [{{operator: Exists}}]
  containers:
    - name: shop
      image: registry.metalk8s.invalid/metalk8s-{version}/ingress:{ingress}
      command: [python3, -c]
      args:
        - |
          from http.server import *
          class Shop(BaseHTTPRequestHandler):
              def do_GET(self):
                  self.send_response(200)
                  self.end_headers()
                  self.wfile.write(b"shop " + self.headers["X-Forwarded-Proto"].encode())
          ThreadingHTTPServer(("", 8000), Shop).serve_forever()
---
apiVersion: v1
kind: Service
metadata: {{name: shop}}
spec: {{selector: {{app: shop}}, ports: [{{name: http, port: 80, targetPort: 8000}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: shop}}
spec:
  tls: [{{hosts: [shop.example], secretName: shop}}]
  rules:
    - host: shop.example
      http:
        paths:
          - path: /
            pathType: Prefix
            backend: {{service: {{name: shop, port: {{name: http}}}}}}
    - http:
        paths:
          - path: /plain
            pathType: Exact
            backend: {{service: {{name: shop, port: {{number: 80}}}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: bad}}
spec:
  rules:
    - host: shop.example
      http:
        paths:
          - path: "/x y"
            pathType: Prefix
            backend: {{service: {{name: shop, port: {{number: 80}}}}}}
"""
# A node has neither curl nor a name server that knows the shop.
ASK = """
import http.client, socket, ssl, sys
address, port, host, path, *authority = sys.argv[1:]
wire = socket.create_connection((address, int(port)), 5)
if port != "80":
    context = ssl.create_default_context(cafile=authority[0] if authority else None)
    if not authority:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    wire = context.wrap_socket(wire, server_hostname=host)
connection = http.client.HTTPConnection(host)
connection.sock = wire
connection.request("GET", path)
answer = connection.getresponse()
print(answer.status, answer.reason)
print(answer.headers)
print(answer.read().decode())
"""
PAIR = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=shop.example "
    "-addext subjectAltName=DNS:shop.example -keyout /root/shop.key -out /root/shop.crt"
)


@pytest.fixture(scope="module")
def shop(cluster: Machine, iso_tree: pathlib.Path) -> Iterator[Machine]:
    """Give the cluster with a shop that is reached by an Ingress."""
    [ingress] = (path.name for path in (iso_tree / "images/ingress").iterdir())
    objects = OBJECTS.format(version=cluster.version, ingress=ingress)
    cluster.shell(PAIR)
    cluster.kubectl("create secret tls shop --cert=/root/shop.crt --key=/root/shop.key")
    cluster.kubectl("apply -f -", objects)
    cluster.kubectl("wait --for=condition=Ready pod/shop --timeout=60s")
    yield cluster
    cluster.kubectl("delete --wait=false -f -", objects)
    cluster.kubectl("delete secret shop")
    cluster.shell("rm /root/shop.key /root/shop.crt")


def asked(machine: Machine, port: int, host: str, path: str, said: str, ca: str = "") -> None:
    """Wait until a machine gets an answer that has some words.

    :param ca: who is believed; without, anybody.
    """
    words = f"{machine.address} {port} {host} {path} {ca}"
    machine.wait(f"python3.11 -c '{ASK}' {words} | grep -i '{said}'", 30)


def test_pods_run_on_every_machine_and_again_changes_nothing(cluster: Machine) -> None:
    for name in ("ingress", "ingress-control-plane"):
        cluster.kubectl(f"-n kube-system rollout status daemonset/{name} --timeout=120s")
    assert not changed(cluster.apply("metalk8s.ingress"))


def test_requests(shop: Machine) -> None:
    asked(shop, 443, "shop.example", "/any", "^shop https", "/root/shop.crt")
    asked(shop, 80, shop.address, "/plain", "^shop http")
    asked(shop, 80, shop.address, "/plain/not", "^404 ")
    asked(shop, 80, "shop.example", "/a", "^location: https://shop.example/a")


def test_where_it_is_reached_and_what_is_wrong_is_told(shop: Machine) -> None:
    script = f"{KUBECTL} get ingress shop -o jsonpath='{{.status.loadBalancer.ingress[*].ip}}'"
    shop.wait(f"{script} | grep -x {shop.address}", 30)
    shop.wait(f"{KUBECTL} describe ingress bad | grep 'none that a request can have'", 30)
    found = json.loads(shop.kubectl("get ingress shop -o json"))
    assert found["spec"]["ingressClassName"] == "metalk8s"  # the default


def test_the_control_plane_is_another_one(shop: Machine) -> None:
    """What is reached in one plane is not in the other one."""
    asked(shop, 8443, shop.address, "/plain", "^404 ")


def test_who_takes_requests_knows_nothing_else(cluster: Machine) -> None:
    """No token, no root, and one right: ports below 1024."""
    inside = f"{KUBECTL} -n kube-system exec daemonset/ingress -c haproxy --"
    done = cluster.call("sh", "-c", f"{inside} ls /run/secrets")
    assert "cannot access '/run/secrets'" in done.stderr
    script = (
        "pid=$(pgrep -f -o '^/usr/sbin/haproxy -W -db -S /run/metalk8s-ingress') && "
        "grep -E '^(Uid|CapEff|NoNewPrivs):' /proc/$pid/status"
    )
    processes = cluster.shell(script)
    facts = dict(line.split(":", 1) for line in processes.splitlines())
    assert facts["CapEff"].strip() in ("0000000000000400", "0000000000000000")
    assert facts["NoNewPrivs"].strip() == "1"
    assert set(facts["Uid"].split()) <= {"8081", "8083"}
