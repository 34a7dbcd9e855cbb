"""Servers of the node, as their users see them: over HTTPS, with their certificate verified."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from typing import Any

PAUSE = 0.5  # seconds between two questions
ANSWER = 5  # seconds for one


def answers(name: str, authority: str, timeout: int = 120) -> dict[str, Any]:
    """Wait until a server answers with success.

    :param name: the URL to read.
    :param authority: certificate of the CA that must have signed the server's.
    :param timeout: seconds.
    """
    if __opts__["test"]:
        return _result(name, True, "Nothing is waited for in a test")
    until = time.monotonic() + timeout
    while True:
        try:
            trust = ssl.create_default_context(cafile=authority)
            own = urllib.request.ProxyHandler({})  # it is this machine, whatever the site's proxies
            tls = urllib.request.HTTPSHandler(context=trust)
            with urllib.request.build_opener(own, tls).open(name, timeout=ANSWER):
                return _result(name, True, f"{name} answers")
        except OSError as error:  # of which those of urllib and ssl are kinds
            if time.monotonic() > until:
                return _result(name, False, f"{name} does not answer after {timeout} s: {error}")
        time.sleep(PAUSE)


def _result(name: str, result: bool, comment: str) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": {}, "comment": comment}
