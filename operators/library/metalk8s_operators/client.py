"""The Kubernetes API over HTTPS, as a pod's service account.

Read of the pod's file system: the token, at every request, since the kubelet renews it; the
certificate of the authority.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = 30.0  # seconds, for one answer
# Seconds for a write: it must not overtake those of the next who leads (leader.py).
WRITE_TIMEOUT = 4.0
MERGE = "application/merge-patch+json"
# Seconds without a word on a watch. The API server sends a bookmark every minute.
SILENCE = 150.0
# A server that vanished is noticed after 15 + 3 x 5 seconds, also where nothing is to be sent.
KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 3),
)
Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused, or did not answer as one.

    :param status: of HTTP; 0 without an answer.
    :param pause: seconds that it asks to wait.
    """

    def __init__(self, status: int, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.pause = status, pause


@dataclass(frozen=True)
class _Question:
    method: str
    path: str
    body: bytes | None = None
    content: str = ""

    @property
    def where(self) -> str:
        return self.path.partition("?")[0]


@dataclass(frozen=True)
class Client:
    """Who asks which API server.

    :param url: ``https://host:port``, or ``http`` in tests.
    :param account: folder with ``token`` and ``ca.crt``; either may be missing.
    """

    url: str
    account: Path = ACCOUNT

    def get(self, path: str, query: Mapping[str, str]) -> Object:
        """Read one answer.

        :raises ApiError: none came, or one that is not a success.
        """
        return self._exchange(_Question("GET", f"{path}?{urllib.parse.urlencode(query)}"), TIMEOUT)

    def write(self, method: str, path: str, body: Object, content: str = "") -> Object:
        """Let something be otherwise, and return how it is then.

        :param content: type of the body; if empty, ``PATCH`` is a JSON merge patch.
        :raises ApiError: it was refused (409: somebody else has changed it), or nobody knows.
        """
        content = content or (MERGE if method == "PATCH" else "application/json")
        question = _Question(method, path, json.dumps(body).encode(), content)
        return self._exchange(question, WRITE_TIMEOUT)

    def _exchange(self, question: _Question, timeout: float) -> Object:
        connection = self._connect(timeout)
        try:
            answer = self._ask(connection, question)
            document: Object = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, f"{self.url}{question.where}: {_words(error)}") from error
        finally:
            connection.close()
        return document

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Read one document a line, for as long as the server sends them.

        :raises ApiError: the connection was refused, cut, or silent for too long.
        """
        connection = self._connect(SILENCE)
        try:
            answer = self._ask(
                connection, _Question("GET", f"{path}?{urllib.parse.urlencode(query)}")
            )
            while line := answer.readline():
                document: Object = json.loads(line)
                yield document
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, f"{self.url}{path}: {_words(error)}") from error
        finally:
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self.url)
        if url.scheme != "https":
            return http.client.HTTPConnection(url.hostname or "", url.port, timeout=timeout)
        authority = self.account / "ca.crt"
        trusted = str(authority) if authority.is_file() else None
        try:
            tls = ssl.create_default_context(cafile=trusted)
        except OSError as error:
            raise ApiError(0, f"{authority}: {_words(error)}") from error
        return http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=timeout, context=tls
        )

    def _ask(
        self, connection: http.client.HTTPConnection, question: _Question
    ) -> http.client.HTTPResponse:
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        headers = {"Accept": "application/json", "User-Agent": "metalk8s"}
        token = self.account / "token"
        if token.is_file():
            headers["Authorization"] = f"Bearer {token.read_text(encoding='ascii').strip()}"
        if question.body is not None:
            headers["Content-Type"] = question.content
        connection.request(question.method, question.path, question.body, headers)
        answer = connection.getresponse()
        if answer.status not in (http.client.OK, http.client.CREATED):
            raise _refused(f"{self.url}{question.where}", answer)
        return answer


def _refused(where: str, answer: http.client.HTTPResponse) -> ApiError:
    said = answer.read().decode("utf-8", "replace")
    try:
        message = json.loads(said)["message"]
    except (ValueError, KeyError, TypeError):
        message = said[:200]
    try:
        pause = float(answer.getheader("Retry-After") or 0)
    except ValueError:  # a date: whoever sends that is no API server
        pause = 0.0
    return ApiError(answer.status, f"{where}: {answer.status} {message}", pause)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
