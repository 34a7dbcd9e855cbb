"""Servers of the node, as their users see them. Runs ``openssl``."""

from __future__ import annotations

import contextlib
import http.server
import pathlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from .loader import load

Require = Callable[[str], str]


def certify(folder: pathlib.Path, name: str, openssl: str) -> str:
    """Make a certificate that is its own authority; give its path without the suffix."""
    path = folder / name
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", f"{path}.key", "-out", f"{path}.crt", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(path)


@contextlib.contextmanager
def serving(own: str, authority: str) -> Iterator[str]:
    """Shake hands with one client; give address and port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{authority}.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(f"{own}.crt", f"{own}.key")

    def serve(server: socket.socket) -> None:
        stream, _ = server.accept()
        with stream, contextlib.suppress(OSError), context.wrap_socket(stream, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@contextlib.contextmanager
def answering(own: str) -> Iterator[str]:
    """Answer requests for / over HTTPS; give the URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{own}.crt", f"{own}.key")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("known", "trusted", "accepted"),
    [("client", "server", True), ("stranger", "server", False), ("client", "stranger", False)],
)
def test_both_ends_know_each_other(
    tmp_path: pathlib.Path, require: Require, known: str, trusted: str, accepted: bool
) -> None:
    """Neither a stranger's server nor one that does not know the certificate will do."""
    openssl = require("openssl")
    made = {name: certify(tmp_path, name, openssl) for name in ("client", "server", "stranger")}
    state = load("_states/metalk8s_tls")
    with serving(made["server"], made[known]) as name:
        answer = state.accepted(name, f"{made[trusted]}.crt", made["client"], timeout=-1)
    assert answer["result"] is accepted
    assert f"{made['client']}.crt" in answer["comment"]


def test_server_that_is_not_there() -> None:
    """Where, how long, and why."""
    state = load("_states/metalk8s_tls")
    answer = state.accepted("127.0.0.1:1", "/nonexistent.crt", "/nonexistent", timeout=-1)
    assert answer["result"] is False
    assert answer["comment"].startswith("127.0.0.1:1 does not accept /nonexistent.crt after -1 s: ")


def test_test_mode_does_not_wait() -> None:
    """Nothing may be there yet."""
    state = load("_states/metalk8s_tls", opts={"test": True})
    assert state.accepted("127.0.0.1:1", "/none.crt", "/none")["result"] is True
    assert state.answers("https://127.0.0.1:1/", authority="/none.crt")["result"] is True


def test_answer_is_waited_for(tmp_path: pathlib.Path, require: Require) -> None:
    """The server's certificate counts, and its status."""
    openssl = require("openssl")
    own, stranger = (certify(tmp_path, name, openssl) for name in ("server", "stranger"))
    state = load("_states/metalk8s_tls")
    with answering(own) as url:
        assert state.answers(url, f"{own}.crt", timeout=-1)["result"] is True
        assert "404" in state.answers(f"{url}absent", f"{own}.crt", timeout=-1)["comment"]
        refused = state.answers(url, f"{stranger}.crt", timeout=-1)
    assert refused["result"] is False
    assert "certificate verify failed" in refused["comment"]


def test_health_is_asked_of_this_machine_alone(tmp_path: pathlib.Path, require: Require) -> None:
    """Whatever the certificate, as the kubelet's probes do; elsewhere it would have to be known."""
    own = certify(tmp_path, "server", require("openssl"))
    state = load("_states/metalk8s_tls")
    with answering(own) as url:
        assert state.healthy(url, timeout=-1)["result"] is True
        ill = state.healthy(f"{url}absent", timeout=-1)
    assert (ill["result"], "is not healthy after -1 s: HTTP Error 404" in ill["comment"]) == (
        False,
        True,
    )
    elsewhere = state.healthy("https://192.0.2.1:10259/healthz", timeout=-1)
    assert elsewhere["result"] is False
    assert "192.0.2.1 is not on the loopback interface" in elsewhere["comment"]


def test_url_that_does_not_answer() -> None:
    """The URL, how long, and why."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    state = load("_states/metalk8s_tls")
    answer = state.answers(f"https://127.0.0.1:{port}/v2/", authority=__file__, timeout=-1)
    assert answer["result"] is False
    assert f"https://127.0.0.1:{port}/v2/ does not answer after -1 s" in answer["comment"]
