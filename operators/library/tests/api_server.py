"""An API server's lists and watches over HTTP, with the faults that clients have to bear.

Like the real one's: pages with a token, versions that grow with every change, a watch from a
version on, bookmarks, 410 for what is forgotten, 429 with seconds to wait.
"""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

STEP = 0.02  # seconds between two looks of a watch


@dataclass
class Fault:
    """What the next request that fits gets in place of an answer.

    :param watch: whether it is one for a watch.
    :param status: of HTTP; 0: the connection is cut, in the middle of a line.
    """

    watch: bool
    status: int
    headers: dict[str, str] = field(default_factory=dict)


class ApiServer:
    """One collection. ``requests`` has the query of every request, with ``Authorization``."""

    def __init__(self, listening: socket.socket | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version, self.forgotten = 100, 0
        self.is_closed = False
        self.faults: list[Fault] = []
        self.requests: list[dict[str, str]] = []
        self.changed = threading.Condition()
        self._log: list[tuple[int, str, dict[str, Any]]] = []
        self._epoch = 0
        handler = type("Bound", (_Handler,), {"api": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler, listening is None)
        if listening is not None:
            self._server.socket.close()
            self._server.socket = listening
        self._server.daemon_threads = True
        self.port = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put(self, item: dict[str, Any]) -> None:
        with self.changed:
            kind = "MODIFIED" if item["metadata"]["name"] in self.objects else "ADDED"
            self._record(kind, item)
            self.objects[item["metadata"]["name"]] = item

    def remove(self, name: str) -> None:
        with self.changed:
            self._record("DELETED", self.objects.pop(name))

    def forget(self) -> None:
        """Compact: watches from any version so far get 410."""
        with self.changed:
            self.version += 1
            self.forgotten = self.version
            self._log.clear()
            self._epoch += 1

    def cut(self) -> None:
        """End every watch that there is, without a word."""
        with self.changed:
            self._epoch += 1

    def bookmark(self) -> None:
        with self.changed:
            self.version += 1
            mark = {"kind": "Node", "metadata": {"resourceVersion": str(self.version)}}
            self._log.append((self.version, "BOOKMARK", mark))

    def watches(self) -> list[dict[str, str]]:
        return [query for query in self.requests if "watch" in query]

    def lists(self) -> list[dict[str, str]]:
        return [query for query in self.requests if "watch" not in query]

    def close(self) -> None:
        # Also for a watch that begins between here and the end of the server.
        self.is_closed = True
        self._server.shutdown()
        self._server.server_close()

    def _record(self, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, kind, json.loads(json.dumps(item))))

    def fault(self, *, watch: bool) -> Fault | None:
        for fault in self.faults:
            if fault.watch == watch:
                self.faults.remove(fault)
                return fault
        return None

    def page(self, query: dict[str, str]) -> dict[str, Any]:
        with self.changed:
            names = sorted(self.objects)
            first = int(query.get("continue", "0"))
            last = first + int(query.get("limit") or len(names) or 1)
            metadata = {"resourceVersion": str(self.version)}
            if last < len(names):
                metadata["continue"] = str(last)
            items = [self.objects[name] for name in names[first:last]]
            return {"kind": "NodeList", "metadata": metadata, "items": items}

    def since(self, version: int) -> tuple[int, list[tuple[int, str, dict[str, Any]]]]:
        with self.changed:
            return self._epoch, [entry for entry in self._log if entry[0] > version]


class _Handler(http.server.BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        token = self.headers.get("Authorization", "")
        self.api.requests.append({**query, "Authorization": token})
        fault = self.api.fault(watch="watch" in query)
        if fault is not None:
            self._fail(fault)
        elif "watch" in query:
            self._watch(query)
        else:
            self._answer(200, self.api.page(query), {})

    def _fail(self, fault: Fault) -> None:
        if fault.status:
            message = {"kind": "Status", "code": fault.status, "message": "as the test wants it"}
            self._answer(fault.status, message, fault.headers)
            return
        self._begin()
        self._chunk(b'{"type": "ADDED", "object": {"metada')
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, status: int, document: dict[str, Any], headers: dict[str, str]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def _watch(self, query: dict[str, str]) -> None:
        version = int(query["resourceVersion"])
        self._begin()
        self.close_connection = True
        if version < self.api.forgotten:
            self._event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
            self._chunk(b"")
            return
        began = None
        waited = 0.0
        while waited < float(query["timeoutSeconds"]):
            epoch, events = self.api.since(version)
            began = epoch if began is None else began
            if epoch != began or self.api.is_closed:
                return  # cut: no last chunk
            try:
                for number, kind, item in events:
                    self._event(kind, item)
                    version = number
            except OSError:
                return
            threading.Event().wait(STEP)
            waited += STEP
        self._chunk(b"")

    def _event(self, kind: str, item: dict[str, Any]) -> None:
        self._chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def log_message(self, *_words: object) -> None:
        pass
