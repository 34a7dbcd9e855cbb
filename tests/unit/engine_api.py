"""A Docker engine of a dozen calls on a loopback port, for tests that need one.

It keeps images and containers in dictionaries and runs nothing: what a container does is a
function of the test. Any other call is answered with an error and remembered in ``unknown``.
"""

from __future__ import annotations

import base64
import http.server
import io
import json
import re
import struct
import tarfile
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, object]


@dataclass
class Engine:
    """What the fake knows.

    :param images: reference to what ``inspect`` says of it.
    :param on_run: what a container does: its configuration to exit status and output.
    :param on_build: what a build does: reference, context (name to bytes) and arguments to the
        messages of its stream; a message with ``error`` is a failure.
    :param refuse: pattern of a call to another answer, or to a function that gives it.
    """

    url: str = ""
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    registry: set[str] = field(default_factory=set)
    refuse: dict[str, Answer | Callable[[re.Match[str]], Answer]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    builds: list[tuple[str, dict[str, bytes], dict[str, str]]] = field(default_factory=list)
    imported: dict[str, bytes] = field(default_factory=dict)
    on_run: Callable[[dict[str, Any]], tuple[int, bytes]] = lambda _container: (0, b"")
    on_build: Callable[[str, dict[str, bytes], dict[str, str]], list[dict[str, str]]] = (
        lambda _reference, _context, _arguments: [{"stream": "Successfully built\n"}]
    )

    def add_image(self, reference: str, layers: tuple[str, ...] = ()) -> None:
        """Make the engine have an image."""
        self.images[reference] = {
            "Id": f"sha256:{reference}",
            "RepoTags": [reference],
            "RootFS": {"Type": "layers", "Layers": list(layers)},
        }

    # -- calls: (engine, match of the path, query, body) -> status, answer -------------------------
    def version(self, _match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        return 200, {"ApiVersion": "1.43", "Version": "24.0.5"}

    def ping(self, _match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        return 200, b"OK"

    def inspect_image(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        name = self._image(match["name"])
        if name not in self.images:
            return 404, {"message": f"No such image: {name}"}
        return 200, self.images[name]

    def _image(self, name: str) -> str:
        """Return the reference of an image that may be named by its id."""
        return next((r for r, image in self.images.items() if image["Id"] == name), name)

    def commit(self, _match: re.Match[str], query: dict[str, str], _body: bytes) -> Answer:
        if query["container"] not in self.containers:
            return 404, {"message": f"No such container: {query['container']}"}
        reference = f"{query['repo']}:{query['tag']}"
        if reference in self.images:
            self.images["<none>:<none>"] = self.images[reference]
        self.add_image(reference)
        self.images[reference]["Id"] = f"sha256:commit-{len(self.calls)}"
        return 201, {"Id": self.images[reference]["Id"]}

    def create_image(self, _match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        if query.get("fromSrc") == "-":
            reference = f"{query['repo']}:{query['tag']}"
            self.imported[reference] = body
            self.add_image(reference)
            return 200, {"status": f"sha256:{reference}"}
        separator = "@" if query["tag"].startswith("sha256:") else ":"
        reference = f"{query['fromImage']}{separator}{query['tag']}"
        if reference not in self.registry:
            return 404, {"message": f"manifest for {reference} not found"}
        self.add_image(reference, ("sha256:" + "d" * 64,))
        return 200, [{"status": "Pull complete"}]

    def remove_image(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        if self.images.pop(self._image(match["name"]), None) is None:
            return 404, {"message": f"No such image: {match['name']}"}
        return 200, [{"Deleted": match["name"]}]

    def build(self, _match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            context = {
                member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
                for member in archive
            }
        arguments = json.loads(query.get("buildargs", "{}"))
        if query.get("networkmode") != "none":
            return 400, {"message": "a build must have no network"}
        self.builds.append((query["t"], context, arguments))
        steps = self.on_build(query["t"], context, arguments)
        if not any("error" in step for step in steps) and query["t"] not in self.images:
            self.add_image(query["t"])
        return 200, steps

    def create(self, _match: re.Match[str], query: dict[str, str], body: bytes) -> Answer:
        settings = json.loads(body)
        name = query.get("name", f"unnamed-{len(self.created)}")
        if settings["Image"] not in self.images:
            return 404, {"message": f"No such image: {settings['Image']}"}
        if name in self.containers:
            return 409, {"message": f"Conflict. The container name {name} is already in use"}
        self.containers[name] = settings
        self.created.append({"name": name, **settings})
        return 201, {"Id": name, "Warnings": []}

    def inspect(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        name = match["name"]
        if name not in self.containers:
            return 404, {"message": f"No such container: {name}"}
        settings = self.containers[name]
        return 200, {"Id": name, "Name": f"/{name}", "Image": settings["Image"],
                     "Config": {"Tty": False}, "State": {"Status": "created"}}  # fmt: skip

    def start(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        settings = self.containers[match["name"]]
        settings["result"] = self.on_run(settings)
        return 204, b""

    def logs(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        text = self.containers[match["name"]]["result"][1]
        # Cut in the middle of lines, as real streams are.
        pieces = [text[i : i + 7] for i in range(0, len(text), 7)]
        return 200, b"".join(struct.pack(">BxxxL", 1, len(piece)) + piece for piece in pieces)

    def wait(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        return 200, {"StatusCode": self.containers[match["name"]]["result"][0]}

    def remove(self, match: re.Match[str], _query: dict[str, str], _body: bytes) -> Answer:
        if self.containers.pop(match["name"], None) is None:
            return 404, {"message": f"No such container: {match['name']}"}
        self.removed.append(match["name"])
        return 204, b""

    def archive(self, _match: re.Match[str], query: dict[str, str], _body: bytes) -> Answer:
        content = self.files.get(query["path"])
        if content is None:
            return 404, {"message": f"Could not find the file {query['path']}"}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo(query["path"].rsplit("/", 1)[1])
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return 200, buffer.getvalue()


ROUTES = [
    (re.compile(pattern), call)
    for pattern, call in {
        r"GET /version": Engine.version,
        r"GET /_ping": Engine.ping,
        r"GET /images/(?P<name>.+)/json": Engine.inspect_image,
        r"POST /images/create": Engine.create_image,
        r"DELETE /images/(?P<name>.+)": Engine.remove_image,
        r"POST /build": Engine.build,
        r"POST /commit": Engine.commit,
        r"POST /containers/create": Engine.create,
        r"GET /containers/(?P<name>[^/]+)/json": Engine.inspect,
        r"POST /containers/(?P<name>[^/]+)/start": Engine.start,
        r"GET /containers/(?P<name>[^/]+)/logs": Engine.logs,
        r"POST /containers/(?P<name>[^/]+)/wait": Engine.wait,
        r"DELETE /containers/(?P<name>[^/]+)": Engine.remove,
        r"GET /containers/(?P<name>[^/]+)/archive": Engine.archive,
    }.items()
]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece at once; otherwise each one waits 40 ms for an acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(re.sub(r"^/v[0-9.]+/", "/", parts.path))
        query = {k: v[0] for k, v in urllib.parse.parse_qs(parts.query).items()}
        call = f"{self.command} {path}"
        self.server.engine.calls.append(call)
        self._send(*self._dispatch(call, query, body))

    do_GET = do_POST = do_DELETE = do_PUT = do_HEAD = _answer  # noqa: N815

    def _dispatch(self, call: str, query: dict[str, str], body: bytes) -> Answer:
        engine = self.server.engine
        for pattern, answer in engine.refuse.items():
            match = re.fullmatch(pattern, call)
            if match:
                return answer(match) if callable(answer) else answer
        for route, method in ROUTES:
            match = route.fullmatch(call)
            if match:
                return method(engine, match, query, body)
        engine.unknown.append(call)
        return 501, {"message": f"the fake engine has no {call}"}

    def _send(self, status: int, answer: object) -> None:
        chunks: list[bytes] | None = None
        kind = "application/json"
        if isinstance(answer, bytes):
            payload, kind = answer, "application/octet-stream"
        else:
            payload = json.dumps(answer).encode()
            if isinstance(answer, list):
                chunks = [json.dumps(step).encode() + b"\r\n" for step in answer]
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if "/archive" in self.path:
            stat = base64.b64encode(json.dumps({"name": "file"}).encode()).decode()
            self.send_header("X-Docker-Container-Path-Stat", stat)
        if chunks is None:
            if status != 204:
                self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in [*chunks, b""]:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")

    def log_message(self, *_args: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.engine = engine


class serving:  # noqa: N801
    """Serve an engine for the length of a ``with``; ``url`` is what DOCKER_HOST wants."""

    def __init__(self) -> None:
        self.engine = Engine()
        self._server = _Server(self.engine)
        self.engine.url = f"tcp://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Engine:
        self._thread.start()
        return self.engine

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
