"""Who is refused by the Salt master is in its log, with the configuration that the states write.

Runs a master of Salt's own, on loopback, and ``openssl``.
"""

from __future__ import annotations

import json
import pathlib
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator

import jinja2
import pytest

from tests import firewall
from tests.integration.conftest import require
from tests.unit.salt_master import certify

pytestmark = pytest.mark.integration

TEMPLATE = firewall.ROOT / "salt/states/metalk8s/salt-master/files/master.conf.j2"
PATIENCE = 60.0  # seconds


class Master:
    """A master: where it listens, and what it has said so far."""

    def __init__(self, folder: pathlib.Path, ports: dict[str, int]) -> None:
        self.folder, self.ports = folder, ports

    def meet(self, port: int, who: str) -> int:
        """Shake hands, or try to; return from which port.

        :param who: whose certificate is shown; nobody's when empty, no TLS at all for ``plain``.
        """
        with socket.create_connection(("127.0.0.1", port), 5) as stream:
            own: int = stream.getsockname()[1]
            if who == "plain":
                stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return own
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if who:
                context.load_cert_chain(self.folder / f"{who}.crt", self.folder / f"{who}.key")
            # With TLS 1.3, who asks has finished before it is refused.
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.wrap_socket(stream).close()
            except (ssl.SSLError, OSError):
                assert who != "minion"
            return own

    def said(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def wait_for(self, *words: str) -> None:
        """Wait until one line has all of these words."""
        until = time.monotonic() + PATIENCE
        while not any(all(word in line for word in words) for line in self.said().splitlines()):
            assert time.monotonic() < until, f"{words}: {self.said()}"
            time.sleep(0.1)


def free_ports(*names: str) -> dict[str, int]:
    """Find ports of loopback that nobody has."""
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
    ports = {name: stream.getsockname()[1] for name, stream in sockets.items()}
    for stream in sockets.values():
        stream.close()
    return ports


@pytest.fixture(scope="module")
def master(salt_venv: pathlib.Path) -> Iterator[Master]:
    """Run it; it takes who has the minion's certificate."""
    require("openssl")
    # Names of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="master-") as name:
        folder = certify(pathlib.Path(name), "openssl", "master", "minion", "stranger")
        ports = free_ports("publish", "request")
        metalk8s = firewall.known(address="127.0.0.1")
        metalk8s["salt_master"]["ports"] = ports
        environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)
        environment.filters["json"] = json.dumps  # Salt's
        text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
            metalk8s=metalk8s
        )
        for there, here in (
            ("/etc/salt/tls/", f"{name}/"),
            ("/etc/salt/ca.crt", f"{name}/minion.crt"),
            ("user: salt", f"user: root\nroot_dir: {name}/root\nworker_threads: 1"),
        ):
            assert there in text
            text = text.replace(there, here)
        (folder / "conf").mkdir()
        (folder / "conf/master").write_text(text + "\n", encoding="utf-8")
        # As in the pod.
        argv = [salt_venv / "bin/salt-master", f"--config-dir={name}/conf", "--log-level=warning"]
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        try:
            found = Master(folder, ports)
            for port in ports.values():
                wait_until_open(port)
            yield found
        finally:
            running.terminate()
            running.wait(PATIENCE)


def wait_until_open(port: int) -> None:
    """Wait until something listens."""
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as stream:
            if not stream.connect_ex(("127.0.0.1", port)):
                return
        assert time.monotonic() < until, port
        time.sleep(0.2)


@pytest.mark.parametrize("port", ["publish", "request"])
@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("", "peer did not return a certificate"),
        ("stranger", "certificate verify failed"),
        ("plain", "http request"),
    ],
)
def test_who_is_refused_is_logged(master: Master, port: str, who: str, why: str) -> None:
    """From where, and why."""
    own = master.meet(master.ports[port], who)
    master.wait_for("[WARNING ]", f"('127.0.0.1', {own})", why)


def test_who_is_let_in_is_not(master: Master) -> None:
    """Only refusals are."""
    own = master.meet(master.ports["request"], "minion")
    master.wait_for(f"{master.meet(master.ports['request'], 'plain')})")
    assert f"'127.0.0.1', {own})" not in master.said()
