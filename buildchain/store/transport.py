"""HTTP to registries, by requests: whom we trust, where logins go, how long we wait; ADR 45.

Of requests, adapters are used and no session: sessions know cookies and ``~/.netrc``, and read
the body of a redirection whole. Authorities come from the system (``SSL_CERT_FILE`` included) and
from ``certs.d/<host[:port]>/*.crt``, as with Docker and Podman, not from a Python package.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from buildchain.store.failure import TransferError
from buildchain.store.origin import Origin, joined, origin_of

TIMEOUT = 30.0  # seconds without a byte
DRIP = 4096  # bytes; less than that in TIMEOUT is as good as nothing
REDIRECTS = 5
REDIRECTING = frozenset({301, 302, 303, 307, 308})
SMALL = 4 << 20  # bytes of an answer that is read into memory, at most
PIECE = 1 << 16  # bytes that are hashed and written at a time; TLS brings 16 KiB at a time
FAREWELL = 1 << 16  # bytes of a redirection's body that are read to keep the connection
POOL = 16  # connections to one host that are kept
CERTIFICATES = ("/etc/containers/certs.d", "/etc/docker/certs.d", "~/.config/containers/certs.d")
HEADERS = {"User-Agent": "metalk8s-buildchain", "Accept-Encoding": "identity"}
ERRORS = (OSError, http.client.HTTPException, HTTPError)


class Answer:
    """Status and headers of an answer, and its body as it comes.

    :param length: bytes of the body, ``None`` when the server does not say.
    :param following: where a list goes on, as the server says it, or empty.
    """

    def __init__(self, origin: Origin, url: str, response: requests.Response) -> None:
        self.origin = origin
        self.url = url
        self.status = response.status_code
        self.headers = response.raw.headers
        self.length: int | None = response.raw.length_remaining
        self.following = response.links.get("next", {}).get("url", "")
        self._body = response.raw

    def pieces(self) -> Iterator[bytearray]:
        """Yield what comes, never decompressed; also what came before an error.

        :raises TransferError: the connection broke, is silent or drips.
        """
        since, count, found = time.monotonic(), 0, bytearray()
        try:
            # What is there, not as much as fits: a server that drips would draw that out.
            while piece := self._body.read1(PIECE - len(found), decode_content=False):
                found += piece
                count += len(piece)
                now = time.monotonic()
                if now - since > TIMEOUT:
                    if count < DRIP and self._body.length_remaining != 0:
                        yield found
                        raise TransferError(f"{self.origin.name} sends too slowly", passing=True)
                    since, count = now, 0
                if len(found) == PIECE:
                    yield found
                    found = bytearray()
        except ERRORS as error:
            yield found
            raise _failure(self.origin, error) from error
        yield found

    def read(self, limit: int = SMALL) -> bytes:
        """Return the body.

        :raises TransferError: it has more than ``limit`` bytes, or it broke off.
        """
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if len(found) > limit:
                raise TransferError(f"{self.url} is larger than {limit} bytes", passing=False)
        return bytes(found)


class _Adapter(HTTPAdapter):
    """Connections that are kept and shared by threads; trusts whom we trust."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self._folders = [Path(folder).expanduser() for folder in folders]
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._guard = threading.Lock()
        super().__init__(pool_connections=POOL, pool_maxsize=POOL)

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: Any, cert: Any = None
    ) -> Any:
        """Add who may vouch for this host."""
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        origin = origin_of(str(request.url))
        if origin.scheme == "https":
            return host, {**pool, "ssl_context": self._context(origin.name)}
        return host, pool

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """Add no more authorities: requests would, those of ``certifi``."""

    def _context(self, name: str) -> ssl.SSLContext:
        with self._guard:
            if name not in self._contexts:
                context = ssl.create_default_context()
                for folder in self._folders:
                    for file in sorted((folder / name).glob("*.crt")):
                        context.load_verify_locations(file)
                self._contexts[name] = context
            return self._contexts[name]


class Transport:
    """Requests, redirects followed; shared by threads.

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
        self._plain = frozenset(origin_of(f"http://{name}").name for name in plain_http)
        self._environ = dict(environ or {})
        self._adapter = _Adapter(certificates)

    def close(self) -> None:
        """End the connections that wait for another request."""
        self._adapter.close()

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
        sent = dict(headers or {})
        for _ in range(REDIRECTS + 1):
            origin = origin_of(url)
            with self.ask(method, url, sent, body) as answer:
                location = answer.headers.get("Location")
                if answer.status not in REDIRECTING or not location:
                    if method == "HEAD":
                        answer.read()  # nothing, which sets the connection free
                    yield answer
                    return
                with contextlib.suppress(TransferError):
                    answer.read(FAREWELL)
            url, stays = joined(url, location)
            if not stays:
                sent.pop("Authorization", None)
                if body is not None:
                    # What is sent in a body is a login, too.
                    raise TransferError(
                        f"{origin.name} redirects a request with a login to another host",
                        passing=False,
                    )
        raise TransferError(f"{url}: more than {REDIRECTS} redirections", passing=False)

    @contextlib.contextmanager
    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Iterator[Answer]:
        """Make one request and provide its answer; redirects are not followed.

        :raises TransferError: there is none, or it may not be asked for (plain HTTP).
        """
        origin, sent = origin_of(url), {**HEADERS, **(headers or {})}
        with self._send(origin, method, url, sent, body) as response:
            yield Answer(origin, url, response)

    def _send(
        self, origin: Origin, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> requests.Response:
        if origin.scheme == "http" and origin.name not in self._plain:
            raise TransferError(
                f"plain HTTP to {origin.name} is not allowed; PLAIN_HTTP_REGISTRIES names the "
                "hosts it is allowed to",
                passing=False,
            )
        proxy = origin.proxy(self._environ)
        proxies = {origin.scheme: proxy} if proxy else None
        try:
            request = requests.Request(method, url, headers, data=body).prepare()
            return self._adapter.send(request, stream=True, timeout=TIMEOUT, proxies=proxies)
        except ERRORS as error:
            raise _failure(origin, error) from error


def _failure(origin: Origin, error: BaseException) -> TransferError:
    """Say what happened in a sentence; requests and urllib3 wrap that several times."""
    while isinstance(inner := error.__context__, ERRORS):
        error = inner
    name = origin.name
    match error:
        case TimeoutError():
            reason = f"{name} was silent for {TIMEOUT:.0f} seconds"
            return TransferError(reason, passing=True, crowded=True)
        case socket.gaierror():
            passing = error.errno == socket.EAI_AGAIN
            return TransferError(f"{origin.host}: {error.strerror}", passing=passing)
        case ssl.SSLCertVerificationError():
            return TransferError(
                f"the certificate of {name} is not trusted ({error}); put its authority into "
                f"{CERTIFICATES[0]}/{name}/ca.crt or SSL_CERT_FILE",
                passing=False,
            )
        case http.client.IncompleteRead():
            return TransferError(f"{name} closed early", passing=True)
        case http.client.HTTPException() if not isinstance(error, OSError):
            what = type(error).__name__
            return TransferError(f"{name} gave a broken answer ({what})", passing=True)
        case _:
            told = getattr(error, "strerror", None) or str(error) or type(error).__name__
            refused = isinstance(error, ConnectionRefusedError)
            # What requests itself refuses to send, it refuses again.
            passing = not isinstance(error, requests.RequestException)
            return TransferError(f"{name}: {told}", passing=passing, crowded=refused)
