"""HTTP to registries: kept connections, proxies, certificates, redirects; ADR 9 says why this.

Authorities that are trusted come from the system (``SSL_CERT_FILE`` included) and from
``certs.d/<host[:port]>/*.crt``, as with Docker and Podman. Nothing is sent in the clear but to
hosts that were named for it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildchain.store import proxy
from buildchain.store.retry import TransferError

if TYPE_CHECKING:
    import ssl

TIMEOUT = 30.0  # seconds without a byte
DRIP = 4096  # bytes; less than that in TIMEOUT is as good as nothing
REDIRECTS = 5
REDIRECTING = frozenset({301, 302, 303, 307, 308})
SMALL = 4 << 20  # bytes of an answer that is read into memory, at most
CERTIFICATES = ("/etc/containers/certs.d", "/etc/docker/certs.d", "~/.config/containers/certs.d")
FAREWELL = 1 << 16  # bytes of a redirection's body that are read to keep the connection
PORTS = {"http": 80, "https": 443}
# What may stand in a request line; a Location may hold more.
SAFE = "/%:?#[]@!$&'()*+,;=-._~"
HEADERS = {"User-Agent": "metalk8s-buildchain", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Origin:
    """Who is talked to."""

    scheme: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """``host[:port]`` as in a reference."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"


def split(url: str) -> tuple[Origin, str]:
    """Return who to ask and the request target.

    :raises TransferError: it is not an HTTP address.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError) as error:
        raise TransferError(f"{url} is not an HTTP address", passing=False) from error
    if not parts.hostname:
        raise TransferError(f"{url} names no host", passing=False)
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    return Origin(parts.scheme, parts.hostname, port), urllib.parse.quote(target, safe=SAFE)


class Answer:
    """Status and headers of an answer, and its body as it comes.

    :param length: bytes of the body, ``None`` when the server does not say.
    """

    def __init__(
        self,
        origin: Origin,
        url: str,
        response: http.client.HTTPResponse,
        stream: socket.socket | None = None,
    ) -> None:
        self.origin = origin
        self.url = url
        self.status = response.status
        self.headers = response.headers
        self.length = response.length
        self._response = response
        self._left = response.length
        self._stream = stream if origin.scheme == "http" else None
        self._window = (time.monotonic(), 0)
        self._count = 0

    @property
    def is_bare(self) -> bool:
        """Tell whether what is left comes over the socket as it is, to be taken from there.

        Not before the first read: until then http.client has some of the body in its buffer.
        """
        return self._stream is not None and self._left is not None and self._count > 0

    def splice(self, pipe: int) -> int:
        """Let what has come go into a pipe without a copy, at least a byte; 0 at the end.

        :raises TransferError: the connection broke, is silent or drips.
        """
        assert self._stream is not None
        if not self._left:
            return 0
        with _translated(self.origin):
            count = _splice(self._stream, pipe, self._left)
        self._left -= count
        if count == 0:
            raise TransferError(f"{self.origin.name} closed early", passing=True)
        self._watch(count)
        return count

    def readinto(self, view: memoryview) -> int:
        """Read what has come, at least a byte; 0 at the end.

        :raises TransferError: the connection broke, is silent or drips.
        """
        if self._left == 0:
            return 0
        with _translated(self.origin):
            if self._left is None:
                piece = self._response.read1(len(view))
                count = len(piece)
                view[:count] = piece
            else:
                # One receive, straight into our buffer. http.client itself offers only to wait
                # until the buffer is full, which a server that drips could draw out for ever.
                count = self._response.fp.readinto1(view[: self._left])
                self._left -= count
                if count == 0:
                    raise TransferError(f"{self.origin.name} closed early", passing=True)
        self._watch(count)
        return count

    def _watch(self, count: int) -> None:
        self._count += count
        now = time.monotonic()
        since, before = self._window
        if now - since > TIMEOUT:
            if self._count - before < DRIP and self._left != 0:
                raise TransferError(f"{self.origin.name} sends too slowly", passing=True)
            self._window = (now, self._count)

    def read(self, limit: int = SMALL) -> bytes:
        """Return the body.

        :raises TransferError: it has more than ``limit`` bytes, or it broke off.
        """
        found = bytearray()
        buffer = memoryview(bytearray(1 << 16))
        while count := self.readinto(buffer):
            found += buffer[:count]
            if len(found) > limit:
                raise TransferError(f"{self.url} is larger than {limit} bytes", passing=False)
        return bytes(found)

    def finish(self) -> bool:
        """End reading; tell whether the connection can carry another request."""
        whole = self._left == 0 or self._response.isclosed()
        self._response.close()
        return whole and not self._response.will_close


class Transport:
    """Connections that are kept and shared by threads.

    :param plain_http: hosts (``host[:port]``) that may be talked to without TLS.
    :param environ: where proxies are looked up.
    :param certificates: folders of authorities by host.
    """

    def __init__(
        self,
        *,
        plain_http: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        certificates: Iterable[str | Path] = CERTIFICATES,
    ) -> None:
        self._plain = frozenset(split(f"http://{name}")[0].name for name in plain_http)
        self._environ = dict(environ or {})
        self._certificates = [Path(folder).expanduser() for folder in certificates]
        self._idle: dict[Origin, list[http.client.HTTPConnection]] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._guard = threading.Lock()

    def close(self) -> None:
        """End the connections that wait for another request."""
        with self._guard:
            for connections in self._idle.values():
                for connection in connections:
                    connection.close()
            self._idle.clear()

    @contextlib.contextmanager
    def open(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Iterator[Answer]:
        """Make a request and provide the answer, redirects followed; any status is an answer.

        A login goes to the host it is for and to no other that this one points at.

        :raises TransferError: there is none, or it may not be asked for (plain HTTP).
        """
        sent = {**HEADERS, **(headers or {})}
        for _ in range(REDIRECTS + 1):
            origin, target = split(url)
            self._check_plain(origin)
            connection, stream, response = self._exchange(origin, method, target, sent, body)
            answer = Answer(origin, url, response, stream)
            whole = False
            try:
                location = answer.headers.get("Location")
                if answer.status not in REDIRECTING or not location:
                    yield answer
                    whole = answer.finish()
                    return
                if answer.length is not None and answer.length <= FAREWELL:
                    answer.read()
                whole = answer.finish()
            finally:
                response.close()
                self._put_back(origin, connection, stays=whole)
            url = urllib.parse.urljoin(url, location)
            if split(url)[0] != origin:
                sent.pop("Authorization", None)
                if body is not None:
                    # What is sent in a body is a login, too.
                    raise TransferError(
                        f"{origin.name} redirects a request with a login to another host",
                        passing=False,
                    )
        raise TransferError(f"{url}: more than {REDIRECTS} redirections", passing=False)

    def _check_plain(self, origin: Origin) -> None:
        if origin.scheme == "http" and origin.name not in self._plain:
            raise TransferError(
                f"plain HTTP to {origin.name} is not allowed; PLAIN_HTTP_REGISTRIES names the "
                "hosts it is allowed to",
                passing=False,
            )

    def _exchange(
        self, origin: Origin, method: str, target: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[http.client.HTTPConnection, socket.socket | None, http.client.HTTPResponse]:
        """Send a request; on a kept connection that the server has ended, on a new one."""
        with self._guard:
            kept = self._idle.get(origin, [])
            connection = kept.pop() if kept else None
        if connection is not None:
            try:
                return connection, *self._send(origin, connection, method, target, headers, body)
            except (OSError, http.client.HTTPException):
                connection.close()
        with _translated(origin):
            connection = self._connect(origin)
            try:
                return connection, *self._send(origin, connection, method, target, headers, body)
            except BaseException:
                connection.close()
                raise

    def _send(
        self, origin: Origin, connection: http.client.HTTPConnection, method: str, target: str,
        headers: dict[str, str], body: bytes | None,
    ) -> tuple[socket.socket | None, http.client.HTTPResponse]:  # fmt: skip
        through = proxy.choose(self._environ, origin.scheme, origin.host, origin.port)
        if through is not None and origin.scheme == "http":
            headers = {**headers, **through.headers}
            target = f"http://{origin.name}{target}"
        connection.request(method, target, body, headers)
        # http.client lets go of it when the server announces that it will close.
        stream: socket.socket | None = connection.sock
        return stream, connection.getresponse()

    def _connect(self, origin: Origin) -> http.client.HTTPConnection:
        through = proxy.choose(self._environ, origin.scheme, origin.host, origin.port)
        host, port = (through.host, through.port) if through else (origin.host, origin.port)
        if origin.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        secure = http.client.HTTPSConnection(
            host, port, timeout=TIMEOUT, context=self._context(origin.name)
        )
        if through is not None:
            secure.set_tunnel(origin.host, origin.port, dict(through.headers))
        return secure

    def _context(self, name: str) -> ssl.SSLContext:
        """Return who is trusted to vouch for a host."""
        import ssl

        with self._guard:
            if name not in self._contexts:
                context = ssl.create_default_context()
                for folder in self._certificates:
                    for file in sorted((folder / name).glob("*.crt")):
                        context.load_verify_locations(file)
                self._contexts[name] = context
            return self._contexts[name]

    def _put_back(
        self, origin: Origin, connection: http.client.HTTPConnection, *, stays: bool
    ) -> None:
        if not stays:
            connection.close()
            return
        with self._guard:
            self._idle.setdefault(origin, []).append(connection)


def _splice(stream: socket.socket, pipe: int, most: int) -> int:
    """Wait for bytes as long as the socket's timeout says, and move at most so many.

    :raises TimeoutError: none came.
    """
    patience = stream.gettimeout()
    while True:
        try:
            return os.splice(stream.fileno(), pipe, most)
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(stream, select.POLLIN)
            if not waiting.poll(None if patience is None else patience * 1000):
                raise TimeoutError from None


@contextlib.contextmanager
def _translated(origin: Origin) -> Iterator[None]:
    """Turn what sockets and http.client raise into sentences."""
    try:
        yield
    except TimeoutError as error:
        raise TransferError(
            f"{origin.name} was silent for {TIMEOUT:.0f} seconds", passing=True, crowded=True
        ) from error
    except socket.gaierror as error:
        passing = error.errno == socket.EAI_AGAIN
        raise TransferError(f"{origin.host}: {error.strerror}", passing=passing) from error
    except OSError as error:
        raise _socket_error(origin, error) from error
    except http.client.HTTPException as error:
        what = type(error).__name__
        raise TransferError(f"{origin.name} gave a broken answer ({what})", passing=True) from error


def _socket_error(origin: Origin, error: OSError) -> TransferError:
    # Not by class: that would bring in ssl, which plain HTTP does not need.
    if type(error).__name__ == "SSLCertVerificationError":
        return TransferError(
            f"the certificate of {origin.name} is not trusted ({error}); put its authority into "
            f"{CERTIFICATES[0]}/{origin.name}/ca.crt or SSL_CERT_FILE",
            passing=False,
        )
    refused = isinstance(error, ConnectionRefusedError)
    reason = error.strerror or str(error) or type(error).__name__
    return TransferError(f"{origin.name}: {reason}", passing=True, crowded=refused)
