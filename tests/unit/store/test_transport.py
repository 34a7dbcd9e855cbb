import contextlib
import datetime
import gzip
import http.server
import socket
import ssl
import threading

import pytest

from buildchain.store import transport
from buildchain.store.failure import TransferError
from buildchain.store.transport import Transport
from tests.registries import faulty, image_set, web

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


def get(client: Transport, served: faulty.Faulty, **headers: str) -> tuple[int, bytes]:
    with client.open("GET", f"http://{served.address}{PATH}", headers) as answer:
        return answer.status, answer.read()


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


def test_a_kept_connection_that_was_ended_is_made_new(served, client, monkeypatch):
    ended = threading.Event()
    original = faulty.Server.shutdown_request

    def shut(server, request):
        original(server, request)
        ended.set()

    monkeypatch.setattr(faulty.Server, "shutdown_request", shut)
    monkeypatch.setattr(faulty.Handler, "timeout", 0.1)
    assert get(client, served) == (200, DATA)
    assert ended.wait(10)
    assert get(client, served) == (200, DATA)
    assert len(served.requests) == 2


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
def test_broken_transfers_may_pass(served, client, fault, reason):
    served.fault = lambda _request: fault
    with pytest.raises(TransferError, match=reason) as caught:
        get(client, served)
    assert caught.value.passing
    assert served.address in caught.value.reason
    served.fault = lambda _request: ""
    assert get(client, served) == (200, DATA)


def test_a_body_of_unknown_length(served, client):
    served.fault = lambda _request: "no-length"
    assert get(client, served) == (200, DATA)


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


def test_dripping(served, client, monkeypatch):
    monkeypatch.setattr(transport, "TIMEOUT", 0.3)
    served.fault = lambda _request: "drip"
    with pytest.raises(TransferError, match="sends too slowly") as caught:
        get(client, served)
    assert caught.value.passing


def test_silence_in_the_middle(monkeypatch):
    monkeypatch.setattr(transport, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(TransferError, match=f"{address} was silent") as caught,
            answering(server, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"),
            Transport(plain_http=[address]).open("GET", f"http://{address}/") as answer,
        ):
            answer.read()
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


@pytest.mark.parametrize(
    "location", ["http://evil.example\\\\@{}/", "http://u:p@{}/", "http://[::1"]
)
def test_a_redirection_that_can_be_read_in_two_ways(served, client, location):
    with web.open_place("here") as place:
        there = {"Location": location.format(served.address)}
        place.reply = lambda _said: (307, there, b"")
        both = Transport(plain_http=[served.address, place.address, "evil.example"])
        with (
            pytest.raises(TransferError, match=r"no login|no address") as caught,
            both.open("GET", place.url, {"Authorization": "Bearer x"}),
        ):
            pass
        both.close()
    assert not caught.value.passing
    assert served.requests == []


def test_a_location_may_hold_more_than_an_address(served):
    with web.open_place("here") as place:
        there = {"Location": "/a b\u00fc%20?x=1,2#y".encode().decode("latin-1")}
        place.reply = lambda said: (307, there, b"") if said.path == "/" else (200, {}, b"ok")
        client = Transport(plain_http=[place.address])
        with client.open("GET", place.url) as answer:
            assert answer.read() == b"ok"
        client.close()
    assert place.said[1].path.startswith("/a%20b%C3")
    assert place.said[1].path.endswith("%20?x=1,2")


@pytest.mark.parametrize(("size", "connections"), [(1 << 10, 1), (1 << 26, 2)])
def test_the_body_of_a_redirection_is_not_read_whole(size, connections, monkeypatch):
    seen, sent = set(), []
    with web.open_place("here") as place:

        def reply(said):
            return (200, {}, b"ok") if said.path == "/a" else (307, {"Location": "/a"}, bytes(size))

        def answer(handler):
            seen.add(handler.client_address)
            with contextlib.suppress(OSError):
                original(handler)
                sent.append(handler.path)

        original = web.Handler.do_GET
        monkeypatch.setattr(web.Handler, "do_GET", answer)
        place.reply = reply
        client = Transport(plain_http=[place.address])
        with client.open("GET", place.url) as found:
            assert found.read() == b"ok"
        client.close()
    assert len(seen) == connections
    assert ("/" in sent) == (connections == 1), "a large one was cut off"


@pytest.mark.parametrize("kind", ["gzip", "deflate", "br"])
def test_nothing_is_decompressed(kind):
    packed = gzip.compress(bytes(1 << 20))
    with web.open_place("here") as place:
        place.reply = lambda _said: (200, {"Content-Encoding": kind}, packed)
        client = Transport(plain_http=[place.address])
        with client.open("GET", place.url) as answer:
            assert answer.read() == packed
        client.close()
    assert place.said[0].headers["accept-encoding"] == "identity"


def test_no_login_out_of_other_files_and_no_cookie(tmp_path, monkeypatch):
    """What requests does by itself: ``~/.netrc``, and remembering what servers set."""
    (tmp_path / ".netrc").write_text("default login user password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with web.open_place("here") as place:
        place.reply = lambda _said: (200, {"Set-Cookie": "a=b; Path=/"}, b"")
        client = Transport(plain_http=[place.address])
        for _ in range(2):
            with client.open("GET", place.url):
                pass
        client.close()
    wanted = {"host", "user-agent", "accept-encoding"}
    assert [set(said.headers) for said in place.said] == [wanted] * 2


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
    address = f"http://us%40er:pass@127.0.0.1:{server.server_address[1]}"
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
    assert Proxy.seen == [
        ("http://r.example/v2/", "Basic dXNAZXI6cGFzcw=="),
        ("s.example:443", "Basic dXNAZXI6cGFzcw=="),
    ]


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


class Tunnel(http.server.BaseHTTPRequestHandler):
    """A proxy that leads on, byte by byte."""

    seen: list[str] = []  # noqa: RUF012

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_CONNECT(self) -> None:
        self.seen.append(f"{self.path} {self.headers.get('Proxy-Authorization', '')}")
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=pump, args=(there, self.connection))
            back.start()
            pump(self.connection, there)
            back.join()
        self.close_connection = True


def pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := one.recv(1 << 16):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)


def test_tls_through_a_proxy(tls, tmp_path):
    """Who is trusted is the same as without; the proxy hears its own login and no other."""
    address, certificate = tls
    folder = tmp_path / "certs.d" / address
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    Tunnel.seen.clear()
    environ = {"https_proxy": f"http://u:p@127.0.0.1:{server.server_address[1]}"}
    client = Transport(environ=environ, certificates=[tmp_path / "certs.d"])
    stranger = Transport(environ=environ, certificates=[])
    try:
        with client.open("GET", f"https://{address}{PATH}", {"Authorization": "x"}) as answer:
            assert answer.read() == DATA
        with (
            pytest.raises(TransferError, match=f"{address} is not trusted"),
            stranger.open("GET", f"https://{address}{PATH}"),
        ):
            pass
    finally:
        client.close()
        server.shutdown()
        server.server_close()
        thread.join()
    assert Tunnel.seen == [f"{address} Basic dTpw"] * 2


def test_an_authority_for_one_host(tls, tmp_path, monkeypatch):
    address, certificate = tls
    folder = tmp_path / "certs.d" / address
    folder.mkdir(parents=True)
    stranger = Transport(certificates=[tmp_path / "none"])
    # requests would believe these.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(certificate))
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
