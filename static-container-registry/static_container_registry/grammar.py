"""The words a registry URL is made of, and the two options that may hold placeholders.

Names and tags follow the OCI distribution specification, "Pulling manifests". A
placeholder is a Jinja expression (``{{ repository }}``) that whoever installs the
archive replaces, so nothing is known here about its value.
"""

from __future__ import annotations

import re

from .errors import OptionError

NAME_LENGTH = 255  # characters, prefix included; clients refuse more
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:([a-f0-9]{64})")
# For nginx. Image specification, "Digests": any algorithm, registered ones with their length.
DIGEST = (
    r"^(?:sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128}|(?!sha(?:256|512):)"
    r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]+)\z"
)
_PLACEHOLDER = re.compile(r"\{\{[^{}\x00-\x1f\x7f]+\}\}")
_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f"\\${}]')


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of a repository."""
    return len(text) <= NAME_LENGTH and _NAME.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Whether ``text`` can be a tag."""
    return _TAG.fullmatch(text) is not None


def hex_of_digest(text: str) -> str | None:
    """The 64 digits of a ``sha256:`` digest, or None if it is anything else."""
    match = _DIGEST.fullmatch(text)
    return match.group(1) if match else None


def has_placeholder(text: str) -> bool:
    """Whether the value is completed only where the archive is installed."""
    return _PLACEHOLDER.search(text) is not None


def split_placeholders(text: str) -> list[tuple[str, bool]]:
    """Cut into pieces, each with True for a placeholder and False for plain text."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        pieces += [(text[end : match.start()], False), (match.group(), True)]
        end = match.end()
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]]


def require_name_prefix(text: str) -> str:
    """Return the prefix without outer slashes; an empty one means bare names.

    :raises OptionError: what is not a placeholder does not fit the grammar of names.
    """
    prefix = text.strip("/")
    if prefix and not is_name(_PLACEHOLDER.sub("x", prefix)):
        raise OptionError(
            f"--name-prefix {text!r} cannot start the name of a repository",
            "use lower-case letters, digits and single . _ - between them, parts separated "
            "by /, or a placeholder such as '{{ repository }}'",
        )
    return prefix


def require_server_root(text: str) -> str:
    """Return the directory nginx finds the tree in, without a slash at the end.

    :raises OptionError: it is relative, or nginx would read something else out of it.
    """
    variable = _VARIABLE.match(text)
    tail = _PLACEHOLDER.sub("x", text[variable.end() :] if variable else text)
    absolute = variable or text.startswith("/") or _PLACEHOLDER.match(text)
    whole = not variable or tail == "" or tail.startswith("/")
    if not absolute or not whole or _UNQUOTABLE.search(tail):
        raise OptionError(
            f"--server-root {text!r} cannot be written into nginx configuration",
            "use an absolute path without quotes, backslashes, braces or $; or start it with "
            "an nginx variable such as $registry_root or a placeholder such as "
            "'{{ registry_root }}'",
        )
    return text.rstrip("/")
