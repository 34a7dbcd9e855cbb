"""A mirror of EL in small: stub RPMs, signed, with metadata, in a folder or over HTTP."""

from __future__ import annotations

import contextlib
import functools
import http.server
import pathlib
import shutil
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from buildchain.core.layout import Layout
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from tests.integration.conftest import require, run

EPOCH = 1793491200  # seconds since 1970


@dataclass(frozen=True)
class Key:
    """A throwaway key.

    :param public: ASCII armour.
    """

    signer: Signer
    public: pathlib.Path

    def sign(self, packages: Iterable[pathlib.Path]) -> None:
        """Sign packages in place."""
        self.signer.sign_rpms(list(packages), epoch=EPOCH)

    def publish(self, folder: pathlib.Path) -> None:
        """Write the metadata of a folder and sign them."""
        write_metadata(folder)
        metadata = folder / "repodata" / "repomd.xml"
        signature = metadata.with_name("repomd.xml.asc")
        self.signer.sign(metadata, signature, epoch=EPOCH, kind="armored")


def write_metadata(folder: pathlib.Path, *options: str) -> None:
    """Write the metadata of a folder anew, unsigned."""
    require("createrepo_c")
    shutil.rmtree(folder / "repodata", ignore_errors=True)
    run("createrepo_c", "--quiet", "--no-database", *options, folder)


@contextlib.contextmanager
def key(folder: pathlib.Path) -> Iterator[Key]:
    """Make a key below ``folder``."""
    require("gpg", "rpmsign")
    layout = Layout(root=folder, build=folder / "build", cache=folder / "cache", project="test")
    with signing.signer(layout, "") as signer:
        _, public = signer.export(folder, "key")
        yield Key(signer, public)


class Server:
    """A web server on loopback that can break what it sends.

    :param requests: paths that were asked for, in order.
    :param truncated: paths of which only half is sent.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.requests: list[str] = []
        self.truncated: set[str] = set()
        handler = functools.partial(_Handler, self, directory=str(folder))
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def fetched(self, suffix: str = ".rpm") -> list[str]:
        """Return the names of the files that were asked for, sorted."""
        return sorted(path.rsplit("/", 1)[1] for path in self.requests if path.endswith(suffix))


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, server: Server, *arguments: object, **options: object) -> None:
        self.owner = server
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.owner.requests.append(self.path)
        if self.path not in self.owner.truncated:
            super().do_GET()
            return
        content = pathlib.Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""
