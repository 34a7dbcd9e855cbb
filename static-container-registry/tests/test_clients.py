"""Clients that others wrote pull every image by tag and by digest, over plain HTTP and over TLS.

skopeo, podman, containerd's ctr, docker, oras (its Python client). Each works in folders and under
names of its own; what is compared is the digest it says it has, and of oras, the bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from static_container_registry import Options, read_tree, render
from static_container_registry.server import running
from tests.client import free_port
from tests.conftest import require
from tests.fixture_tree import Item, items, multiple, standard

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Served:
    """A registry that listens twice, and the authority of its certificate."""

    plain: str
    secure: str
    certificates: Path  # has ca.crt
    items: tuple[Item, ...]

    def address(self, scheme: str) -> str:
        return self.plain if scheme == "http" else self.secure


def run(*argv: object, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def served(nginx: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    scratch = tmp_path_factory.mktemp("clients")
    root = standard(scratch / "images")
    multiple(root / "org" / "multi" / "1.0")
    repositories = read_tree(root)
    certificates = _certificates(scratch / "tls")
    plain, secure = free_port(), free_port()
    tls = (
        f"listen 127.0.0.1:{secure} ssl; ssl_certificate {certificates}/server.crt; "
        f"ssl_certificate_key {certificates}/server.pem;"
    )
    text = render(repositories, Options(str(root), "demo-1.0"))
    found = tuple(item for item in items(root, repositories) if not item.tag.endswith(".sbom"))
    with running(f"{tls}\n{text}", plain, nginx):
        yield Served(f"127.0.0.1:{plain}", f"127.0.0.1:{secure}", certificates, found)


def _certificates(folder: Path) -> Path:
    openssl = require("openssl")
    folder.mkdir()
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run(openssl, *new, "-subj", "/CN=tests", "-keyout", folder / "ca.pem",
        "-out", folder / "ca.crt")  # fmt: skip
    run(openssl, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=registry",
        "-keyout", folder / "server.pem", "-out", folder / "server.csr")  # fmt: skip
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    run(openssl, "x509", "-req", "-in", folder / "server.csr", "-CA", folder / "ca.crt",
        "-CAkey", folder / "ca.pem", "-CAcreateserial", "-days", "2",
        "-extfile", folder / "san", "-out", folder / "server.crt")  # fmt: skip
    # What clients are handed has nothing but the authority: the rest would be theirs to present.
    only = folder / "client"
    only.mkdir()
    (only / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
    return folder


MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)

Pull = Callable[[str, str], list[str]]  # scheme, reference; digests of what is there now


@pytest.fixture
def pull(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Iterator[Pull]:
    """Return what pulls with the client of the test's parameter, and tells the digest it has."""
    yield from _CLIENTS[request.param](served, tmp_path)


def _skopeo(served: Served, scratch: Path) -> Iterator[Pull]:
    skopeo = require("skopeo")

    def pull(scheme: str, reference: str) -> list[str]:
        trust = ["--src-tls-verify=false"]
        if scheme == "https":
            trust = [f"--src-cert-dir={served.certificates}/client"]
        target = scratch / f"{scheme}{reference}".replace("/", "_")
        run(skopeo, "--insecure-policy", "copy", "--all", "--preserve-digests", *trust,
            f"docker://{reference}", f"dir:{target}")  # fmt: skip
        return [run(skopeo, "manifest-digest", target / "manifest.json").strip()]

    yield pull


def _podman(served: Served, scratch: Path) -> Iterator[Pull]:
    podman = require("podman")
    policy = scratch / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    runroot = Path("/tmp") / f"scr-{os.getpid()}"  # podman takes 50 characters
    options = ["--storage-driver=vfs", "--root", scratch / "root", "--runroot", runroot,
               "--cgroup-manager=cgroupfs"]  # fmt: skip

    def pull(scheme: str, reference: str) -> list[str]:
        trust = ["--tls-verify=false"]
        if scheme == "https":
            trust = [f"--cert-dir={served.certificates}/client"]
        run(podman, *options, "pull", "-q", "--signature-policy", policy, *trust, reference)
        return _digests(run(podman, *options, "image", "inspect", reference))

    try:
        yield pull
    finally:
        shutil.rmtree(runroot, ignore_errors=True)


def _ctr(served: Served, scratch: Path) -> Iterator[Pull]:
    ctr, containerd = require("ctr"), require("containerd")
    # The path of a socket has at most 107 bytes.
    address = Path("/tmp") / f"scr-{os.getpid()}.sock"
    configuration = scratch / "config.toml"
    configuration.write_text(
        f'version = 2\nroot = "{scratch}/root"\nstate = "{scratch}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f'[grpc]\naddress = "{address}"\n[ttrpc]\naddress = "{address}.ttrpc"\n'
    )
    # Without being told it would speak plain HTTP to loopback.
    hosts = scratch / "hosts"
    (hosts / served.secure).mkdir(parents=True)
    (hosts / served.secure / "hosts.toml").write_text(
        f'[host."https://{served.secure}"]\nca = "{served.certificates}/ca.crt"\n'
    )
    with (scratch / "log").open("wb") as log:
        daemon = subprocess.Popen([containerd, "-c", configuration], stdout=log, stderr=log)

    def pull(scheme: str, reference: str) -> list[str]:
        trust = ["--plain-http"]
        if scheme == "https":
            trust = [f"--hosts-dir={hosts}"]
        run(ctr, "-a", address, "images", "pull", "--snapshotter=native", *trust, reference)
        rows = [line.split() for line in run(ctr, "-a", address, "images", "ls").splitlines()]
        return [row[2] for row in rows if row[0] == reference]

    try:
        for _ in range(200):
            if address.exists():
                break
            assert daemon.poll() is None, (scratch / "log").read_text()
            time.sleep(0.05)
        yield pull
    finally:
        daemon.terminate()
        daemon.wait(20)
        for path in (address, Path(f"{address}.ttrpc")):
            path.unlink(missing_ok=True)


def _docker(served: Served, scratch: Path) -> Iterator[Pull]:
    """Docker trusts loopback without a certificate: over TLS, too, unverified."""
    docker = require("docker")
    pulled: set[str] = set()

    def pull(scheme: str, reference: str) -> list[str]:
        assert reference.startswith(served.address(scheme))
        run(docker, "pull", "--quiet", reference, DOCKER_CONFIG=str(scratch))
        told = run(docker, "image", "inspect", reference)
        pulled.add(json.loads(told)[0]["Id"])
        return _digests(told)

    try:
        yield pull
    finally:
        if pulled:
            run(docker, "image", "rm", "--force", *pulled)


def _oras(served: Served, scratch: Path) -> Iterator[Pull]:
    client = pytest.importorskip("oras.client")

    def pull(scheme: str, reference: str) -> list[str]:
        # Over HTTPS it knows the authority of the tests, and no other.
        registry = client.OrasClient(
            hostname=served.address(scheme),
            insecure=scheme == "http",
            tls_verify=f"{served.certificates}/ca.crt",
        )
        place = registry.get_container(reference)
        url = f"{registry.prefix}://{place.manifest_url()}"
        body = registry.do_request(url, headers={"Accept": ", ".join(MANIFESTS)}).content
        manifest = json.loads(body)
        for child in manifest.get("manifests", []):
            pull(scheme, f"{served.address(scheme)}/{place.api_prefix}@{child['digest']}")
        # Its own `pull` unpacks layers: nothing of them would be left to compare.
        config = [manifest["config"]] if "config" in manifest else []
        for blob in config + manifest.get("layers", []):
            file = registry.download_blob(place, blob["digest"], str(scratch / blob["digest"]))
            assert f"sha256:{_sha256(Path(file).read_bytes())}" == blob["digest"]
        return [f"sha256:{_sha256(body)}"]

    yield pull


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digests(inspected: str) -> list[str]:
    return [str(one).rpartition("@")[2] for one in json.loads(inspected)[0]["RepoDigests"]]


_CLIENTS = {"skopeo": _skopeo, "podman": _podman, "ctr": _ctr, "docker": _docker, "oras": _oras}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("pull", list(_CLIENTS), indirect=True)
def test_pull_by_tag_and_by_digest(served: Served, pull: Pull, scheme: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("clients that unpack images need root here")
    for item in served.items:
        digest = f"sha256:{item.hex}"
        for reference in (f":{item.tag}", f"@{digest}"):
            place = f"{served.address(scheme)}/demo-1.0/{item.name}{reference}"
            assert digest in pull(scheme, place)
