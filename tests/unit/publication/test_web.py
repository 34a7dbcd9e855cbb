import contextlib
import ssl
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from buildchain.core.errors import BuildError, ConfigError, PlaceError
from buildchain.publication import address
from tests.unit.publication.world import tree

ISO = "demo-2.4.0.iso"


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, ranges included, and has moods."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.asked.append((self.path, self.headers.get("Range"), self.headers["Authorization"]))
        if server.mood and server.mood(self):
            return
        path = server.folder / self.path.lstrip("/").replace("%2B", "+")
        if not path.is_file():
            self.answer(404, b"")
            return
        content = path.read_bytes()
        wanted = self.headers.get("Range")
        if wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start:], **{"Content-Range": span})
            return
        self.answer(200, content)

    def answer(self, status, content, length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)
        if length is not None:
            self.close_connection = True


@contextlib.contextmanager
def serving(folder, context=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.folder, server.mood, server.ranges, server.asked = folder, None, True, []
    server.handle_error = lambda *_: None
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# The session that stays open is closed by whoever collects it.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def web(world):
    world.released("2.4.0")
    with serving(world.place) as server:
        world.source = f"http://127.0.0.1:{server.server_port}"
        yield server


@pytest.mark.parametrize("ranges", [True, False])
def test_a_release_is_fetched_and_gone_on_with(world, web, ranges):
    web.ranges = ranges
    part = world.folder / ".got.part"
    part.mkdir()
    (part / ISO).write_bytes((world.build / ISO).read_bytes()[:1234])
    assert world.fetch() == "2.4.0"
    assert tree(world.got) == tree(world.build)
    assert (f"/2.4.0/{ISO}", "bytes=1234-", None) in web.asked


def test_a_connection_that_breaks_is_gone_on_with(world, web):
    content = b"0123456789abcdef" * 20000
    world.released("2.4.1", **{"demo-2.4.1.iso": content})

    def breaks(request):
        if request.path.endswith(".iso"):
            request.answer(200, content[:150000], length=len(content))
            return True
        return False

    web.mood = breaks
    with pytest.raises(PlaceError, match=r"demo-2\.4\.1\.iso"):
        world.fetch()
    assert not world.got.exists()
    left = (world.folder / ".got.part" / "demo-2.4.1.iso").stat().st_size
    assert 80000 < left <= 150000
    web.mood = None
    assert world.fetch() == "2.4.1"
    assert ("/2.4.1/demo-2.4.1.iso", f"bytes={left}-", None) in web.asked


def test_logins_are_sent_and_never_told(world, web, recorded):
    world.source = world.source.replace("//", "//user:hunter%402@")
    assert world.fetch() == "2.4.0"
    assert {login for _, _, login in web.asked} == {"Basic dXNlcjpodW50ZXJAMg=="}
    web.mood = lambda request: request.answer(401, b"") or True
    with pytest.raises(PlaceError, match="login is missing or wrong") as caught:
        world.fetch("stable")
    memory = " ".join(path.read_text() for path in world.reader_memory.iterdir())
    for text in (caught.value.friendly(), memory, *recorded.lines):
        assert "hunter" not in text
        assert "dXNlcjp" not in text


def status(number, **headers):
    return lambda request: request.answer(number, b"x", **headers) or True


def endless(request):
    """Send far more than anybody wants; the end only keeps a mistake from filling the disk."""
    request.send_response(200)
    request.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(64):
            request.wfile.write(b"x" * (1 << 20))
    request.close_connection = True
    return True


def test_nobody_gets_a_login_that_was_not_given(world, web, monkeypatch):
    """A login in ``~/.netrc`` was meant for other programs."""
    netrc = world.folder / "netrc"
    netrc.write_text("default login user password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert world.fetch() == "2.4.0"
    assert {login for _, _, login in web.asked} == {None}


def test_the_body_of_a_redirection_is_left_alone(world, web):
    sent = 0

    def endless_redirection(request):
        nonlocal sent
        request.send_response(302)
        request.send_header("Location", "https://elsewhere.example/")
        request.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(256):
                sent += request.wfile.write(b"x" * (1 << 18))
        request.close_connection = True
        return True

    web.mood = endless_redirection
    with pytest.raises(PlaceError, match="sends on to https://elsewhere"):
        world.fetch()
    assert sent < 32 << 20


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        (status(404), "has no releases.json"),
        (status(403), "login is missing or wrong (status 403)"),
        (status(500), "releases.json: status 500"),
        (status(302, Location="https://elsewhere.example/x?token=hunter2"),
         "sends on to https://elsewhere.example for releases.json"),
        (endless, "has more than 16777216 bytes"),
    ],
)  # fmt: skip
def test_what_a_server_answers(world, web, mood, said):
    web.mood = mood
    with pytest.raises(PlaceError) as caught:
        world.fetch()
    assert said in caught.value.reason
    assert "hunter2" not in caught.value.friendly()


def test_another_range_than_was_asked_for(world, web):
    def other(request):
        if request.headers.get("Range"):
            request.answer(206, b"xyz", **{"Content-Range": "bytes 0-2/3"})
            return True
        return False

    web.mood = other
    part = world.folder / ".got.part"
    part.mkdir()
    (part / ISO).write_bytes((world.build / ISO).read_bytes()[:1234])
    with pytest.raises(PlaceError, match="answered with another range"):
        world.fetch()


def test_more_than_the_index_says_is_not_taken(world, web):
    """An endless file ends where the index says that it does."""
    web.mood = lambda request: request.path.endswith(".iso") and endless(request)
    with pytest.raises(BuildError, match="is not what the index says"):
        world.fetch()
    assert not (world.folder / ".got.part" / ISO).exists()


def test_a_server_that_is_silent(world, web, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr("buildchain.store.transport.TIMEOUT", 0.2)
    web.mood = lambda request: over.wait(30)
    try:
        with pytest.raises(PlaceError, match=r"releases\.json: .* was silent for"):
            world.fetch()
    finally:
        over.set()


def test_nobody_is_there(world):
    world.source = "http://user:hunter2@127.0.0.1:1/x"
    with pytest.raises(PlaceError, match="Connection refused") as caught:
        world.fetch()
    assert "hunter2" not in caught.value.friendly()


def test_a_host_that_there_is_not(world):
    world.source = "http://user:hunter2@no-such-host.invalid/x"
    with pytest.raises(PlaceError, match=r"no-such-host\.invalid") as caught:
        world.fetch()
    assert "hunter2" not in caught.value.friendly()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory, require):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [require("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", folder / "key", "-out",
         folder / "crt", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_tls_is_checked_against_the_systems_authorities(world, certificate, monkeypatch):
    world.released("2.4.0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "crt", certificate / "key")
    # Variables of a library, which nobody set for us.
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(certificate / "crt"))
    with serving(world.place, context) as server:
        world.source = f"https://user:hunter2@127.0.0.1:{server.server_port}"
        with pytest.raises(PlaceError, match="cannot be believed to be who it says") as caught:
            world.fetch()
        assert "SSL_CERT_FILE" in caught.value.solution
        assert "hunter2" not in caught.value.friendly()
        assert not server.asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "crt"))
        assert world.fetch() == "2.4.0"


@pytest.mark.parametrize(
    "url", ["http://", "https:///path", "http://host:x/", "http://h/?a=b", "http://[::1/"]
)
def test_what_is_no_address(url, tmp_path):
    with pytest.raises(ConfigError, match="address of the web server"):
        address.source(url, tmp_path)


def test_nothing_is_published_to_a_web_server(tmp_path):
    with pytest.raises(ConfigError, match="nothing can be published through") as caught:
        address.target("https://user:hunter2@host/", tmp_path)
    assert "hunter2" not in caught.value.friendly()
