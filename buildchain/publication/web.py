"""A web server as a place, to fetch from: https, or http, which the signatures make up for.

By the client that registries are talked to with (ADR 45): it knows no ``~/.netrc`` and no cookies.
Authorities that are trusted are the system's (``SSL_CERT_FILE`` included). Redirections are not
followed: an index of one place with files of another would be nobody's promise.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from buildchain.core.errors import ConfigError, PlaceError
from buildchain.publication.place import Absent, Place
from buildchain.store.failure import TransferError
from buildchain.store.origin import origin_of

if TYPE_CHECKING:
    from buildchain.store.transport import Answer, Transport

GONE = frozenset({404, 410})
NO_LOGIN = frozenset({401, 403, 407})


class Web(Place):
    """A folder of a web server.

    :param url: ``http[s]://[user:password@]host[:port]/path``.
    :raises ConfigError: it is none.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
            host = parts.hostname or ""
            self.host = f"[{host}]{port}" if ":" in host else f"{host}{port}"
            origin_of(f"{parts.scheme}://{self.host}")
        except (ValueError, TransferError) as error:
            raise ConfigError(
                "the address of the web server is none", solution="Name http[s]://host[:port]/path."
            ) from error
        if parts.query or parts.fragment:
            raise ConfigError(
                "the address of the web server has more than a path",
                solution="Name http[s]://host[:port]/path.",
            )
        self.name = f"{parts.scheme}://{self.host}{parts.path.rstrip('/')}"
        login = ":".join(urllib.parse.unquote(w or "") for w in (parts.username, parts.password))
        encoded = base64.b64encode(login.encode()).decode()
        self._login = {} if login == ":" else {"Authorization": f"Basic {encoded}"}
        self._client: Transport | None = None

    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on; a server that knows no ranges sends all of it."""
        url = f"{self.name}/{urllib.parse.quote(name)}"
        wanted = {"Range": f"bytes={start}-"} if start else {}
        with (
            self._translated(name),
            self._transport().ask("GET", url, {**self._login, **wanted}) as answer,
        ):
            skip = self._skip(name, answer, start)
            for piece in answer.pieces():
                kept = bytes(piece[skip:])
                skip -= len(piece) - len(kept)
                if kept:
                    yield kept

    def _transport(self) -> Transport:
        # Imported late: only those who fetch from a web server need it.
        from buildchain.store.transport import Transport

        if self._client is None:
            self._client = Transport(plain_http=[self.host], environ=os.environ, certificates=())
        return self._client

    def _skip(self, name: str, answer: Answer, start: int) -> int:
        """Return how many bytes of an answer are not wanted; anything but the file is an error."""
        status = answer.status
        if status in GONE:
            raise Absent(name)
        if status == 206 and start:
            given = answer.headers.get("Content-Range", "")
            if not given.startswith(f"bytes {start}-"):
                raise self._refusal(f"{name}: answered with another range ({given[:80]!r})")
            return 0
        if status == 200:
            return start
        if 300 <= status < 400:
            there = urllib.parse.urlsplit(answer.headers.get("Location", ""))
            raise PlaceError(
                f"{self.name} sends on to {there.scheme}://{there.hostname} for {name}",
                solution="Redirections are not followed: name the other address, if you believe "
                "that it is the right one.",
            )
        if status in NO_LOGIN:
            raise self._refusal(f"{name}: the login is missing or wrong (status {status})")
        raise self._refusal(f"{name}: status {status}")

    def _refusal(self, what: str) -> PlaceError:
        return PlaceError(f"{self.name}: {what}")

    @contextlib.contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        """Name the file and the place of what did not arrive."""
        try:
            yield
        except TransferError as error:
            reason = _innermost(error)
            if isinstance(reason, ssl.SSLError):
                said = getattr(reason, "verify_message", None) or reason
                raise PlaceError(
                    f"{self.host} cannot be believed to be who it says: {said}",
                    solution="If its authority is one of yours, put its certificate into a file "
                    "and name that in SSL_CERT_FILE.",
                ) from None
            raise self._refusal(f"{name}: {error.reason}") from None


def _innermost(error: BaseException) -> BaseException:
    """Return what others were raised for."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
