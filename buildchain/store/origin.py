"""Who is talked to, and the proxy on the way there.

``https_proxy``, ``http_proxy``, ``all_proxy``: lower case wins over upper case, as with curl.
``no_proxy`` lists hosts (with all below them), ``host:port``, addresses, networks or ``*``.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from buildchain.core.errors import ConfigError
from buildchain.store.failure import TransferError

PORTS = {"http": 80, "https": 443}
# Parsers agree on where such a host ends; on ``good\@bad`` they do not.
_PLACE = re.compile(r"[A-Za-z0-9._:\[\]-]+")


class Origin(NamedTuple):
    """Who is talked to."""

    scheme: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """``host[:port]`` as in a reference."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    def proxy(self, environ: Mapping[str, str]) -> str:
        """Return the address of the proxy, or empty to go straight there.

        :raises ConfigError: the variable holds no address of an HTTP proxy.
        """

        def told(name: str) -> str:
            return environ.get(name) or environ.get(name.upper()) or ""

        url = told(f"{self.scheme}_proxy") or told("all_proxy")
        exempt = told("no_proxy").lower().split(",")
        if not url or any(_matches(entry.strip(), self) for entry in exempt):
            return ""
        url = url if "://" in url else f"http://{url}"
        try:
            parts = urllib.parse.urlsplit(url)
            is_http = parts.scheme == "http" and parts.hostname and parts.port != 0
        except ValueError:
            is_http = False
        if not is_http:
            # The value is not shown: it may hold a password.
            raise ConfigError(f"{self.scheme}_proxy: expected http://[user:password@]host:port")
        return url


def origin_of(url: str) -> Origin:
    """Return who to ask for an address.

    :raises TransferError: it is not an HTTP address, or holds a login (which is not shown).
    """
    shown = url.rpartition("@")[2]
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError) as error:
        raise TransferError(f"{shown} is not an HTTP address", passing=False) from error
    if not parts.hostname or not _PLACE.fullmatch(parts.netloc):
        raise TransferError(f"{shown}: expected http[s]://host[:port], no login", passing=False)
    return Origin(parts.scheme, parts.hostname, port)


def joined(base: str, target: str) -> tuple[str, bool]:
    """Return where an address points from another one, and whether that is the same origin.

    :raises TransferError: it is not an HTTP address.
    """
    try:
        url = urllib.parse.urljoin(base, target)
    except ValueError as error:
        raise TransferError(f"{base} points at what is no address", passing=False) from error
    return url, origin_of(url) == origin_of(base)


def _matches(entry: str, origin: Origin) -> bool:
    """Not by requests: that knows fewer forms, and sets ``os.environ`` while threads read it."""
    if entry in ("", "*"):
        return entry == "*"
    try:
        return ipaddress.ip_address(origin.host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    name, separator, number = entry.rpartition(":")
    if separator and number.isdigit():
        if int(number) != origin.port:
            return False
        entry = name
    entry = entry.strip("[]").lstrip("*").lstrip(".")
    return origin.host == entry or origin.host.endswith(f".{entry}")
