"""haproxy of the ISO between the programs of a machine and API servers, of which some are gone.

It runs under the restrictions of the pod, on this machine's loopback; so do the API servers, each
at an address of its own. The configuration is the states' own.

Runs ``docker``, ``openssl`` and ``skopeo``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import jinja2
import pytest
import yaml

from tests.integration.conftest import ENGINE_TESTS, ROOT, require, run
from tests.testbed.machine import docker

pytestmark = pytest.mark.integration

TEMPLATE = ROOT / "salt/states/metalk8s/balancer/files/haproxy.cfg.j2"
ACCOUNT = yaml.safe_load((ROOT / "salt/states/metalk8s/parameters/defaults.yaml").read_text())[
    "balancer"
]["account"]["id"]
# Answers as an API server does to who asks whether it is ready, and with its address to others;
# a watch gets nothing more. Arguments: address, port, certificate; a file that makes it not ready.
SERVER = """
import http.server, os, ssl, sys, threading
address, port, certificate, down = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_ready = self.path != '/readyz' or not os.path.exists(down)
        self.send_response(200 if is_ready else 500)
        self.end_headers()
        self.wfile.write(address.encode())
        self.wfile.flush()
        if self.path == '/watch':
            threading.Event().wait()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)
server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"""
ONE, OTHER = "127.0.0.2", "127.0.0.3"
# Starts haproxy with a folder of configuration, an authority and a name; gives what stops it.
Start = Callable[[pathlib.Path, pathlib.Path, str], Callable[[], None]]


def wait(what: str, condition: Callable[[], bool], seconds: float = 10) -> float:
    """Wait until something is so; return how many seconds that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, what
        time.sleep(0.05)
    return time.monotonic() - start


def free_port() -> int:
    """Return a port that nobody listens on, at any address."""
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


@dataclasses.dataclass
class Machine:
    """A balancer, and the API servers that it knows."""

    folder: pathlib.Path
    port: int = dataclasses.field(default_factory=free_port)
    health: int = dataclasses.field(default_factory=free_port)
    servers_port: int = dataclasses.field(default_factory=free_port)
    servers: dict[str, subprocess.Popen[bytes]] = dataclasses.field(default_factory=dict)

    @property
    def authority(self) -> pathlib.Path:
        return self.folder / "ca.crt"

    def certify(self, name: str = "ca") -> pathlib.Path:
        """Make an authority, and return a certificate of it with its key."""
        key = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
        ca, pem = self.folder / name, self.folder / f"{name}-server"
        run(*("openssl", "req", "-x509", *key, "-subj", f"/CN={name}"),
            *("-keyout", f"{ca}.key", "-out", f"{ca}.crt"))  # fmt: skip
        run(*("openssl", "req", "-x509", *key, "-subj", "/CN=kube-apiserver"),
            *("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key"),
            *("-addext", "basicConstraints=CA:FALSE"),
            *("-addext", "subjectAltName=DNS:kubernetes,IP:127.0.0.1"),
            *("-keyout", f"{pem}.key", "-out", f"{pem}.crt"))  # fmt: skip
        both = [pathlib.Path(f"{pem}.{part}").read_text() for part in ("key", "crt")]
        (self.folder / f"{name}.pem").write_text("".join(both))
        return self.folder / f"{name}.pem"

    def down(self, address: str) -> pathlib.Path:
        """Return the file by which a server is not ready."""
        return self.folder / f"{address}.down"

    def serve(self, address: str, certificate: pathlib.Path | None = None) -> None:
        """Start an API server."""
        pem = certificate or self.folder / "ca.pem"
        argv = [address, str(self.servers_port), str(pem), str(self.down(address))]
        self.servers[address] = subprocess.Popen([sys.executable, "-c", SERVER, *argv])

        def listens() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection((address, self.servers_port), 1).close()
                return True
            return False

        wait(f"{address} does not listen", listens)

    def kill(self, address: str) -> None:
        """End an API server at once."""
        process = self.servers.pop(address)
        process.kill()
        process.wait()

    def configure(self, own: str) -> pathlib.Path:
        """Write what the states would write on the machine with an address."""
        metalk8s = {
            "generated": "Generated.",
            "balancer": {"port": self.port},
            "kube_apiserver": {"port": self.servers_port},
            "networks": {"control_plane": {"address": own, "masters": [ONE, OTHER]}},
            "pki": {"authorities": {"kubernetes": {"path": str(self.folder / "ca")}}},
            "ports": {"balancer_health": {"number": self.health}},
        }
        environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)
        text = environment.from_string(TEMPLATE.read_text("utf-8")).render(metalk8s=metalk8s)
        folder = self.folder / "haproxy"
        folder.mkdir()
        (folder / "haproxy.cfg").write_text(f"{text}\n", encoding="utf-8")
        return folder

    def is_healthy(self) -> bool:
        """Ask as the kubelet does."""
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.health}/healthz"
            with urllib.request.urlopen(url, timeout=1) as answer:
                return bool(answer.status == 200)
        return False

    def open(self, path: str = "/", timeout: float = 3) -> ssl.SSLSocket:
        """Ask the API through the balancer; return the connection."""
        trust = ssl.create_default_context(cafile=self.authority)
        stream = socket.create_connection(("127.0.0.1", self.port), timeout)
        tls = trust.wrap_socket(stream, server_hostname="127.0.0.1")
        tls.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return tls

    def asked(self) -> str:
        """Return the address of the API server that answers; nothing when none does."""
        with contextlib.suppress(OSError), self.open() as tls:
            text = b"".join(iter(lambda: tls.recv(4096), b""))
            return text.rpartition(b"\r\n")[2].decode()
        return ""


@pytest.fixture(scope="module")
def haproxy(iso_tree: pathlib.Path) -> Iterator[Start]:
    """Return what starts the ISO's own haproxy as the pod does."""
    require("docker", "openssl", "skopeo")
    image = f"{ENGINE_TESTS}/haproxy:iso"
    [tree] = (iso_tree / "images" / "haproxy").iterdir()
    run("skopeo", "--insecure-policy", "copy", "-q", f"dir:{tree}", f"docker-daemon:{image}")

    def start(folder: pathlib.Path, authority: pathlib.Path, name: str) -> Callable[[], None]:
        docker(
            *("run", "--detach", f"--name={name}", "--network=host", f"--user={ACCOUNT}"),
            *("--read-only", "--security-opt=no-new-privileges", "--cap-drop=ALL"),
            *(f"--volume={folder}:/etc/haproxy:ro", f"--volume={authority}:{authority}:ro", image),
        )
        return lambda: docker("rm", "--force", name) and None

    try:
        yield start
    finally:
        run("docker", "image", "rm", "--force", image)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    """Make a machine with two API servers."""
    tmp_path.chmod(0o755)
    made = Machine(tmp_path)
    made.certify()
    try:
        for address in (ONE, OTHER):
            made.serve(address)
        yield made
    finally:
        for address in list(made.servers):
            made.kill(address)


@contextlib.contextmanager
def balanced(machine: Machine, haproxy: Start, own: str) -> Iterator[None]:
    """Run the balancer of the machine with an address, until it knows its servers."""
    folder = machine.configure(own)
    stop = haproxy(folder, machine.authority, f"balancer-{machine.port}")
    try:
        wait("the balancer does not start", machine.is_healthy)
        yield
    finally:
        stop()


def is_open(tls: ssl.SSLSocket) -> bool:
    """Tell whether a connection is still there; reads what comes."""
    tls.settimeout(0.05)
    try:
        return bool(tls.recv(4096))
    except TimeoutError:
        return True
    except OSError:
        return False


def test_a_master_asks_its_own_and_others_when_that_is_gone(
    machine: Machine, haproxy: Start
) -> None:
    """Killed, it is missed by nobody; back, it is asked again."""
    with balanced(machine, haproxy, own=ONE):
        assert {machine.asked() for _ in range(8)} == {ONE}
        machine.kill(ONE)
        start = time.monotonic()
        assert machine.asked() == OTHER
        assert time.monotonic() - start < 2
        assert {machine.asked() for _ in range(8)} == {OTHER}
        machine.serve(ONE)
        wait("the own one is not asked again", lambda: machine.asked() == ONE)


def test_connections_to_one_that_hangs_end(machine: Machine, haproxy: Start) -> None:
    """Who watches through it would wait for ever; who watches another one is not disturbed."""
    with balanced(machine, haproxy, own=ONE), machine.open("/watch") as lost:
        wait("the watch does not begin", lambda: ONE.encode() in lost.recv(4096))
        machine.servers[ONE].send_signal(signal.SIGSTOP)
        try:
            wait("it is not cut", lambda: not is_open(lost), 8)
            assert machine.asked() == OTHER
            with machine.open("/watch") as kept:
                machine.servers[ONE].send_signal(signal.SIGCONT)
                wait("the own one is not asked again", lambda: machine.asked() == ONE)
                assert is_open(kept)
        finally:
            machine.servers[ONE].send_signal(signal.SIGCONT)


def test_a_worker_asks_all(machine: Machine, haproxy: Start) -> None:
    """Its connections are spread; one that says that it is not ready gets none."""
    with balanced(machine, haproxy, own="127.0.0.9"), contextlib.ExitStack() as watches:
        for _ in range(4):
            watches.enter_context(machine.open("/watch"))
        assert {machine.asked() for _ in range(8)} == {ONE, OTHER}
        machine.down(ONE).touch()
        wait("it is still asked", lambda: {machine.asked() for _ in range(8)} == {OTHER})
        machine.down(ONE).unlink()
        wait("it is not asked again", lambda: machine.asked() == ONE)


def test_the_balancer_outlives_all_of_them(machine: Machine, haproxy: Start) -> None:
    """Without an API server it is healthy all the same, and uses the first that comes."""
    with balanced(machine, haproxy, own="127.0.0.9"):
        machine.kill(ONE)
        machine.kill(OTHER)
        wait("somebody answers", lambda: machine.asked() == "")
        assert machine.is_healthy()
        machine.serve(OTHER)
        assert wait("nobody answers", lambda: machine.asked() == OTHER) < 5


def test_a_stranger_at_an_address_is_not_asked(machine: Machine, haproxy: Start) -> None:
    """Whoever has no certificate of the authority is no API server."""
    machine.kill(ONE)
    machine.serve(ONE, machine.certify("stranger"))
    with balanced(machine, haproxy, own=ONE):
        wait("it is asked", lambda: {machine.asked() for _ in range(8)} == {OTHER})
