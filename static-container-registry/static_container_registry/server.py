"""A local nginx in the foreground, for trying a configuration out.

External command: ``nginx``. It listens on 127.0.0.1 only, keeps everything it writes in
a temporary directory and needs no privileges.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import ToolError
from .syntax import block

_ADDRESS = "127.0.0.1"
_PATIENCE = 10.0  # seconds until nginx has to listen, and again to stop
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def main_configuration(server: str, port: int, user: str | None) -> str:
    """Return a complete nginx.conf around the text of a server block.

    ``user`` is only for an nginx started by root, whose workers could otherwise not
    read a tree that only root may read.
    """
    http = block(
        "http",
        "access_log off;",
        "sendfile on;",
        "tcp_nopush on;",
        *(f"{name}_temp_path temporary/{name};" for name in _TEMPORARY),
        block("server", f"listen {_ADDRESS}:{port};", server),
    )
    lines = [
        "daemon off;",
        "pid nginx.pid;",
        "error_log stderr warn;",
        *([f"user {user};"] if user else []),
        "events { }",
        http,
    ]
    return "\n".join(lines) + "\n"


def argv_for_nginx(program: str, prefix: Path) -> list[str]:
    """Return the command that serves from ``prefix``, which holds the nginx.conf."""
    return [program, "-e", "stderr", "-p", f"{prefix}/", "-c", f"{prefix}/nginx.conf"]


@contextmanager
def running(server: str, port: int, nginx: str = "nginx") -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx with this server block until the end of the ``with`` statement.

    :raises ToolError: nginx is missing, refuses the configuration, or cannot listen.
    """
    program = shutil.which(nginx, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        raise ToolError(f"{nginx} not found", "install the package nginx or pass --nginx")
    user = pwd.getpwuid(0).pw_name if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="static-container-registry-") as folder:
        prefix = Path(folder)
        (prefix / "temporary").mkdir()
        (prefix / "nginx.conf").write_text(main_configuration(server, port, user), "utf-8")
        # A session of its own: Ctrl-C reaches us, and we stop nginx in good order.
        process = subprocess.Popen(
            argv_for_nginx(program, prefix), stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            _wait_until_listening(process, port, prefix / "nginx.pid")
            yield process
        finally:
            _stop(process)


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, pid_file: Path) -> None:
    """Wait for our nginx: its pid file appears only after it has the port."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if pid_file.is_file():
            with suppress(OSError), socket.create_connection((_ADDRESS, port), timeout=1):
                return
        time.sleep(0.02)
    raise ToolError(
        f"nginx does not serve on {_ADDRESS}:{port}",
        "see its messages above; if the port is taken, choose another with --port",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
