"""The little of nginx's and JSON's syntax that the generated text needs.

nginx refuses a word longer than 4096 bytes, which bounds every list written below.
"""

from __future__ import annotations

import json
import re

API_VERSION = "add_header Docker-Distribution-Api-Version registry/2.0 always;"
ROOM = 3000  # characters of a list per word, leaving the rest of the 4096 to its frame
PLACEHOLDER_ROOM = 255  # characters a placeholder is expected to grow to
SPACE = "/static-container-registry"  # internal addresses begin with it, no client's does
VARIABLE = "$static_registry"  # all of ours begin with it; PCRE takes names of 32 characters

# A server's own settings must not reach manifests and blobs: a character set would change
# the media type, compression the bytes that were hashed.
VERBATIM = ("types { }", "charset off;", "gzip off;")
JSON = (*VERBATIM, "default_type application/json;", API_VERSION)
_SPECIAL = re.compile(r"[$';]|\{(?=[{%#])")


def block(head: str, *lines: str) -> str:
    """A directive with a body, its lines indented."""
    body = "\n".join(lines).splitlines()
    return "\n".join([f"{head} {{", *(f"    {line}" for line in body), "}"])


def json_error(code: str, message: str) -> str:
    """An error body, OCI distribution specification, "Error Codes"."""
    return compact({"errors": [{"code": code, "message": message}]})


def compact(value: object) -> str:
    r"""JSON in ASCII without spaces and without what nginx, a table or Jinja would read.

    ``$`` for instance becomes ``\u0024``: nginx has no other way to write it. What is replaced
    is never part of JSON itself, only of its texts.
    """
    text = json.dumps(value, separators=(",", ":"))
    return _SPECIAL.sub(lambda found: rf"\u{ord(found.group()):04x}", text)


def quoted(text: str) -> str:
    """A word of nginx that means this text, which has no ``'`` in it."""
    return "'{}'".format(text.replace("\\", "\\\\"))


def answer(head: str, status: int, body: str, media_type: str = "application/json") -> str:
    """A location with a fixed JSON body."""
    kind = f"default_type {media_type};"
    return block(head, *VERBATIM, kind, API_VERSION, f"return {status} '{body}';")


def refuse_writes() -> str:
    """Send every method but GET and HEAD to an UNSUPPORTED error.

    It may stand in one server any number of times: regular expressions may repeat
    where exact locations may not.
    """
    guard = block(
        'if ($request_method !~ "^(?:GET|HEAD)$")', f"rewrite ^/v2(?:/|$) {SPACE}/write last;"
    )
    location = block(
        f"location ~ ^{SPACE}/write$",
        *JSON,
        'add_header Allow "GET, HEAD" always;',
        f"return 405 '{json_error('UNSUPPORTED', 'this registry is read-only')}';",
    )
    return f"{guard}\n{location}"
