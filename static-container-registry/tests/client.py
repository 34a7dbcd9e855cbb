"""Who asks the registries of the tests."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection

Answer = tuple[int, dict[str, str], bytes]


class Client:
    """One request per connection, to one port."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        fields = {key.lower(): value for key, value in response.getheaders()}
        body = response.read()
        connection.close()
        return response.status, fields, body

    def error(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        """The status and code of an error, after checking the form of its body."""
        status, fields, body = self(path, method, **headers)
        assert fields["content-type"] == "application/json"
        assert fields["docker-distribution-api-version"] == "registry/2.0"
        (only,) = json.loads(body)["errors"]
        return status, only["code"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
