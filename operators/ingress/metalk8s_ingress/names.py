"""What may stand in a file of HAProxy's. Everything else is refused here, before it gets there."""

from __future__ import annotations

import hashlib
import re

ANY = "*"  # in place of a host
HOST_LENGTH, PATH_LENGTH = 253, 1024
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.ASCII)
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
# RFC 3986, 3.3: what a path of a request can have.
_PATH = re.compile(r"/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_STEPS = re.compile(r"//|/\.{1,2}(/|$)", re.ASCII)


def is_host(text: str) -> bool:
    """Tell whether a request can name this host, or ``*.`` stands for one label of it."""
    return len(text) <= HOST_LENGTH and _HOST.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Tell whether a request can have this path, and nobody else reads it as another one."""
    return (
        len(text) <= PATH_LENGTH
        and _PATH.fullmatch(text) is not None
        and _STEPS.search(text) is None
    )


def is_object(text: str) -> bool:
    """Tell whether the API lets an object have this name."""
    return _OBJECT.fullmatch(text) is not None


def exact(host: str, path: str) -> str:
    """Return what a request for just this path is looked up by."""
    return f"{host or ANY}{path}"


def prefix(host: str, path: str) -> str:
    """Return what it begins with when it has all elements of a path, however that ends."""
    return f"{host or ANY}{path.rstrip('/')}/"


def backend(namespace: str, service: str, port: int | str, choices: object) -> str:
    """Return what HAProxy calls a Service's port, for the same choices of Ingresses."""
    digest = hashlib.sha256(repr((namespace, service, port, choices)).encode()).hexdigest()
    return f"{namespace}_{service}_{port}_{digest[:10]}"
