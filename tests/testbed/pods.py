"""Pods that tests of a fleet run: they answer, ask, or only start."""

from __future__ import annotations

import json

from tests.testbed.fleet import Fleet
from tests.testbed.machine import Machine

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
ASK_API = """
import ssl, sys, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
request = urllib.request.Request(sys.argv[1])
request.add_header("Authorization", "Bearer " + open(folder + "token").read())
print(urllib.request.urlopen(request, timeout=5, context=context).read().decode())
"""
ASK = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"
ASK_NAME = 'import socket; print(socket.gethostbyname("kubernetes.default.svc.cluster.local"))'
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


def run_pod(fleet: Fleet, name: str, machine: str, seconds: int = 120, app: str = "") -> str:
    """Run a pod that answers on a machine of the cluster; return its address.

    :param app: its label, by default its name.
    """
    tag = fleet.first.shell(
        f"ls /srv/scality/metalk8s-{fleet.first.version}/images/network-agent"
    ).strip()
    image = f"registry.metalk8s.invalid/metalk8s-{fleet.first.version}/network-agent:{tag}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app or name}},
        "spec": {
            "nodeName": machine,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": name, "image": image, "command": ["python3", "-c", ANSWER]},
            ],
        },
    }
    fleet.first.kubectl("apply -f -", json.dumps(manifest))
    fleet.first.kubectl(f"wait --for=condition=Ready pod/{name} --timeout={seconds}s")
    return fleet.first.kubectl(f"get pod {name} -o 'jsonpath={{.status.podIP}}'")


def starts_a_pod(fleet: Fleet, witness: Machine, name: str, machine: str) -> None:
    """Let a pod start on a machine, with an image that has to be pulled."""
    version = fleet.first.version
    nginx = witness.shell(f"ls /srv/scality/metalk8s-{version}/images/nginx").strip()
    manifest = POD.format(name=name, machine=machine, version=version, nginx=nginx)
    witness.kubectl("apply -f -", manifest)
    witness.kubectl(f"wait --for=condition=Ready pod/{name} --timeout=180s")
    witness.kubectl(f"delete pod {name} --grace-period=1 --timeout=120s")
