"""Ask servers over TLS, several questions at a time: JSON on standard input and on standard output.

Runs on a machine of the test bed. A question has ``server`` (address:port) and ``path``, and may
have ``method``, ``headers``, ``body``, ``certificate`` and ``key`` (paths). Its answer has
``status``, 0 where the server does not take the certificate, and ``body``. Servers are believed:
it is about who asks.
"""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import ssl
import sys
import threading
from typing import Any

AT_ONCE = 8
PATIENCE = 30.0  # seconds
OWN = threading.local()  # connections of a thread, by server and certificate


def connection(question: dict[str, Any]) -> http.client.HTTPSConnection:
    """Give the connection for a question: there are more questions than connections."""
    known: dict[tuple[str, str], http.client.HTTPSConnection]
    known = OWN.__dict__.setdefault("known", {})
    server, certificate = question["server"], question.get("certificate", "")
    if (server, certificate) not in known:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(certificate, question["key"])
        made = http.client.HTTPSConnection(server, timeout=PATIENCE, context=context)
        known[(server, certificate)] = made
    return known[(server, certificate)]


def ask(question: dict[str, Any]) -> dict[str, Any]:
    """Ask one of them."""
    opened = connection(question)
    headers = {"Content-Type": "application/json", **question.get("headers", {})}
    text = json.dumps(question["body"]) if "body" in question else None
    try:
        opened.request(question.get("method", "GET"), question["path"], text, headers)
        answer = opened.getresponse()
        return {"status": answer.status, "body": answer.read().decode("utf-8", "replace")}
    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected) as error:
        opened.close()  # the next question opens it again
        return {"status": 0, "body": str(error)}


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        json.dump(list(pool.map(ask, json.load(sys.stdin))), sys.stdout)
