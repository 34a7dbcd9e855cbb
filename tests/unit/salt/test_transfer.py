"""Files from other machines: whole and as they shall be, or not there. Runs ``openssl``."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.server
import pathlib
import resource
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .loader import load
from .test_tls import certify

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclasses.dataclass
class Server:
    """A server of one file, with its defects.

    :param ends: after so many bytes of an answer, the connection does.
    :param ranges: it gives parts.
    """

    content: bytes = CONTENT
    ends: int = 1 << 40
    ranges: bool = True
    status: int = 200
    url: str = ""
    asked: list[str] = dataclasses.field(default_factory=list)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Send what a request wants."""
        wanted = handler.headers.get("Range", "bytes=0-")
        self.asked.append(wanted)
        start = int(wanted[len("bytes=") : -1]) if self.ranges else 0
        if self.status != 200:
            handler.send_error(self.status)
            return
        size = len(self.content)
        handler.send_response(206 if self.ranges else 200)
        if self.ranges:
            handler.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        handler.send_header("Content-Length", str(size - start))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(self.content[start:][: self.ends])


@pytest.fixture(scope="module")
def certificate(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], str]
) -> pathlib.Path:
    """Return a certificate that is its own authority, without the suffix."""
    return pathlib.Path(certify(tmp_path_factory.mktemp("tls"), "server", require("openssl")))


@pytest.fixture
def serve(certificate: pathlib.Path) -> Iterator[Callable[..., Server]]:
    """Return what starts a server."""
    with starting(certificate) as start:
        yield start


@pytest.fixture(scope="module")
def dying(certificate: pathlib.Path) -> Iterator[Server]:
    """Return a server for many tries."""
    with starting(certificate) as start:
        yield start()


@contextlib.contextmanager
def starting(certificate: pathlib.Path) -> Iterator[Callable[..., Server]]:
    """Give what starts a server; stop all of them in the end."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    with contextlib.ExitStack() as stack:

        def start(**defects: Any) -> Server:
            made = Server(**defects)

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    made.answer(self)

                def log_message(self, *_: object) -> None:
                    pass

            server = stack.enter_context(http.server.HTTPServer(("127.0.0.1", 0), Handler))
            server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            made.url = f"https://127.0.0.1:{server.server_address[1]}/a.iso"
            return made

        yield start


@dataclasses.dataclass
class Place:
    """Where a file shall be."""

    folder: pathlib.Path
    authority: str
    module: Any

    @property
    def file(self) -> pathlib.Path:
        return self.folder / "a.iso"

    @property
    def partial(self) -> pathlib.Path:
        return self.folder / ".a.iso.partial"

    def fetch(self, *servers: Server, size: int = len(CONTENT)) -> str:
        """Fetch the file; return the URL that it came from."""
        urls = [server.url for server in servers]
        return str(self.module.fetch(str(self.file), size, SHA256, urls, self.authority))

    def refused(self, *servers: Server, size: int = len(CONTENT)) -> str:
        """Fail to fetch the file; return why."""
        with pytest.raises(RuntimeError) as refusal:
            self.fetch(*servers, size=size)
        assert not self.file.exists()
        return str(refusal.value)


@pytest.fixture
def place(tmp_path: pathlib.Path, certificate: pathlib.Path) -> Place:
    folder = tmp_path / "archives"
    folder.mkdir()
    return Place(folder, f"{certificate}.crt", load("_modules/metalk8s_transfer"))


def test_a_file_is_fetched_whole(place: Place, serve: Callable[..., Server]) -> None:
    """It is for everybody to read, and nothing is left beside it."""
    server = serve()
    assert place.fetch(server) == server.url
    assert place.file.read_bytes() == CONTENT
    assert place.file.stat().st_mode & 0o777 == 0o644
    assert list(place.folder.iterdir()) == [place.file]


def test_a_transfer_that_was_cut_off_goes_on(place: Place, serve: Callable[..., Server]) -> None:
    """Where it was, and not from the beginning."""
    dies, lives = serve(ends=30_001), serve()
    assert "it ended after 30001 of 102400 bytes" in place.refused(dies)
    assert place.partial.read_bytes() == CONTENT[:30_001]
    place.fetch(lives)
    assert lives.asked == ["bytes=30001-"]
    assert place.file.read_bytes() == CONTENT


def test_another_server_goes_on(place: Place, serve: Callable[..., Server]) -> None:
    """In the same run: one that does not answer, one that has nothing, one that dies, one more."""
    away, empty, dies, lives = serve(), serve(status=404), serve(ends=50_000), serve()
    away.url = "https://127.0.0.1:1/a.iso"
    assert place.fetch(away, empty, dies, lives) == lives.url
    assert lives.asked == ["bytes=50000-"]
    assert place.file.read_bytes() == CONTENT


def test_a_server_without_parts_sends_all(place: Place, serve: Callable[..., Server]) -> None:
    """What was there already is written again."""
    place.partial.write_bytes(b"x" * 100)
    place.fetch(serve(ranges=False))
    assert place.file.read_bytes() == CONTENT


@given(ends=st.lists(st.integers(min_value=0, max_value=len(CONTENT) // 3), max_size=5))
def test_however_often_it_is_cut_off(
    certificate: pathlib.Path,
    dying: Server,
    tmp_path_factory: pytest.TempPathFactory,
    ends: list[int],
) -> None:
    """Every run goes on where the last one was; the file is there whole, or not at all."""
    folder, lengths = tmp_path_factory.mktemp("archives"), [0]
    made = Place(folder, f"{certificate}.crt", load("_modules/metalk8s_transfer"))
    for dying.ends in ends:
        if lengths[-1] + dying.ends < len(CONTENT):
            made.refused(dying)
            lengths.append(made.partial.stat().st_size)
    dying.ends, dying.asked = 1 << 40, []
    made.fetch(dying)
    assert dying.asked == [f"bytes={lengths[-1]}-"]
    assert made.file.read_bytes() == CONTENT


def test_one_that_was_killed_before_the_file_got_its_name(
    place: Place, serve: Callable[..., Server]
) -> None:
    """All of it is here: nobody has to send anything."""
    place.partial.write_bytes(CONTENT)
    server = serve()
    place.fetch(server)
    assert server.asked == []
    assert place.file.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("defects", "reason"),
    [
        ({"content": CONTENT[:-1] + b"\0"}, "what came has SHA-256"),
        ({"content": CONTENT + b"more"}, "it has 102404 bytes, expected 102400"),
        ({"content": CONTENT[:-1]}, "it has 102399 bytes, expected 102400"),
        ({"status": 403}, "HTTP Error 403"),
    ],
)
def test_other_bytes_are_refused(
    place: Place, serve: Callable[..., Server], defects: dict[str, Any], reason: str
) -> None:
    """The error names the server, and what came is not what a next run goes on from."""
    server = serve(**defects)
    said = place.refused(server)
    assert f"{server.url}: {reason}" in said
    assert "apply the states again" in said
    assert not place.partial.exists()
    place.fetch(server, serve())
    assert place.file.read_bytes() == CONTENT


def test_changed_bytes_before_a_cut_are_thrown_away(
    place: Place, serve: Callable[..., Server]
) -> None:
    """The next server sends all of it."""
    place.partial.write_bytes(b"\1" + CONTENT[1:5000])
    one, other = serve(), serve()
    assert place.fetch(one, other) == other.url
    assert (one.asked, other.asked) == (["bytes=5000-"], ["bytes=0-"])


def test_a_stranger_is_not_believed(
    place: Place, serve: Callable[..., Server], require: Callable[[str], str]
) -> None:
    """Its certificate is of another authority."""
    place.authority = f"{certify(place.folder.parent, 'stranger', require('openssl'))}.crt"
    assert "CERTIFICATE_VERIFY_FAILED" in place.refused(serve())


def test_without_room_nothing_begins(place: Place, serve: Callable[..., Server]) -> None:
    """The disk keeps what others need."""
    server = serve()
    said = place.refused(server, size=1 << 60)
    assert f"{place.folder} has " in said
    assert "MiB free, expected 1099511628032 MiB. Make room" in said
    assert server.asked == []


def test_a_disk_that_becomes_full_is_given_back(place: Place, serve: Callable[..., Server]) -> None:
    """Half a file is of no use to who has no room."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    server = serve()
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        said = place.refused(server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "has no room for a.iso, 102400 bytes: File too large" in said
    assert list(place.folder.iterdir()) == []
