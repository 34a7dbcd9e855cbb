"""A registry on a loopback port that does wrong on demand.

It keeps everything in memory, remembers every request, and asks ``fault`` before each answer what
to do wrong. What it serves otherwise follows the OCI distribution specification, tokens included.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.registries.image_set import digest

FAULTS = ("reset", "truncate", "corrupt", "429", "503", "401", "length-short", "length-long",
          "200-for-206", "redirect", "early-reset", "garbage")  # fmt: skip
BLOB = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})")
MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>[^/]+)")
REFERRERS = re.compile(r"/v2/(?P<name>.+)/referrers/(?P<digest>sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Request:
    """What was asked: method, path with query, headers (names in lower case)."""

    method: str
    path: str
    headers: dict[str, str]
    number: int

    @property
    def is_blob(self) -> bool:
        return BLOB.fullmatch(self.path) is not None


@dataclass
class Faulty:
    """What the registry knows.

    :param fault: what to do wrong with a request, one of :data:`FAULTS`, or empty.
    :param login: ``user:password`` it wants, as Basic or for a token.
    :param scheme: ``""``, ``"basic"`` or ``"bearer"``.
    :param has_api: it knows the referrers API.
    :param elsewhere: where redirections point.
    :param pace: bytes a second of a blob, 0 for no limit.
    :param piece: bytes of a blob that go out at a time.
    """

    address: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    referring: dict[str, list[dict]] = field(default_factory=dict)
    fault: Callable[[Request], str] = lambda _request: ""
    login: str = ""
    scheme: str = ""
    lifetime: int = 300
    has_api: bool = True
    page: int = 100
    elsewhere: str = ""
    pace: float = 0.0
    piece: int = 1 << 16
    retry_after: str = "0"
    requests: list[Request] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    granted: list[dict[str, str]] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, tag: str, document: bytes, blobs: dict[str, bytes]) -> str:
        """Put an image in; return its digest."""
        found = digest(document)
        self.blobs |= blobs
        self.manifests[name, found] = document
        if tag:
            self.manifests[name, tag] = document
        return found

    def count(self, method: str, part: str) -> int:
        """Return how many requests had a method and a part of a path."""
        return sum(r.method == method and part in r.path for r in self.requests)

    @property
    def blob_bytes(self) -> int:
        """Bytes of blobs that went out."""
        return sum(self.sent.values())


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server
    wbufsize = 0

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        if self.server.registry.fault(Request("POST", self.path, {}, -1)) == "redirect":
            self._refused("redirect")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._token(dict(urllib.parse.parse_qsl(body.decode())))

    def _answer(self) -> None:
        registry = self.server.registry
        headers = {key.lower(): value for key, value in self.headers.items()}
        with registry.guard:
            request = Request(self.command, self.path, headers, len(registry.requests))
            registry.requests.append(request)
        if self.path.startswith("/token"):
            query = urllib.parse.urlsplit(self.path).query
            self._token(dict(urllib.parse.parse_qsl(query)))
            return
        fault = registry.fault(request)
        if self._refused(fault) or not self._admitted():
            return
        self._serve(fault)

    # -- what goes wrong before there is content ------------------------------------------------
    def _refused(self, fault: str) -> bool:
        registry = self.server.registry
        if fault == "early-reset":
            self._reset()
        elif fault == "garbage":
            self.wfile.write(b"\x15\x03\x01 what?\r\n\r\n")
            self.close_connection = True
        elif fault in ("429", "503"):
            self._error(int(fault), "TOOMANYREQUESTS", {"Retry-After": registry.retry_after})
        elif fault == "401":
            error = {} if registry.scheme else {"WWW-Authenticate": self._challenge("bearer")}
            self._error(401, "UNAUTHORIZED", error or {"WWW-Authenticate": self._challenge()})
        elif fault == "redirect":
            self._error(307, "", {"Location": f"{registry.elsewhere}{self.path}"})
        elif fault.isdigit():
            self._error(int(fault), "SOMETHING")
        else:
            return False
        return True

    def _challenge(self, scheme: str = "") -> str:
        scheme = scheme or self.server.registry.scheme
        host = self.headers["Host"]
        match = MANIFEST.fullmatch(self.path) or BLOB.fullmatch(self.path)
        scope = f'scope="repository:{match["name"]}:pull"' if match else 'scope=""'
        if scheme == "basic":
            return 'Basic realm="test"'
        return f'Bearer realm="http://{host}/token",service="test",{scope},error="invalid_token"'

    def _admitted(self) -> bool:
        registry = self.server.registry
        if not registry.scheme:
            return True
        import base64

        word, _, value = self.headers.get("Authorization", "").partition(" ")
        if registry.scheme == "basic" and word == "Basic":
            if base64.b64decode(value).decode() == registry.login:
                return True
        elif registry.scheme == "bearer" and word == "Bearer":
            scope = registry.tokens.get(value, "")
            if scope and f"/v2/{scope.split(':')[1]}/" in self.path:
                return True
        self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": self._challenge()})
        return False

    def _token(self, query: dict[str, str]) -> None:
        import base64

        registry = self.server.registry
        word, _, value = self.headers.get("Authorization", "").partition(" ")
        pair = base64.b64decode(value).decode() if word == "Basic" else ""
        if registry.login and pair != registry.login and query.get("refresh_token") != "identity":
            self._error(401, "DENIED")
            return
        with registry.guard:
            token = f"token-{len(registry.tokens)}"
            registry.tokens[token] = query["scope"]
            registry.granted.append(query)
        body = {"token": token, "expires_in": registry.lifetime}
        self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    # -- content --------------------------------------------------------------------------------
    def _serve(self, fault: str) -> None:
        registry = self.server.registry
        if self.path == "/v2/":
            self._send(200, b"{}", {"Docker-Distribution-Api-Version": "registry/2.0"})
        elif match := BLOB.fullmatch(self.path):
            if match["digest"] not in registry.blobs:
                self._error(404, "BLOB_UNKNOWN")
            else:
                self._blob(match["digest"], fault)
        elif match := MANIFEST.fullmatch(self.path):
            content = registry.manifests.get((match["name"], match["reference"]))
            if content is None:
                self._error(404, "MANIFEST_UNKNOWN")
                return
            kind = json.loads(content).get("mediaType", "")
            headers = {"Content-Type": kind, "Docker-Content-Digest": digest(content)}
            self._send(200, content, headers, fault)
        elif (match := REFERRERS.match(self.path)) and registry.has_api:
            self._referrers(match["digest"])
        else:
            self._error(404, "NOT_FOUND")

    def _referrers(self, subject: str) -> None:
        registry = self.server.registry
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        start = int(query.get("from", 0))
        entries = registry.referring.get(subject, [])
        part = entries[start : start + registry.page]
        document = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": part,
        }
        headers = {"Content-Type": document["mediaType"]}
        if start + registry.page < len(entries):
            path = self.path.partition("?")[0]
            path = f"{registry.elsewhere}{path}"
            headers["Link"] = f'<{path}?from={start + registry.page}>; rel="next"'
        self._send(200, json.dumps(document).encode(), headers)

    def _blob(self, name: str, fault: str) -> None:
        content = self.server.registry.blobs[name]
        headers = {"Content-Type": "application/octet-stream"}
        status, start = 200, 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            if fault != "200-for-206":
                status, start = 206, int(match[1])
            if fault == "416" or start >= len(content):
                self._error(416, "RANGE")
                return
        if status == 206:
            first = start + 1 if fault == "other-range" else start
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            start = first
        self._send(status, content[start:], headers, fault, name)

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], fault: str = "", blob: str = ""
    ) -> None:
        length = len(body)
        if fault == "corrupt" and body:
            middle = len(body) // 2
            body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        if fault == "length-long":
            length += 7
        if fault == "length-short":
            length = max(0, length - 7)
            body = body[:length]
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if fault != "no-length":
            self.send_header("Content-Length", str(length))
        else:
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault in ("reset", "truncate", "length-long"):
            self.close_connection = True
            if fault != "length-long":
                body = body[: len(body) // 2]
        self._write(body, blob, drip=fault == "drip")
        if fault == "reset":
            self._reset()

    def _write(self, body: bytes, blob: str, *, drip: bool) -> None:
        registry = self.server.registry
        piece = 1 if drip else registry.piece
        for at in range(0, len(body), piece):
            part = body[at : at + piece]
            self.wfile.write(part)
            if blob:
                with registry.guard:
                    registry.sent[blob] = registry.sent.get(blob, 0) + len(part)
            if drip:
                time.sleep(0.05)
            elif blob and registry.pace:
                time.sleep(len(part) / registry.pace)

    def _error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        errors = {"errors": [{"code": code, "message": "made by the test"}]}
        body = json.dumps(errors).encode() if code else b""
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _reset(self) -> None:
        """Send a TCP reset in place of a goodbye."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    """The listening socket."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, registry: Faulty) -> None:
        self.registry = registry
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_arguments: object) -> None:
        """Clients that go away are what the tests are about."""


@contextlib.contextmanager
def serving(registry: Faulty | None = None) -> Iterator[Faulty]:
    """Provide a registry that listens."""
    registry = registry or Faulty()
    server = Server(registry)
    registry.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
