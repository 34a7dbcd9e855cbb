"""Proxies out of the usual variables: ``https_proxy``, ``http_proxy``, ``all_proxy``, ``no_proxy``.

Lower case wins over upper case, as with curl. ``no_proxy`` lists hosts (with all below them),
``host:port``, addresses, networks (``10.0.0.0/8``) or ``*``.
"""

from __future__ import annotations

import base64
import ipaddress
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from buildchain.core.errors import ConfigError


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy and what it wants to know of us."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def choose(environ: Mapping[str, str], scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy for an address, or ``None`` to go straight there.

    :raises ConfigError: the variable holds no address of an HTTP proxy.
    """
    name = f"{scheme}_proxy"
    url = _variable(environ, name) or _variable(environ, "all_proxy")
    if not url or _is_exempt(_variable(environ, "no_proxy"), host, port):
        return None
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        found_port = parts.port or 80
    except ValueError:
        parts, found_port = urllib.parse.urlsplit(""), 0
    if parts.scheme != "http" or not parts.hostname:
        # The value is not shown: it may hold a password.
        raise ConfigError(f"{name}: expected http://[user:password@]host:port")
    headers = {}
    if parts.username is not None:
        user, password = (urllib.parse.unquote(p or "") for p in (parts.username, parts.password))
        pair = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        headers["Proxy-Authorization"] = f"Basic {pair}"
    return Proxy(parts.hostname, found_port, headers)


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_exempt(no_proxy: str, host: str, port: int) -> bool:
    return any(_matches(entry, host.lower(), port) for entry in no_proxy.lower().split(","))


def _matches(entry: str, host: str, port: int) -> bool:
    entry = entry.strip()
    if entry in ("", "*"):
        return entry == "*"
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    name, separator, number = entry.rpartition(":")
    if separator and number.isdigit():
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]").lstrip("*").lstrip(".")
    return host == entry or host.endswith(f".{entry}")
