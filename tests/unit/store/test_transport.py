import contextlib
import datetime
import http.server
import os
import socket
import ssl
import threading

import pytest

from buildchain.store import transport
from buildchain.store.retry import TransferError
from buildchain.store.transport import Origin, Transport, split
from tests.registries import faulty, image_set

DATA = bytes(range(256)) * 1000
NAME = image_set.digest(DATA)
PATH = f"/v2/a/blobs/{NAME}"


@pytest.fixture
def served():
    with faulty.serving() as registry:
        registry.blobs[NAME] = DATA
        yield registry


@pytest.fixture
def client(served):
    made = Transport(plain_http=[served.address])
    yield made
    made.close()


def get(
    client: Transport, served: faulty.Faulty, read=transport.Answer.read, **headers: str
) -> tuple[int, bytes]:
    with client.open("GET", f"http://{served.address}{PATH}", headers) as answer:
        return answer.status, read(answer)


def read_by_pipe(answer: transport.Answer) -> bytes:
    found, buffer, ends = b"", memoryview(bytearray(1 << 13)), os.pipe()
    try:
        while True:
            bare = answer.is_bare
            count = answer.splice(ends[1]) if bare else answer.readinto(buffer)
            if not count:
                return found
            found += os.read(ends[0], count) if bare else bytes(buffer[:count])
    finally:
        for end in ends:
            os.close(end)


both_ways = pytest.mark.parametrize("read", [transport.Answer.read, read_by_pipe])


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://r.example", Origin("https", "r.example", 443), "/"),
        ("http://r.example:5000/v2/a?x=1#y", Origin("http", "r.example", 5000), "/v2/a?x=1"),
        ("https://[::1]:5000/a", Origin("https", "::1", 5000), "/a"),
        ("https://r.example/a b\u00fc%20", Origin("https", "r.example", 443), "/a%20b%C3%BC%20"),
    ],
)
def test_split(url, origin, target):
    assert split(url) == (origin, target)


@pytest.mark.parametrize(
    "url", ["", "r.example/a", "ftp://r.example/", "http:///a", "http://r:x/", "file:///etc/passwd"]
)
def test_split_refuses(url):
    with pytest.raises(TransferError):
        split(url)


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        (Origin("https", "r.example", 443), "r.example"),
        (Origin("http", "r.example", 443), "r.example:443"),
        (Origin("http", "::1", 5000), "[::1]:5000"),
    ],
)
def test_origin_name(origin, name):
    assert origin.name == name


def test_connections_are_kept(served, client):
    seen = set()
    original = faulty.Handler._answer

    def note(handler):
        seen.add(handler.client_address)
        original(handler)

    faulty.Handler._answer = note
    try:
        for _ in range(3):
            assert get(client, served) == (200, DATA)
    finally:
        faulty.Handler._answer = original
    assert len(seen) == 1


def test_a_kept_connection_that_was_ended_is_made_new(served, client):
    assert get(client, served) == (200, DATA)
    (kept,) = client._idle.values()
    kept[0].sock.shutdown(socket.SHUT_RDWR)
    assert get(client, served) == (200, DATA)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("reset", "closed early|reset by peer"),
        ("truncate", "closed early"),
        ("length-long", "closed early"),
        ("early-reset", "reset by peer|broken answer|closed"),
        ("garbage", r"broken answer \(BadStatusLine\)"),
    ],
)
@both_ways
def test_broken_transfers_may_pass(served, client, fault, reason, read):
    served.fault = lambda _request: fault
    with pytest.raises(TransferError, match=reason) as caught:
        get(client, served, read)
    assert caught.value.passing
    assert served.address in caught.value.reason
    served.fault = lambda _request: ""
    assert get(client, served, read) == (200, DATA)


@both_ways
def test_a_body_of_unknown_length(served, client, read):
    served.fault = lambda _request: "no-length"
    assert get(client, served, read) == (200, DATA)


def test_a_body_that_is_too_large_for_memory(served, client):
    with (
        pytest.raises(TransferError, match="larger than 1000 bytes"),
        client.open("GET", f"http://{served.address}{PATH}") as answer,
    ):
        answer.read(1000)


def test_nobody_there(client, served):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    one = Transport(plain_http=[f"127.0.0.1:{port}"])
    with (
        pytest.raises(TransferError, match="Connection refused") as caught,
        one.open("GET", f"http://127.0.0.1:{port}/"),
    ):
        pass
    assert caught.value.passing
    assert caught.value.crowded


@both_ways
def test_dripping(served, client, monkeypatch, read):
    monkeypatch.setattr(transport, "TIMEOUT", 0.3)
    served.fault = lambda _request: "drip"
    with pytest.raises(TransferError, match="sends too slowly") as caught:
        get(client, served, read)
    assert caught.value.passing


@both_ways
def test_silence_in_the_middle(monkeypatch, read):
    monkeypatch.setattr(transport, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(TransferError, match=f"{address} was silent") as caught,
            answering(server, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"),
            Transport(plain_http=[address]).open("GET", f"http://{address}/") as answer,
        ):
            read(answer)
    assert caught.value.passing


@contextlib.contextmanager
def answering(server: socket.socket, text: bytes):
    """Give the next who connects an answer, and keep the connection."""
    streams = []

    def answer() -> None:
        stream, _ = server.accept()
        streams.append(stream)
        stream.recv(1 << 12)
        stream.sendall(text)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        for stream in streams:
            stream.close()


def test_silence_from_the_beginning(monkeypatch):
    monkeypatch.setattr(transport, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(TransferError, match=f"{address} was silent") as caught,
            Transport(plain_http=[address]).open("GET", f"http://{address}/"),
        ):
            pass
    assert caught.value.passing
    assert caught.value.crowded


def test_plain_http_only_where_it_is_allowed(served):
    with pytest.raises(TransferError, match=f"plain HTTP to {served.address} is not allowed"):
        get(Transport(plain_http=["127.0.0.1:1"]), served)
    assert served.requests == []


def test_a_redirection_elsewhere_does_not_get_the_login(served, client):
    with faulty.serving() as other:
        other.blobs[NAME] = DATA
        both = Transport(plain_http=[served.address, other.address])
        served.fault = lambda _request: "redirect"
        served.elsewhere = f"http://{other.address}"
        assert get(both, served, Authorization="Bearer x", Range="bytes=5-") == (206, DATA[5:])
        both.close()
        (request,) = other.requests
        assert "authorization" not in request.headers
        assert request.headers["range"] == "bytes=5-"
        with pytest.raises(TransferError, match=f"plain HTTP to {other.address} is not allowed"):
            get(client, served)


def test_a_redirection_on_the_same_host_keeps_the_login(served, client):
    served.fault = lambda request: "redirect" if request.number == 0 else ""
    assert get(client, served, Authorization="Bearer x") == (200, DATA)
    assert [r.headers["authorization"] for r in served.requests] == ["Bearer x"] * 2


def test_redirections_end(served, client):
    served.fault = lambda _request: "redirect"
    with pytest.raises(TransferError, match="more than 5 redirections") as caught:
        get(client, served)
    assert not caught.value.passing


class Proxy(http.server.BaseHTTPRequestHandler):
    """A proxy that answers itself, and forwards CONNECT."""

    seen: list[tuple[str, str]] = []  # noqa: RUF012

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_CONNECT(self) -> None:
        self.seen.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_error(403)


def test_through_a_proxy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    Proxy.seen.clear()
    address = f"http://u:p@127.0.0.1:{server.server_address[1]}"
    client = Transport(
        plain_http=["r.example"], environ={"http_proxy": address, "https_proxy": address}
    )
    try:
        with client.open("GET", "http://r.example/v2/") as answer:
            assert answer.read() == b"ok"
        with (
            pytest.raises(TransferError, match=r"s\.example: Tunnel connection failed: 403"),
            client.open("GET", "https://s.example/v2/"),
        ):
            pass
    finally:
        client.close()
        server.shutdown()
        server.server_close()
        thread.join()
    assert Proxy.seen == [("http://r.example/v2/", "Basic dTpw"), ("s.example:443", "Basic dTpw")]


@pytest.fixture
def tls(tmp_path, require, monkeypatch):
    """Serve over TLS with a certificate of our own; give address and certificate."""
    import subprocess

    key, certificate = tmp_path / "key.pem", tmp_path / "ca.crt"
    subprocess.run(
        [require("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    registry = faulty.Faulty(blobs={NAME: DATA})
    server = faulty.Server(registry)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"localhost:{server.server_address[1]}", certificate
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_authority_for_one_host(tls, tmp_path):
    address, certificate = tls
    folder = tmp_path / "certs.d" / address
    folder.mkdir(parents=True)
    stranger = Transport(certificates=[tmp_path / "none"])
    with (
        pytest.raises(TransferError, match=f"{address} is not trusted .*certs.d") as caught,
        stranger.open("GET", f"https://{address}{PATH}"),
    ):
        pass
    assert not caught.value.passing
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    client = Transport(certificates=[tmp_path / "certs.d"])
    for _ in range(2):
        with client.open("GET", f"https://{address}{PATH}") as answer:
            assert answer.read() == DATA
    with (
        pytest.raises(TransferError, match="not trusted"),
        client.open("GET", f"https://{address.replace('localhost', '127.0.0.1')}{PATH}"),
    ):
        pass
    client.close()
    assert datetime.datetime.now(datetime.UTC)
