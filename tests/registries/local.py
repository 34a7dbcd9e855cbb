"""Debian's docker-registry on a loopback port, and how to fill it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {root}, maxthreads: 100}}
  delete: {{enabled: true}}
http: {{addr: "{address}"{tls}}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def serving(
    folder: Path, *, more: str = "", port: int = 0, tls: tuple[Path, Path] | None = None
) -> Iterator[str]:
    """Run a registry over ``folder`` and give its address.

    :param more: lines added to its configuration.
    :param tls: certificate and key, for TLS only.
    """
    address = f"127.0.0.1:{port or free_port()}"
    folder.mkdir(parents=True, exist_ok=True)
    kind = "tls" if tls else "plain"
    config = folder / f"{kind}.yml"
    keys = f', tls: {{certificate: "{tls[0]}", key: "{tls[1]}"}}' if tls else ""
    config.write_text(CONFIG.format(root=folder / "data", address=address, tls=keys) + more)
    log = folder / f"{kind}.log"
    with log.open("wb") as stream:
        child = subprocess.Popen(["docker-registry", "serve", config], stdout=stream, stderr=stream)
    try:
        _wait(address, child, log)
        yield address
    finally:
        child.terminate()
        child.wait()


def _wait(address: str, child: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    for _ in range(200):
        assert child.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"docker-registry does not answer: {log.read_text()}")


class Pusher:
    """Puts blobs and manifests into a registry over one connection."""

    def __init__(self, address: str) -> None:
        self.connection = http.client.HTTPConnection(address)

    def close(self) -> None:
        self.connection.close()

    def blob(self, repository: str, digest: str, content: bytes) -> None:
        status, headers = self._ask("HEAD", f"/v2/{repository}/blobs/{digest}")
        if status == 200:
            return
        status, headers = self._ask("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, status
        place = urllib.parse.urlsplit(headers["Location"])
        query = urllib.parse.urlencode({"digest": digest})
        status, _ = self._ask("PUT", f"{place.path}?{place.query}&{query}", content)
        assert status == 201, status

    def mount(self, repository: str, digest: str, source: str) -> None:
        """Make a blob of another repository known in this one."""
        query = urllib.parse.urlencode({"mount": digest, "from": source})
        status, _ = self._ask("POST", f"/v2/{repository}/blobs/uploads/?{query}")
        assert status == 201, status

    def manifest(self, repository: str, name: str, content: bytes) -> None:
        kind = json.loads(content)["mediaType"]
        status, _ = self._ask(
            "PUT", f"/v2/{repository}/manifests/{name}", content, {"Content-Type": kind}
        )
        assert status == 201, status

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str]]:
        self.connection.request(method, path, body or None, dict(headers or {}))
        answer = self.connection.getresponse()
        answer.read()
        return answer.status, answer.headers


def fill(address: str, scale: float = 1.0) -> dict[str, str]:
    """Push the made-up set; return ``name:tag`` to digest."""
    from tests.registries import image_set

    home: dict[str, str] = {}
    found = {}
    with contextlib.closing(Pusher(address)) as pusher:
        for image, document, blobs in image_set.content(scale):
            for name, data in blobs.items():
                pusher.blob(image.name, name, data)
                home[name] = image.name
            for part in json.loads(document)["layers"]:
                if home[part["digest"]] != image.name:
                    pusher.mount(image.name, part["digest"], home[part["digest"]])
            pusher.manifest(image.name, image.tag, document)
            found[f"{image.name}:{image.tag}"] = image_set.digest(document)
    return found
