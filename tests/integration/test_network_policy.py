"""Network policies in a cluster: nobody, then who has a label, then at one port only.

Runs ``docker``. The fixture ``cluster`` comes from ``conftest.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed.machine import KUBECTL, Machine

pytestmark = pytest.mark.integration

SPACE = "policies"
# Answers at two ports. HTTPServer would look its own name up, and nobody answers.
ANSWER = """
import http.server, socketserver, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")
for port in (8080, 9090):
    server = socketserver.TCPServer(("", port), Answer)
    threading.Thread(target=server.serve_forever).start()
"""
ASK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=2).read().decode())"
FRIENDS = {"podSelector": {"matchLabels": {"app": "friend"}}}
SERVER = {"matchLabels": {"app": "server"}}


def pod(cluster: Machine, name: str) -> dict[str, Any]:
    """Return a pod of the agent's image, which has Python."""
    place = f"/srv/scality/metalk8s-{cluster.version}/images/network-agent"
    tag = cluster.shell(f"ls {place}").strip()
    image = f"registry.metalk8s.invalid/metalk8s-{cluster.version}/network-agent:{tag}"
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    container = {"name": name, "image": image, "command": ["python3", "-c", ANSWER]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE, "labels": {"app": name}},
        "spec": {
            "nodeName": "bootstrap",
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "readinessProbe": probe}],
        },
    }


def allow(cluster: Machine, spec: dict[str, Any]) -> None:
    """Let one policy be the only one of the namespace."""
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "only", "namespace": SPACE},
        "spec": spec,
    }
    cluster.kubectl("apply -f -", json.dumps(policy))


@pytest.fixture(scope="module")
def server(cluster: Machine) -> Iterator[str]:
    """Run a server and two who ask, under a policy that lets nobody in; return its address."""
    cluster.kubectl(f"create namespace {SPACE}")
    try:
        allow(cluster, {"podSelector": {}})
        for name in ("server", "friend", "stranger"):
            cluster.kubectl("apply -f -", json.dumps(pod(cluster, name)))
        # Ready by the kubelet's probe, which no policy keeps out.
        wait = "wait --for=condition=Ready pod --all --timeout=120s"
        cluster.kubectl(f"-n {SPACE} {wait}")
        yield cluster.kubectl(f"-n {SPACE} get pod server -o 'jsonpath={{.status.podIP}}'")
    finally:
        cluster.kubectl(f"delete namespace {SPACE} --wait=false")


def ask(name: str, address: str, port: int = 8080) -> str:
    """Return the command by which a pod asks the server."""
    return f"{KUBECTL} -n {SPACE} exec {name} -- python3 -c '{ASK}' http://{address}:{port}/"


def is_refused(cluster: Machine, name: str, address: str, port: int = 8080) -> bool:
    """Tell whether a pod gets no answer."""
    done = cluster.call("sh", "-c", ask(name, address, port))
    return done.returncode != 0 and "timed out" in done.stderr


def test_nobody_gets_in_by_default(cluster: Machine, server: str) -> None:
    """Since before the pods were there; but for the machine itself."""
    for name in ("friend", "stranger"):
        assert is_refused(cluster, name, server)
    assert cluster.shell(f"python3 -c '{ASK}' http://{server}:8080/") == "here\n"
    assert "here" in cluster.wait(ask("server", server), 5), "itself"


def test_who_has_the_label_gets_in(cluster: Machine, server: str) -> None:
    """And nobody else, at the pod's address or at its Service's."""
    allow(cluster, {"podSelector": SERVER, "ingress": [{"from": [FRIENDS]}]})
    cluster.kubectl(f"-n {SPACE} expose pod server --port=8080")
    service = cluster.kubectl(f"-n {SPACE} get service server -o 'jsonpath={{.spec.clusterIP}}'")
    for address in (server, service):
        assert "here" in cluster.wait(ask("friend", address), 30)
        assert is_refused(cluster, "stranger", address)


def test_one_port_is_open(cluster: Machine, server: str) -> None:
    """For everybody, and the other for nobody."""
    allow(cluster, {"podSelector": SERVER, "ingress": [{"ports": [{"port": 9090}]}]})
    assert "here" in cluster.wait(ask("stranger", server, 9090), 30)
    assert is_refused(cluster, "friend", server, 8080)


def test_egress(cluster: Machine, server: str) -> None:
    """A pod that may ask nobody gets no answer from whom everybody may ask."""
    allow(cluster, {"podSelector": FRIENDS["podSelector"], "policyTypes": ["Egress"]})
    assert "here" in cluster.wait(ask("stranger", server), 30)
    assert is_refused(cluster, "friend", server)


def test_without_a_policy_all_is_open(cluster: Machine, server: str) -> None:
    """Nothing of them stays."""
    cluster.kubectl(f"-n {SPACE} delete networkpolicy only")
    for name in ("friend", "stranger"):
        assert "here" in cluster.wait(ask(name, server), 30)
    assert "chain ingress" not in cluster.shell("nft list table ip metalk8s_policies")
