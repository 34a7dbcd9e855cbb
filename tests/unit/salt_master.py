"""A Salt master that only shakes hands, on loopback, and the certificates for that."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path


def certify(folder: Path, openssl: str, *names: str) -> Path:
    """Make certificates, each its own authority: ``<name>.crt`` and ``<name>.key``."""
    for name in names:
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt",
             "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
    return folder


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Shake hands with who has the certificate of ``minion``; give the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "minion.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "master.crt", folder / "master.key")
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = server.accept()
                with (
                    stream,
                    contextlib.suppress(OSError),
                    context.wrap_socket(stream, server_side=True),
                ):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
