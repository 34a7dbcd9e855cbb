"""A web server as a place, to fetch from: https, or http, which the signatures make up for.

Authorities that are trusted are the system's (``SSL_CERT_FILE`` included). Redirections are not
followed: an index of one place with files of another would be nobody's promise.
"""

from __future__ import annotations

import contextlib
import ssl
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from buildchain.core.errors import ConfigError, PlaceError
from buildchain.publication.place import Absent, Place

if TYPE_CHECKING:
    import requests

PIECE = 1 << 16  # bytes; less than that is lost when a connection breaks
TIMEOUT = 60.0  # seconds without a byte
GONE = frozenset({404, 410})
NO_LOGIN = frozenset({401, 403, 407})
HEADERS = {"User-Agent": "metalk8s-buildchain", "Accept-Encoding": "identity"}


class Web(Place):
    """A folder of a web server.

    :param url: ``http[s]://[user:password@]host[:port]/path``.
    :raises ConfigError: it is none.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError as error:
            raise ConfigError(
                "the address of the web server is none", solution="Name http[s]://host[:port]/path."
            ) from error
        if not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(
                "the address of the web server has no host, or more than a path",
                solution="Name http[s]://host[:port]/path.",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.host = f"{host}{port}"
        self.name = f"{parts.scheme}://{self.host}{parts.path.rstrip('/')}"
        login = [urllib.parse.unquote(word or "") for word in (parts.username, parts.password)]
        self._login = (login[0], login[1]) if any(login) else None
        self._session: requests.Session | None = None

    def pieces(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on; a server that knows no ranges sends all of it."""
        url = f"{self.name}/{urllib.parse.quote(name)}"
        headers = {**HEADERS, **({"Range": f"bytes={start}-"} if start else {})}
        with (
            self._translated(name),
            self._sessions().get(
                url, headers=headers, stream=True, timeout=TIMEOUT, allow_redirects=False
            ) as answer,
        ):
            skip = self._skip(name, answer, start)
            for piece in answer.iter_content(PIECE):
                kept = piece[skip:]
                skip -= len(piece) - len(kept)
                if kept:
                    yield kept

    def _sessions(self) -> requests.Session:
        # Imported late: only those who fetch from a web server need it.
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.auth = self._login
            paths = ssl.get_default_verify_paths()
            self._session.verify = paths.cafile or paths.capath or True
        return self._session

    def _skip(self, name: str, answer: requests.Response, start: int) -> int:
        """Return how many bytes of an answer are not wanted; anything but the file is an error."""
        status = answer.status_code
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
        """Turn what requests raises into sentences, without what may be secret."""
        import requests

        try:
            yield
        except requests.exceptions.SSLError as error:
            raise PlaceError(
                f"{self.host} cannot be believed to be who it says: {_reason(error)}",
                solution="If its authority is one of yours, put its certificate into a file and "
                "name that in SSL_CERT_FILE.",
            ) from None
        except requests.exceptions.ConnectTimeout:
            raise self._refusal(f"{self.host} cannot be reached") from None
        except requests.exceptions.Timeout:
            raise self._refusal(f"{name}: silent for {TIMEOUT:.0f} seconds") from None
        except requests.exceptions.RequestException as error:
            raise self._refusal(f"{name}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """Return the innermost reason: those around it repeat the address, login and all."""
    seen: list[BaseException] = []
    inner: object = error
    while isinstance(inner, BaseException) and inner not in seen:
        seen.append(inner)
        found = (*inner.args, getattr(inner, "reason", None), inner.__cause__, inner.__context__)
        inner = next((each for each in found if isinstance(each, BaseException)), None)
    last = seen[-1]
    words = getattr(last, "verify_message", None) or getattr(last, "strerror", None) or last
    return str(words)[:300]
