"""Places on loopback ports, each of another origin, that remember every word said to them."""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import http.server
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Said:
    """A request: method, path, headers (names in lower case) and body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    @property
    def words(self) -> str:
        """Everything in it, logins decoded."""
        logins = [self.headers.get(f"{kind}authorization", "") for kind in ("", "proxy-")]
        text = [self.path, self.body.decode(), *self.headers.values()]
        for login in logins:
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                text.append(base64.b64decode(login.partition(" ")[2]).decode())
        return " ".join(text)


@dataclass
class Place:
    """One origin.

    :param reply: what it answers.
    """

    name: str
    scheme: str
    address: str = ""
    said: list[Said] = field(default_factory=list)
    reply: Callable[[Said], Reply] = lambda _said: (404, {}, b"")

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}"


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    place: Place

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key.lower(): value for key, value in self.headers.items()}
        said = Said(self.command, self.path, headers, body)
        self.place.said.append(said)
        status, fields, content = self.place.reply(said)
        self.send_response(status)
        for key, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def open_place(name: str, context: ssl.SSLContext | None = None) -> Iterator[Place]:
    """Open a place; with a TLS context it is on ``localhost``."""
    place = Place(name, "https" if context else "http")
    handler = type("Bound", (Handler,), {"place": place})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    host = "localhost" if context else "127.0.0.1"
    place.address = f"{host}:{server.server_address[1]}"
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def forward(said: Said) -> Reply:
    """Answer as a proxy does, which keeps its own login to itself."""
    parts = urllib.parse.urlsplit(said.path)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    own = ("proxy-authorization", "connection", "content-length")
    headers = {key: value for key, value in said.headers.items() if key not in own}
    target = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
    try:
        connection.request(said.method, target, said.body or None, headers)
        answer = connection.getresponse()
        kept = ("Location", "WWW-Authenticate", "Content-Type", "Link")
        fields = {key: answer.headers[key] for key in kept if key in answer.headers}
        return answer.status, fields, answer.read()
    finally:
        connection.close()
