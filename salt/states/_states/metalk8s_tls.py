"""Servers that know their clients by certificates, as a client of theirs sees them."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any

PAUSE = 0.5  # seconds between two attempts
ANSWER = 5  # seconds for one


def accepted(name: str, authority: str, certificate: str, timeout: int = 120) -> dict[str, Any]:
    """Wait until a server accepts a certificate, and has one of the same authority itself.

    :param name: IPv4 address and port of the server, with a colon between them.
    :param authority: certificate of the CA.
    :param certificate: the client's, without the suffix, ``.crt`` and ``.key``.
    :param timeout: seconds.
    """
    if __opts__["test"]:
        return _result(name, True, "Nothing is waited for in a test")
    until = time.monotonic() + timeout
    while True:
        try:
            _shake_hands(name, authority, certificate)
            return _result(name, True, f"{name} accepts {certificate}.crt")
        except OSError as error:  # of which those of ssl are kinds
            if time.monotonic() > until:
                comment = f"{name} does not accept {certificate}.crt after {timeout} s: {error}"
                return _result(name, False, comment)
        time.sleep(PAUSE)


def _shake_hands(name: str, authority: str, certificate: str) -> None:
    address, _, port = name.rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    # In a later one, a client's hands are shaken before the server has seen its certificate.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    with (
        socket.create_connection((address, int(port)), ANSWER) as stream,
        context.wrap_socket(stream, server_hostname=address),
    ):
        pass


def _result(name: str, result: bool, comment: str) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": {}, "comment": comment}
