"""Where images come from: their registries, mirrors of these, and how to talk to both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from buildchain.core.reference import Reference
from buildchain.store.authentication import Authenticator
from buildchain.store.credentials import Credentials, Helper, standard_files
from buildchain.store.origin import origin_of
from buildchain.store.registry import Endpoint, Registry


@dataclass(frozen=True)
class Mirror:
    """Another place for a registry's repositories.

    :param registry: whose.
    :param base: ``http[s]://host[:port]``; plain HTTP is allowed by saying so here.
    :param prefix: of the repositories there, or empty.
    """

    registry: str
    base: str
    prefix: str = ""


def parse_mirror(text: str) -> Mirror:
    """Read ``registry=http[s]://host[:port][/prefix]``.

    :raises ValueError: it is something else; the text says what is expected.
    """
    registry, separator, url = text.partition("=")
    scheme, _, rest = url.partition("://")
    host, _, prefix = rest.rstrip("/").partition("/")
    if not (registry and separator and host) or scheme not in ("http", "https") or "@" in host:
        raise ValueError("registry=http[s]://host[:port][/prefix]")
    return Mirror(registry, f"{scheme}://{host}", prefix)


@dataclass(frozen=True)
class Access:
    """What a user set.

    :param plain_http: registries that are talked to without TLS.
    :param environ: for proxies and for where logins are.
    :param helper: runs a credential helper.
    """

    plain_http: tuple[str, ...] = ()
    mirrors: tuple[Mirror, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    helper: Helper | None = None


class Sources:
    """Open connections to registries; a context manager that ends them."""

    def __init__(self, access: Access) -> None:
        # Late: it stands on requests, which nobody else needs.
        from buildchain.store.transport import Transport

        self._access = access
        named = [m.base.removeprefix("http://") for m in access.mirrors if m.base[:5] == "http:"]
        self._transport = Transport(plain_http=[*access.plain_http, *named], environ=access.environ)
        credentials = Credentials(standard_files(access.environ), access.helper)
        self._authenticator = Authenticator(self._transport, credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transport.close()

    def registry(self, stopped: Callable[[], bool]) -> Registry:
        """Return a client that breaks off when told to."""
        return Registry(self._transport, self._authenticator, stopped)

    def endpoints(self, reference: Reference) -> tuple[Endpoint, ...]:
        """Return where a repository can be had: mirrors as they were given, then its registry."""
        places = []
        for mirror in self._access.mirrors:
            if mirror.registry == reference.registry:
                path = f"{mirror.prefix}/{reference.repository}".lstrip("/")
                there = replace(reference, registry=origin_of(mirror.base).name, repository=path)
                places.append(Endpoint(mirror.base, there))
        plain = reference.registry in self._access.plain_http
        base = f"{'http' if plain else 'https'}://{reference.registry}"
        return (*places, Endpoint(base, reference))
