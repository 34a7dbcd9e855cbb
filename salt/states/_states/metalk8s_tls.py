"""Servers of the node, as their users see them: by TLS, with their certificates verified.

What a program says of its own health on the loopback interface is asked as the kubelet asks.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

PAUSE = 0.5  # seconds between two attempts
# Seconds. A pod is there when its image is unpacked: minutes on a slow disk or processor.
PATIENCE = 600
ANSWER = 5  # seconds for one


def answers(name: str, authority: str, timeout: int = PATIENCE) -> dict[str, Any]:
    """Wait until a server answers a request over HTTPS with success.

    :param name: the URL to read.
    :param authority: certificate of the CA that must have signed the server's.
    :param timeout: seconds.
    """
    attempt = functools.partial(_read, name, authority)
    return _wait(name, attempt, timeout, f"{name} answers", f"{name} does not answer")


def healthy(name: str, timeout: int = PATIENCE) -> dict[str, Any]:
    """Wait until a program of this machine says of itself that it is healthy.

    As with the kubelet's probes, its certificate is not verified: only this machine can answer.

    :param name: URL on the loopback interface, ``http`` or ``https``.
    :param timeout: seconds.
    """
    host = urllib.parse.urlsplit(name).hostname or ""
    if not ipaddress.ip_address(host).is_loopback:
        return _result(name, False, f"{host} is not on the loopback interface: name an authority")
    attempt = functools.partial(_read, name, "")
    return _wait(name, attempt, timeout, f"{name} is healthy", f"{name} is not healthy")


def accepted(
    name: str, authority: str, certificate: str, timeout: int = PATIENCE
) -> dict[str, Any]:
    """Wait until a server accepts a certificate, and has one of the same authority itself.

    :param name: IPv4 address and port of the server, with a colon between them.
    :param authority: certificate of the CA.
    :param certificate: the client's, without the suffix, ``.crt`` and ``.key``.
    :param timeout: seconds.
    """
    attempt = functools.partial(_shake_hands, name, authority, certificate)
    yes, no = (f"{name} {verb} {certificate}.crt" for verb in ("accepts", "does not accept"))
    return _wait(name, attempt, timeout, yes, no)


def _wait(
    name: str, attempt: Callable[[], None], timeout: int, yes: str, no: str
) -> dict[str, Any]:
    if __opts__["test"]:
        return _result(name, True, "Nothing is waited for in a test")
    until = time.monotonic() + timeout
    while True:
        try:
            attempt()
            return _result(name, True, yes)
        except OSError as error:  # of which those of urllib and ssl are kinds
            if time.monotonic() > until:
                return _result(name, False, f"{no} after {timeout} s: {error}")
        time.sleep(PAUSE)


def _read(url: str, authority: str) -> None:
    trust = ssl.create_default_context(cafile=authority or None)
    if not authority:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    own = urllib.request.ProxyHandler({})  # it is this machine, whatever the site's proxies
    tls = urllib.request.HTTPSHandler(context=trust)
    with urllib.request.build_opener(own, tls).open(url, timeout=ANSWER):
        pass


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
