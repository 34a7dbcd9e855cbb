"""Logins for registries, out of the files that Docker, Podman and skopeo keep.

Format: ``containers-auth.json(5)``, of which Docker's ``config.json`` is a part. Passwords are
never logged and have no place in a ``repr``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buildchain.core.errors import ConfigError
from buildchain.core.reference import Reference

# What a credential helper prints: (name of the helper, server address) to its output.
Helper = Callable[[str, str], str]
IDENTITY = "<token>"  # the user name that marks an identity token


@dataclass(frozen=True)
class Login:
    """A user's name with a password, or an identity token in its place."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode('ascii')}"


def standard_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where logins are looked for, the first that has one wins."""
    if named := environ.get("REGISTRY_AUTH_FILE"):
        return (Path(named).expanduser(),)
    home = Path(environ.get("HOME", "/"))
    runtime = environ.get("XDG_RUNTIME_DIR")
    return (
        *((Path(runtime) / "containers" / "auth.json",) if runtime else ()),
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json",
        Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    )


class Credentials:
    """The logins of this user.

    :param files: read when the first login is needed; those that do not exist are passed over.
    :param helper: runs a credential helper.
    """

    def __init__(self, files: tuple[Path, ...] = (), helper: Helper | None = None) -> None:
        self._files = files
        self._helper = helper

    def find(self, reference: Reference) -> Login | None:
        """Return the login for a repository.

        :raises ConfigError: a file is damaged; its content is not shown.
        """
        for path in self._files:
            document = _document(path)
            if document is None:
                continue
            try:
                found = self._in(document, reference)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise _damaged(path, f"no login of {reference.registry} can be read") from error
            if found is not None:
                return found
        return None

    def _in(self, document: Mapping[str, Any], reference: Reference) -> Login | None:
        helpers = document.get("credHelpers") or {}
        if name := helpers.get(reference.registry):
            return self._ask(name, reference.registry)
        entries = {_plain(key): value for key, value in (document.get("auths") or {}).items()}
        for key in _scopes(reference):
            login = _login(entries.get(key) or {})
            if login is not None:
                return login
        if name := document.get("credsStore"):
            return self._ask(name, reference.registry)
        return None

    def _ask(self, name: str, server: str) -> Login | None:
        if self._helper is None:
            return None
        answer = json.loads(self._helper(name, server) or "{}")
        if not answer.get("Secret"):
            return None
        if answer.get("Username") == IDENTITY:
            return Login(identity_token=answer["Secret"])
        return Login(answer.get("Username", ""), answer["Secret"])


def _document(path: Path) -> Mapping[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, f"cannot be read: {error.strerror}") from error
    except ValueError:
        # Without its cause: the message of a parser may show a part of a password.
        raise _damaged(path, "is not JSON") from None
    if not isinstance(document, dict):
        raise _damaged(path, "is not a JSON object")
    return document


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{path}: {what}", solution="Log in again (skopeo login) or correct REGISTRY_AUTH_FILE."
    )


def _plain(key: str) -> str:
    """Docker wrote keys as URLs once: ``https://host/v1/``."""
    scheme, separator, rest = key.partition("://")
    if not separator:
        return scheme
    host, _, path = rest.partition("/")
    path = path.strip("/")
    return f"{host}/{path}" if path not in ("", "v1", "v2") else host


def _scopes(reference: Reference) -> Iterator[str]:
    """Yield the keys that may hold the login, the closest first."""
    parts = [reference.registry, *reference.repository.split("/")]
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count])


def _login(entry: Mapping[str, str]) -> Login | None:
    if token := entry.get("identitytoken"):
        return Login(identity_token=token)
    if not entry.get("auth"):
        return None
    try:
        pair = base64.b64decode(entry["auth"], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("auth") from None
    user, separator, password = pair.partition(":")
    if not separator:
        raise ValueError("auth")
    return Login(user, password.rstrip("\0"))
