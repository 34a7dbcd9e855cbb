"""How registries want to know who asks: Basic, and Bearer tokens with scopes.

Formats: RFC 9110 section 11.6.1 (challenges); the distribution project's token authentication
specification, with OAuth2 for identity tokens.

A login goes to the registry that it is for and to the realm that this registry itself named. A
challenge from anybody else (the target of a redirection, CVE-2020-15157) never comes here.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from buildchain.core.reference import Reference
from buildchain.store.credentials import Credentials, Login
from buildchain.store.failure import PASSING, TransferError, requested_pause
from buildchain.store.origin import Origin, origin_of

if TYPE_CHECKING:
    from buildchain.store.transport import Transport

LIFETIME = 60.0  # seconds of a token that does not say, by the specification
EARLY = 10.0  # seconds before its end that a token is replaced
CLIENT = "metalk8s-buildchain"
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - a grammar, no secret
# What may stand in a header.
_OPAQUE = re.compile(r"[!-~]+")
_SCHEME = re.compile(rf"\s*,*\s*({_TOKEN})(?:\s+|$|(?=,))")
_PARAMETER = re.compile(rf'\s*,*\s*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))\s*(?:,|$)')


@dataclass(frozen=True)
class Challenge:
    """One way to log in that a server offers; scheme and parameter names in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def challenges(headers: Iterable[str]) -> list[Challenge]:
    """Read ``WWW-Authenticate`` headers; what cannot be read ends the list."""
    found = []
    for text in headers:
        position = 0
        while match := _SCHEME.match(text, position):
            position = match.end()
            parameters = {}
            while pair := _PARAMETER.match(text, position):
                position = pair.end()
                quoted = re.sub(r"\\(.)", r"\1", pair[2]) if pair[2] is not None else pair[3]
                parameters[pair[1].lower()] = quoted
            found.append(Challenge(match[1].lower(), parameters))
    return found


# Whom it is sent to, for which repository.
_Key = tuple[Origin, str]


@dataclass
class _Grant:
    """What is sent with requests for a repository, until when (monotonic seconds)."""

    header: str = field(repr=False)
    until: float


class Authenticator:
    """Finds out what to send to whom; shared by threads.

    A registry that asked for tokens once gets the next repository's token asked for at once.
    """

    def __init__(self, transport: Transport, credentials: Credentials) -> None:
        self._transport = transport
        self._credentials = credentials
        self._grants: dict[_Key, _Grant] = {}
        self._known: dict[Origin, Challenge] = {}
        self._locks: dict[_Key, threading.Lock] = {}
        self._guard = threading.Lock()

    def headers(self, origin: Origin, reference: Reference) -> dict[str, str]:
        """Return what to send to a registry for a repository, as far as it is known."""
        known = self._known.get(origin)
        with self._lock(origin, reference):
            grant = self._grants.get((origin, reference.repository))
            if known is not None and (grant is None or grant.until < time.monotonic()):
                grant = self._grant(origin, reference, known)
        return {"Authorization": grant.header} if grant is not None else {}

    def renew(
        self, origin: Origin, reference: Reference, refused: str, offered: Iterable[str]
    ) -> None:
        """Get something better than what was refused (an ``Authorization`` value, or empty).

        :param offered: challenges of ``origin`` itself.
        :raises TransferError: the registry is not content with what we have.
        """
        known = next((c for c in challenges(offered) if c.scheme in ("bearer", "basic")), None)
        if known is None:
            raise TransferError(
                f"{reference.registry} denied access and offered no authentication method",
                passing=False,
            )
        with self._lock(origin, reference):
            grant = self._grants.get((origin, reference.repository))
            if grant is not None and grant.header != refused:
                return  # somebody else was quicker
            if refused.startswith("Basic "):
                raise _denied(reference, "does not accept the login")
            self._grant(origin, reference, known)
        self._known[origin] = known

    def _lock(self, origin: Origin, reference: Reference) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault((origin, reference.repository), threading.Lock())

    def _grant(self, origin: Origin, reference: Reference, challenge: Challenge) -> _Grant:
        login = self._credentials.find(reference)
        if challenge.scheme == "basic":
            if login is None or not login.user:
                raise _denied(reference, "wants a login and there is none")
            grant = _Grant(login.basic, float("inf"))
        else:
            _check_realm(origin, challenge.parameters.get("realm", ""))
            grant = self._token(reference, challenge.parameters, login)
        self._grants[origin, reference.repository] = grant
        return grant

    def _token(
        self, reference: Reference, parameters: Mapping[str, str], login: Login | None
    ) -> _Grant:
        realm = parameters.get("realm", "")
        query = {"scope": f"repository:{reference.repository}:pull"}
        if service := parameters.get("service"):
            query["service"] = service
        if login is not None and login.identity_token:
            form = {**query, "grant_type": "refresh_token", "client_id": CLIENT,
                    "refresh_token": login.identity_token}  # fmt: skip
            body = urllib.parse.urlencode(form).encode()
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            content = self._ask(reference, "POST", realm, kind, body)
        else:
            separator = "&" if "?" in realm else "?"
            url = f"{realm}{separator}{urllib.parse.urlencode(query)}"
            headers = {"Authorization": login.basic} if login is not None else {}
            content = self._ask(reference, "GET", url, headers)
        try:
            document = json.loads(content)
            token = document.get("token") or document["access_token"]
            lifetime = float(document.get("expires_in") or LIFETIME)
            if not _OPAQUE.fullmatch(token):
                raise ValueError("token")
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TransferError(f"{realm} gave no token", passing=True) from None
        return _Grant(f"Bearer {token}", time.monotonic() + max(lifetime - EARLY, lifetime / 2))

    def _ask(
        self, reference: Reference, method: str, url: str, headers: dict[str, str],
        body: bytes | None = None,
    ) -> bytes:  # fmt: skip
        with self._transport.open(method, url, headers, body) as answer:
            content = answer.read()
        if answer.status in (400, 401, 403):
            raise _denied(reference, "gives no token for it")
        if answer.status != 200:
            raise TransferError(
                f"{answer.origin.name} answers {answer.status} when asked for a token",
                passing=answer.status in PASSING,
                after=requested_pause(answer.headers.get("Retry-After")),
            )
        return content


def _check_realm(origin: Origin, realm: str) -> None:
    """Refuse to buy a token in the clear for a registry that is talked to with TLS.

    Whether a realm without TLS is allowed at all, for a registry without it, is the transport's.

    :raises TransferError: it is not an HTTP address, or a downgrade.
    """
    if origin_of(realm).scheme != "https" and origin.scheme == "https":
        raise TransferError(
            f"{origin.name} wants the login for it sent to {realm}, without TLS", passing=False
        )


def _denied(reference: Reference, what: str) -> TransferError:
    return TransferError(
        f"{reference.registry} {what} ({reference.repository}); log in with skopeo login, or point "
        "REGISTRY_AUTH_FILE at the file that has the login",
        passing=False,
    )
