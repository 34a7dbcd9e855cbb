"""The API server and etcd that the build made, with the rights that the states give."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import yaml
from control_plane import API_SERVER, ETCD, ROOT, free_ports
from metalk8s_operators.client import ApiError, Client
from waiting import until

OBJECTS = ROOT / "salt/states/metalk8s/ingress/files/objects.yaml.j2"
PLURALS = {"Ingress": "ingresses", "IngressClass": "ingressclasses", "Endpoints": "endpoints"}
EVERYWHERE = {"IngressClass", "Node", "Namespace", "ClusterRole", "ClusterRoleBinding"}


def own_address():
    """Return an address of this machine that is not of loopback: the API refuses those."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))  # nothing is sent
        return one.getsockname()[0]


class RealApi:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="api-"))
        self._clients, peers, self.port = free_ports(3)
        self._peers = peers
        self.url = f"https://127.0.0.1:{self.port}"
        (self.folder / "tokens").write_text(
            "admin,admin,1,system:masters\n"
            'ingress,system:serviceaccount:kube-system:ingress,2,"system:authenticated"\n'
        )
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        self._running = {}
        self._start_etcd()
        self.start()
        self.admin = Client(self.url, self._account("admin"))
        self.account = self._account("ingress")
        until(self._is_ready, "the API server", 120)
        lines = [line for line in OBJECTS.read_text().splitlines() if not line.startswith("{")]
        rights = [
            yaml.safe_load(document)
            for document in "\n".join(lines).split("\n---\n")
            if "{" not in document and "rbac.authorization.k8s.io" in document
        ]
        assert len(rights) == 4, "the rights that the states give"
        for one in rights:
            self.put(one)
        for name in ("shop", "other"):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _start_etcd(self):
        clients, peers = f"http://127.0.0.1:{self._clients}", f"http://127.0.0.1:{self._peers}"
        self._run(
            "etcd",
            [ETCD, "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
             "--listen-client-urls", clients, "--advertise-client-urls", clients,
             "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
             "--initial-cluster", f"default={peers}"],
        )  # fmt: skip

    def start(self):
        key = self.folder / "sa.key"
        self._run(
            "apiserver",
            [API_SERVER, f"--etcd-servers=http://127.0.0.1:{self._clients}",
             f"--cert-dir={self.folder}/certs", "--bind-address=127.0.0.1",
             f"--secure-port={self.port}", f"--token-auth-file={self.folder}/tokens",
             "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
             "--service-account-issuer=https://kubernetes.default.svc",
             f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
             "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount"],
        )  # fmt: skip

    def stop(self):
        process = self._running.pop("apiserver")
        process.send_signal(signal.SIGKILL)
        process.wait(20)

    def _is_ready(self):
        try:
            self.admin.get("/api/v1/namespaces/kube-system", {})
        except ApiError:
            return False
        return True

    def _account(self, token):
        folder = self.folder / f"account-{token}"
        folder.mkdir()
        (folder / "token").write_text(token)
        (folder / "ca.crt").symlink_to(self.folder / "certs/apiserver.crt")
        return folder

    def path(self, item):
        group = item["apiVersion"]
        base = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        if item["kind"] not in EVERYWHERE:
            base += f"/namespaces/{item['metadata']['namespace']}"
        return f"{base}/{PLURALS.get(item['kind'], item['kind'].lower() + 's')}"

    def put(self, item):
        """Let an object be there, as it is given."""
        item = {**item, "metadata": {**item["metadata"]}}
        for field in ("uid", "creationTimestamp"):
            item["metadata"].pop(field, None)
        name = f"{self.path(item)}/{item['metadata']['name']}"
        try:
            self.admin.write("POST", self.path(item), item)
        except ApiError as error:
            if error.status != 409:
                raise
            patch = {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
            self.admin.write("PATCH", name, patch, "application/merge-patch+json")
        if item["kind"] == "Node":
            content = "application/strategic-merge-patch+json"
            self.admin.write("PATCH", f"{name}/status", {"status": item["status"]}, content)

    def remove(self, item):
        self.admin.write("DELETE", f"{self.path(item)}/{item['metadata']['name']}", {})

    def read(self, item):
        return self.admin.get(f"{self.path(item)}/{item['metadata']['name']}", {})

    def events(self, namespace="shop"):
        return self.admin.get(f"/api/v1/namespaces/{namespace}/events", {})["items"]

    def _run(self, name, words):
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                list(map(str, words)), stdout=log, stderr=log, cwd=self.folder
            )

    def close(self):
        for process in self._running.values():
            process.kill()
            process.wait(20)
        shutil.rmtree(self.folder)
