"""What a program says of itself: lines of JSON, readiness and numbers.

On the port (of loopback, for pods on the network of their machine): ``/healthz`` 200 while the
program works, ``/readyz`` 200 when it has done what it is for, ``/metrics`` in the text format of
Prometheus.
"""

from __future__ import annotations

import datetime
import http.server
import json
import sys
import threading
import time
from collections.abc import Mapping
from typing import TextIO

LOOPBACK = "127.0.0.1"


def say(level: str, message: str, stream: TextIO | None = None, **facts: object) -> None:
    """Write one event as a line of JSON.

    :param level: ``info``, ``warning`` or ``error``.
    """
    moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"time": moment, "level": level, "message": message, **facts})
    print(line, file=stream or sys.stderr, flush=True)


class Health:
    """Whether the program works, whether it is ready, and its numbers.

    :param patience: seconds without a sign of life after which it counts as stuck.
    """

    def __init__(self, patience: float = 120.0) -> None:
        self._patience = patience
        self._alive = time.monotonic()
        self._lock = threading.Lock()
        self.reason = "it has just begun"
        self._numbers: dict[str, float] = {}

    def beat(self, reason: str, numbers: Mapping[str, float]) -> None:
        """Give a sign of life.

        :param reason: why it is not ready; empty: it is.
        """
        with self._lock:
            self._alive, self.reason = time.monotonic(), reason
            self._numbers = dict(numbers)

    def answer(self, path: str) -> tuple[int, str]:
        """Return status and text for a path."""
        with self._lock:
            reason, numbers = self.reason, dict(self._numbers)
            silent = time.monotonic() - self._alive
        if path == "/metrics":
            return 200, "".join(f"{name} {value:g}\n" for name, value in sorted(numbers.items()))
        if path == "/healthz":
            return (
                (200, "ok\n") if silent < self._patience else (503, f"silent for {silent:.0f} s\n")
            )
        if path == "/readyz":
            return (503, f"{reason}\n") if reason else (200, "ok\n")
        return 404, "not found\n"


def serve(health: Health, port: int, address: str = LOOPBACK) -> http.server.ThreadingHTTPServer:
    """Answer on a port, in a thread of its own.

    :param port: 0: any that is free.
    :param address: empty: every one, for a pod that is not on its machine's network.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10  # seconds: who asks and says no more does not stay

        def do_GET(self) -> None:  # the name is the base class's
            status, text = health.answer(self.path)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Say nothing: probes come every few seconds."""

    server = http.server.ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
