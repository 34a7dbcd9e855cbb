"""Certificate and key of a Secret, as HAProxy reads them."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metalk8s_ingress.model import Pem, Unusable

KIND = "kubernetes.io/tls"
LONGEST = 65536  # characters of a Secret's certificates and key together
# Without two parts beside each other that take the same character: the time would be the cube of
# the length.
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s([A-Za-z0-9+/=\s]+)-----END \1-----", re.ASCII)
_KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY")


def read(secret: Mapping[str, Any], folder: Path | None = None) -> Pem | Unusable:
    """Return a chain and its key in one text, or why they are none.

    :param folder: where the text may be for a moment: OpenSSL reads files only.
    """
    if secret.get("type") != KIND:
        return Unusable(f"its type is {str(secret.get('type'))[:64]!r}, expected {KIND}")
    data = secret.get("data") or {}
    try:
        chain, key = (
            base64.b64decode(data[name], validate=True).decode("ascii")
            for name in ("tls.crt", "tls.key")
        )
    except (KeyError, binascii.Error, UnicodeDecodeError, TypeError):
        return Unusable("it lacks tls.crt or tls.key, or they are no PEM")
    if len(chain) + len(key) > LONGEST:
        return Unusable(f"tls.crt and tls.key have more than {LONGEST} characters")
    found = [_blocks(chain, ("CERTIFICATE",)), _blocks(key, _KEYS)]
    if not found[0] or len(found[1]) != 1:
        return Unusable(
            "expected certificates in tls.crt and one key without a password in tls.key"
        )
    text = "".join(found[0] + found[1])
    problem = _problem(text, folder)
    return Unusable(problem) if problem else text


def _blocks(text: str, labels: tuple[str, ...]) -> list[str]:
    """Return what is between the marks, without empty lines, which end a text for HAProxy."""
    return [
        "\n".join((f"-----BEGIN {label}-----", *body.split(), f"-----END {label}-----", ""))
        for label, body in _BLOCK.findall(text)
        if label in labels
    ]


def _problem(text: str, folder: Path | None) -> str:
    """Let OpenSSL read it, as HAProxy will."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", dir=folder, encoding="ascii") as file:
        file.write(text)
        file.flush()
        try:
            # Without the function, OpenSSL would ask the terminal.
            context.load_cert_chain(file.name, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            return f"certificate and key are refused: {reason}"
    return ""
