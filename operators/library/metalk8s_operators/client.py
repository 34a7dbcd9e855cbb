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
        connection = self._connect(TIMEOUT)
        try:
            answer = self._ask(connection, path, query)
            document: Object = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, f"{self.url}{path}: {_words(error)}") from error
        finally:
            connection.close()
        return document

    def write(
        self, method: str, path: str, document: Object, content: str = "application/json"
    ) -> Object:
        """Send one object, or a change of one; return what the API server has then.

        :param method: ``POST``, ``PUT`` or ``PATCH``.
        :param content: type of the document.
        :raises ApiError: no answer came, or one that is not a success.
        """
        connection = self._connect(TIMEOUT)
        try:
            sent = {"Content-Type": content}
            answer = self._request(connection, method, path, sent, json.dumps(document))
            said: Object = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiError(0, f"{self.url}{path}: {_words(error)}") from error
        finally:
            connection.close()
        return said

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Read one document a line, for as long as the server sends them.

        :raises ApiError: the connection was refused, cut, or silent for too long.
        """
        connection = self._connect(SILENCE)
        try:
            answer = self._ask(connection, path, query)
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
        self, connection: http.client.HTTPConnection, path: str, query: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        return self._request(connection, "GET", f"{path}?{urllib.parse.urlencode(query)}", {})

    def _request(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        sent: Mapping[str, str],
        body: str | None = None,
    ) -> http.client.HTTPResponse:
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        headers = {"Accept": "application/json", "User-Agent": "metalk8s", **sent}
        token = self.account / "token"
        if token.is_file():
            headers["Authorization"] = f"Bearer {token.read_text(encoding='ascii').strip()}"
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        if not http.client.OK <= answer.status < http.client.MULTIPLE_CHOICES:
            raise _refused(f"{self.url}{target.partition('?')[0]}", answer)
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
