"""The API server and the etcd that the build has made, in a namespace of the kernel; no kubelets.

Runs ``etcd``, ``kube-apiserver`` (of ``METALK8S_BUILD_ROOT``), ``openssl``, ``ip``.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import secrets
import ssl
import subprocess
import time
from collections.abc import Iterator
from typing import Any

PORT, STORE, MEMBERS = 6443, 2379, 2380
STARTED = 120.0  # seconds that it may take to be ready
PROGRAMS = {"etcd": "packages/etcd/compiled/etcd",
            "kube-apiserver": "packages/kubernetes/compiled/kube-apiserver"}  # fmt: skip


class RealApi:
    """One that runs. Connections are made where the calling thread is: in its namespace.

    :param account: folder with ``token`` and ``ca.crt``, as a pod has it.
    """

    def __init__(self, address: str, account: pathlib.Path) -> None:
        self.url, self.account = f"https://{address}:{PORT}", account
        self._address = address
        self._token = (account / "token").read_text()
        self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        self._connection: http.client.HTTPSConnection | None = None

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask once, on the connection of before."""
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._address, PORT, context=self._tls, timeout=30
            )
        merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": merge}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = self._connection.getresponse()
        said = answer.read().decode()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {answer.status} {said}")
        return json.loads(said) if said.startswith("{") else said

    def is_ready(self) -> bool:
        """Tell whether it says that it is."""
        try:
            return bool(self.call("GET", "/readyz") == "ok")
        except (OSError, RuntimeError, http.client.HTTPException):
            self._connection = None
            return False


@contextlib.contextmanager
def running(namespace: str, address: str, folder: pathlib.Path) -> Iterator[RealApi]:
    """Start both in a namespace; they listen at an address of it, and end afterwards."""
    build = pathlib.Path(os.environ["METALK8S_BUILD_ROOT"])
    account, keys = folder / "account", folder / "keys"
    for one in (account, keys):
        one.mkdir()
    _keys(account, keys, address)
    store = f"http://127.0.0.1:{STORE}"
    words = {
        "etcd": [
            f"--data-dir={folder}/etcd", f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls=http://127.0.0.1:{MEMBERS}", "--log-level=error",
        ],
        "kube-apiserver": [
            f"--etcd-servers={store}", f"--bind-address={address}", f"--secure-port={PORT}",
            f"--advertise-address={address}", f"--token-auth-file={keys}/tokens",
            f"--tls-cert-file={account}/ca.crt", f"--tls-private-key-file={keys}/key",
            f"--service-account-key-file={keys}/key", f"--cert-dir={keys}",
            f"--service-account-signing-key-file={keys}/key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/12", "--authorization-mode=AlwaysAllow",
            "--disable-admission-plugins=ServiceAccount",
        ],
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for name, path in PROGRAMS.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            inside = ["ip", "netns", "exec", namespace, str(build / path), *words[name]]
            process = subprocess.Popen(inside, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield RealApi(address, account)


def await_ready(api: RealApi, log: pathlib.Path) -> None:
    """Wait for it, in its namespace."""
    until = time.monotonic() + STARTED
    while not api.is_ready():
        if time.monotonic() > until:
            raise TimeoutError(f"the API server is not ready:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)


def _keys(account: pathlib.Path, keys: pathlib.Path, address: str) -> None:
    """Make a certificate, which signs itself, and the token of somebody who may do anything."""
    token = secrets.token_hex(16)
    (account / "token").write_text(token)
    (keys / "tokens").write_text(f'{token},bench,bench,"system:masters"\n')
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=bench", "-addext", f"subjectAltName=IP:{address}"]
    argv += ["-keyout", f"{keys}/key", "-out", f"{account}/ca.crt"]
    subprocess.run(argv, check=True, capture_output=True)
