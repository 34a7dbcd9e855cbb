"""keepalived of the ISO between two machines: one of them has the address, without multicast.

A machine is a container that answers for its API server; its keepalived is another in the same
network, under the restrictions of the pod. The configuration is the states' own.

Runs ``docker``, ``ip``, ``openssl`` and ``skopeo``.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import jinja2
import pytest

from tests.integration.conftest import ENGINE_TESTS, ROOT, require, run
from tests.testbed.machine import Sniffer, docker, private_network

pytestmark = pytest.mark.integration

STATES = ROOT / "salt/states/metalk8s"
MAP = ROOT / "tests/render/golden/debian-12-keepalived/map.json"
CA = "/etc/kubernetes/pki/ca.crt"
# Answers as an API server does to who asks whether it is ready; `down` beside it says it is not.
SERVER = """
import http.server, os, socket, ssl, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if os.path.exists('/given/down') else 200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
while not os.path.exists('/given/server.pem'):
    time.sleep(0.1)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('/given/server.pem')
address = socket.gethostbyname(socket.gethostname())
server = http.server.ThreadingHTTPServer((address, 6443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
ASK = """
import ssl, sys, urllib.request as u
trust = ssl.create_default_context(cafile='/given/ca.crt')
print(u.urlopen(sys.argv[1], context=trust, timeout=3).read().decode())
"""


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine: its container, and that of its keepalived."""

    name: str
    address: str
    given: pathlib.Path

    @property
    def keepalived(self) -> str:
        return f"{self.name}-keepalived"

    def has(self, vip: str) -> bool:
        """Tell whether it has an address."""
        said = docker("exec", self.name, "ip", "-4", "address")
        return f" {vip}/32 " in said


def wait(what: str, condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.3)


@pytest.fixture(scope="module")
def image(iso_tree: pathlib.Path) -> Iterator[str]:
    """Return the ISO's own keepalived in the engine."""
    require("docker", "ip", "openssl", "skopeo")
    name = f"{ENGINE_TESTS}/keepalived:iso"
    [tree] = (iso_tree / "images" / "keepalived").iterdir()
    run("skopeo", "--insecure-policy", "copy", "-q", f"dir:{tree}", f"docker-daemon:{name}")
    try:
        yield name
    finally:
        run("docker", "image", "rm", "--force", name)


def configure(host: Host, masters: list[str], vip: str) -> None:
    """Write what the states would write on it."""
    metalk8s = json.loads(MAP.read_text(encoding="utf-8"))
    plane = {"address": host.address, "interface": "eth0", "masters": masters}
    metalk8s["networks"]["control_plane"].update(plane)
    url = f"https://{host.address}:6443"
    metalk8s["kube_apiserver"].update({"host": vip, "local_url": url})
    folder = host.given / "keepalived"
    folder.mkdir()
    for name in ("keepalived.conf", "redirection.nft"):
        template = (STATES / f"keepalived/files/{name}.j2").read_text(encoding="utf-8")
        text = jinja2.Environment(autoescape=False).from_string(template).render(metalk8s=metalk8s)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    block = "authentication {\n    auth_type PASS\n    auth_pass s3cret\n}\n"
    (folder / "authentication.conf").write_text(block, encoding="utf-8")


def certify(folder: pathlib.Path, addresses: list[str]) -> None:
    """Make an authority and a certificate for several addresses."""
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
    run(*("openssl", "req", "-x509", *key, "-subj", "/CN=ca"),
        *("-keyout", folder / "ca.key", "-out", folder / "ca.crt"))  # fmt: skip
    run(*("openssl", "req", "-x509", *key, "-subj", "/CN=kube-apiserver"),
        *("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
        *("-addext", "basicConstraints=CA:FALSE"),
        *("-addext", f"subjectAltName={','.join(f'IP:{address}' for address in addresses)}"),
        *("-keyout", folder / "server.key", "-out", folder / "server.crt"))  # fmt: skip


@pytest.fixture
def pair(
    image: str, debian_root_image: str, tmp_path: pathlib.Path
) -> Iterator[tuple[list[Host], str, Sniffer, str]]:
    """Start two machines with keepalived: give them, the address, who watches, their network."""
    hosts: list[Host] = []
    with private_network() as (name, bridge), Sniffer(bridge) as sniffer:
        # What one machine sends to the other, too.
        run("ip", "link", "set", bridge, "promisc", "on")
        try:
            for number in (1, 2):
                given = tmp_path / f"host{number}"
                given.mkdir()
                container = docker(
                    *("run", "--detach", f"--hostname=host{number}", f"--network={name}"),
                    *(f"--volume={given}:/given:ro", "--entrypoint=python3"),
                    *(debian_root_image, "-c", SERVER),
                ).strip()
                [found] = json.loads(docker("inspect", container))
                settings = found["NetworkSettings"]["Networks"][name]
                hosts.append(Host(container, settings["IPAddress"], given))
            here = f"{settings['IPAddress']}/{settings['IPPrefixLen']}"
            vip = str(ipaddress.ip_network(here, strict=False)[-2])
            masters = [host.address for host in hosts]
            certify(tmp_path, [vip, *masters])
            for host in hosts:
                configure(host, masters, vip)
                shutil.copy(tmp_path / "ca.crt", host.given)
                pem = [(tmp_path / f"server.{part}").read_text() for part in ("key", "crt")]
                (host.given / "server.pem").write_text("".join(pem))
                start(host, image, vip)
            yield hosts, vip, sniffer, name
        finally:
            for host in hosts:
                run("docker", "rm", "--force", host.keepalived, host.name)


def start(host: Host, image: str, vip: str) -> None:
    """Start keepalived as the pod does."""
    docker(
        *("run", "--detach", f"--name={host.keepalived}", f"--network=container:{host.name}"),
        *("--read-only", "--tmpfs=/run", "--security-opt=no-new-privileges", "--cap-drop=ALL"),
        *(f"--cap-add={name}" for name in ("NET_ADMIN", "NET_RAW", "SETGID")),
        *(f"--volume={host.given}/keepalived:/etc/keepalived:ro",),
        *(f"--volume={host.given}/ca.crt:{CA}:ro", image, vip, "eth0"),
    )


def test_one_of_two_has_the_address(
    pair: tuple[list[Host], str, Sniffer, str], image: str, debian_root_image: str
) -> None:
    """It moves when the API server is not ready, and stays there; nobody else is told."""
    hosts, vip, sniffer, name = pair

    def holders() -> list[str]:
        return [host.name for host in hosts if host.has(vip)]

    def asked() -> str:
        given = f"--volume={hosts[0].given}:/given:ro"
        stranger = ("run", "--rm", f"--network={name}", given, "--entrypoint=python3")
        return docker(*stranger, debian_root_image, "-c", ASK, f"https://{vip}:6443/readyz")

    def tables(host: Host) -> str:
        inside = ("run", "--rm", f"--network=container:{host.name}", "--cap-add=NET_ADMIN")
        return docker(*inside, "--entrypoint=nft", image, "list", "tables")

    wait("nobody has the address", lambda: len(holders()) == 1)
    one, other = sorted(hosts, key=lambda host: not host.has(vip))
    assert asked().strip() == f"host{hosts.index(one) + 1}"

    (one.given / "down").touch()
    wait("it does not leave", lambda: holders() == [other.name])
    assert asked().strip() == f"host{hosts.index(other) + 1}"
    (one.given / "down").unlink()
    time.sleep(6)
    assert holders() == [other.name]

    # One that is killed leaves everything behind; the next takes it away before it is asked to.
    docker("kill", other.keepalived)
    wait("nobody took over", lambda: one.has(vip))
    assert other.has(vip)
    docker("start", other.keepalived)
    wait("it is on both", lambda: holders() == [one.name])

    docker("stop", "--time=20", one.keepalived)
    wait("nobody took over", lambda: holders() == [other.name])
    # Where the address is not, it leads nowhere; one that ends late does not take it from the next.
    assert "metalk8s_vip" in tables(one)
    assert "metalk8s_vip" in tables(other)

    told = {
        (packet.source, packet.destination)
        for packet in sniffer.packets
        if packet.is_vrrp or (packet.is_multicast and packet.source in (one.address, other.address))
    }
    assert told == {(one.address, other.address), (other.address, one.address)}
    for host in hosts:
        argv = ["docker", "logs", host.keepalived]
        said = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert "Entering MASTER STATE" in said.stderr + said.stdout
        assert "s3cret" not in said.stderr + said.stdout
