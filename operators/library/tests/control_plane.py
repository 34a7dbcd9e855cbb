"""The API server and etcd that the build compiled, as two programs of this machine's loopback."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
from pathlib import Path

from metalk8s_operators.client import ApiError, Client
from waiting import until

ROOT = Path(__file__).resolve().parents[3]
ADMINISTRATOR = "administrator"
# Below what the kernel gives to whoever connects (ip_local_port_range): the clients of a test under
# load, in another process, take thousands of those, and a server could not have its port any more.
PORTS = range(15000, 30000)
CHANCE = random.SystemRandom()  # no seed: processes side by side would choose the same
START = 60  # seconds
ROLES = "/apis/rbac.authorization.k8s.io/v1"


BUILD = Path(os.environ.get("METALK8S_BUILD_ROOT", ROOT / "_build"))
API_SERVER = BUILD / "packages/kubernetes/compiled/kube-apiserver"
ETCD = BUILD / "packages/etcd/compiled/etcd"


def lacking():
    """Name what is missing on this machine."""
    return [str(name) for name in ("openssl", API_SERVER, ETCD) if not shutil.which(name)]


def free_ports(count):
    """Return ports of loopback that nobody has, and that no client gets by chance."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(_listening()) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def _listening():
    while True:
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", CHANCE.choice(PORTS)))


class ControlPlane:
    """``client`` is somebody's who may do what its roles say; the administrator may do all.

    :param accounts: service accounts, as ``namespace:name``, whose tokens are their names.
    """

    def __init__(self, folder, accounts=()):
        self._folder = folder
        self._running = []
        etcd, self._peer, self.port = free_ports(3)
        self._etcd = f"http://127.0.0.1:{etcd}"
        self._write_accounts(accounts)
        try:
            self._start_etcd()
            self.start_api()
        except BaseException:
            self.close()
            raise

    def client(self, who=ADMINISTRATOR):
        account = self._folder / who.replace(":", ".")
        account.mkdir(exist_ok=True)
        (account / "token").write_text(who)
        shutil.copy(self._folder / "certificates/apiserver.crt", account / "ca.crt")
        return Client(f"https://127.0.0.1:{self.port}", account)

    def _write_accounts(self, accounts):
        lines = [f'{ADMINISTRATOR},{ADMINISTRATOR},0,"system:masters"']
        lines += [
            f'{one},system:serviceaccount:{one},{one},"system:authenticated"' for one in accounts
        ]
        (self._folder / "tokens.csv").write_text("\n".join(lines))
        key = ["openssl", "genrsa", "-out", self._folder / "sa.key", "2048"]
        subprocess.run(key, check=True, capture_output=True)

    def _spawn(self, name, *words):
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log)
        self._running.append((name, process))

    def _start_etcd(self):
        self._spawn(
            *("etcd", ETCD, "--data-dir", self._folder / "etcd", "--unsafe-no-fsync"),
            *("--listen-client-urls", self._etcd, "--advertise-client-urls", self._etcd),
            *("--listen-peer-urls", f"http://127.0.0.1:{self._peer}"),
        )

    def start_api(self):
        key = self._folder / "sa.key"
        self._spawn(
            *("api", API_SERVER, "--etcd-servers", self._etcd, "--bind-address=127.0.0.1"),
            *("--secure-port", self.port, "--cert-dir", self._folder / "certificates"),
            *("--token-auth-file", self._folder / "tokens.csv", "--authorization-mode=RBAC"),
            *("--service-account-issuer=test", "--service-account-signing-key-file", key),
            *("--service-account-key-file", key, "--service-cluster-ip-range=10.96.0.0/12"),
            *("--disable-admission-plugins=ServiceAccount", "--profiling=false"),
        )
        until(self._is_ready, self.log("api"), START)

    def _is_ready(self):
        certificate = self._folder / "certificates/apiserver.crt"
        assert all(process.poll() is None for _, process in self._running), self.log("api")
        if not certificate.is_file():
            return False
        with contextlib.suppress(ApiError):
            # after what everybody may do is there
            return bool(self.client().get(f"{ROLES}/clusterroles/view", {}))
        return False

    def stop(self, name):
        for entry in [one for one in self._running if one[0] == name]:
            self._running.remove(entry)
            entry[1].kill()
            entry[1].wait(20)

    def log(self, name):
        file = self._folder / f"{name}.log"
        return file.read_text()[-3000:] if file.is_file() else ""

    def close(self):
        for name, _ in list(self._running):
            self.stop(name)
