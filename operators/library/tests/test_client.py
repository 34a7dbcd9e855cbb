"""What is sent to an API server, and what its refusals become."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from metalk8s_operators.client import ApiError, Client

MERGE = "application/merge-patch+json"


@pytest.fixture
def server():
    """Give an API server that takes everything below /fine, and refuses the rest."""
    heard = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((self.command, self.path, dict(self.headers), json.loads(body)))
            is_fine = self.path.startswith("/fine")
            said = {"kind": "Thing"} if is_fine else {"kind": "Status", "message": "it is there"}
            text = json.dumps(said).encode()
            self.send_response(201 if is_fine else 409)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PATCH = answer  # noqa: N815 -- names of the base class

        def log_message(self, *_words):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    made.heard = heard
    yield made
    made.shutdown()
    made.server_close()


def test_what_is_written(server, tmp_path):
    (tmp_path / "token").write_text("one\n")
    client = Client(f"http://127.0.0.1:{server.server_port}", tmp_path)
    assert client.write("POST", "/fine/a", {"b": 1}) == {"kind": "Thing"}
    client.write("PATCH", "/fine/b", {"c": None}, MERGE)
    first, second = server.heard
    assert (first[0], first[1], first[3]) == ("POST", "/fine/a", {"b": 1})
    assert first[2]["Authorization"] == "Bearer one"
    assert first[2]["Content-Type"] == "application/json"
    assert (second[0], second[2]["Content-Type"], second[3]) == ("PATCH", MERGE, {"c": None})


def test_what_is_refused(server, tmp_path):
    client = Client(f"http://127.0.0.1:{server.server_port}", tmp_path)
    with pytest.raises(ApiError, match="/other: 409 it is there") as refused:
        client.write("POST", "/other", {})
    assert refused.value.status == 409


def test_nobody_is_there(server, tmp_path):
    client = Client("http://127.0.0.1:1", tmp_path)
    with pytest.raises(ApiError, match="ConnectionRefusedError") as refused:
        client.write("POST", "/fine", {})
    assert refused.value.status == 0
