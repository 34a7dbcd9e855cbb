"""The Salt master, as the minion of this machine sees it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import yaml

ANSWER = 5  # seconds


def lets_in(configuration: Path, path: Callable[[str], Path]) -> bool:
    """Tell whether the master accepts the certificate of the minion, and has one to be trusted.

    :param configuration: the minion's, as ``salt-minion/files/minion.conf.j2`` makes it.
    :param path: gives the file that a path of the machine means.
    """
    try:
        # A Python of the medium has none, where the machine has no OpenSSL.
        import ssl

        minion = yaml.safe_load(configuration.read_text(encoding="utf-8"))
        address, port, tls = minion["master"], minion["master_port"], minion["ssl"]
        context = ssl.create_default_context(cafile=str(path(tls["ca_certs"])))
        # In a later one, a client's hands are shaken before the server has seen its certificate.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(str(path(tls["certfile"])), str(path(tls["keyfile"])))
        with (
            socket.create_connection((address, port), ANSWER) as stream,
            context.wrap_socket(stream, server_hostname=address),
        ):
            return True
    except (ImportError, KeyError, OSError, TypeError, ValueError, yaml.YAMLError):
        return False
