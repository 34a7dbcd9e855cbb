r"""The part of the configuration that belongs to one archive.

A request travels in three steps. A ``rewrite`` of the server, one for a few hundred names,
recognises the repositories of this archive and moves the request into a space of addresses
that carries the archive's identity. There a table (see ``table``) has every manifest, blob,
tag list and list of referrers by its address; what it says of them is what the third
location serves.

    /v2/pause/manifests/3.2  →  /static-container-registry/<id>/manifests/pause/3.2
                             →  …/<id>/=manifests  →  …/<id>/=manifest.oci

Two archives never define the same location, even if both serve ``pause:3.2``; then the
one included first answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby

from .alternation import alternation, batches, cost
from .grammar import DIGEST, has_placeholder, split_placeholders
from .manifest import DOCKER, DOCKER_LIST, OCI, OCI_INDEX, index
from .paging import LIST, paged
from .repository import Repository
from .syntax import (
    API_VERSION,
    JSON,
    PLACEHOLDER_ROOM,
    ROOM,
    SPACE,
    VARIABLE,
    answer,
    block,
    json_error,
    refuse_writes,
)
from .table import FIND, TABLE, parse_tables, render_table

_TYPES = {DOCKER: "docker", DOCKER_LIST: "docker-list", OCI: "oci", OCI_INDEX: "oci-index"}
_NAMES = f"{VARIABLE}_names"  # of the catalogue, with a comma behind each
_NAME, _HEX, _PATH, _TYPE, _KIND, _REFERENCE = (
    f"{VARIABLE}_{what}" for what in ("name", "hex", "path", "type", "kind", "reference")
)
_MISSES = {
    "manifests": json_error("MANIFEST_UNKNOWN", "manifest unknown"),
    "blobs": json_error("BLOB_UNKNOWN", "blob unknown"),
    "tags": json_error("NAME_UNKNOWN", "repository name not known"),
}
_FAILURES = (
    ("403", 403, json_error("DENIED", "the server may not read this file")),
    ("416", 416, json_error("SIZE_INVALID", "the range is not within the blob")),
    ("500 502 503 504", 500, json_error("UNKNOWN", "the server cannot read this file")),
)
# Small files: one read and one write each, of files that stay open for a moment. Each open one
# takes a descriptor of a worker's, which may have 1024 for everything.
_SMALL = ("sendfile off;", "open_file_cache max=100 inactive=20s;", "open_file_cache_valid 5s;")
# Large ones: read into a buffer that stays in the processor's cache, so that the client's copy out
# of it is quick. sendfile saves the server a copy and makes the client wait for cold memory.
_LARGE = ("sendfile off;", "output_buffers 1 256k;")


def render_archive(repositories: tuple[Repository, ...], prefix: str, root: str) -> str:
    """The configuration for sorted, checked repositories below a checked prefix and root."""
    space = f"{SPACE}/{_identity(repositories, prefix, root)}"
    marks = _placeholders(prefix) or _placeholders(root)  # tell two installations apart
    space += "".join(f"/{mark}" for mark in marks)
    lead = f"{prefix}/" if prefix else ""
    names = [repository.name for repository in repositories]
    tables = {
        "manifests": _manifests(repositories),
        "blobs": _blobs(repositories),
        "tags": _tags(repositories),
        "referrers": _referrers(repositories),
    }
    inside = block(
        f'location ^~ "{space}/"',
        "internal;",
        *JSON,
        *(
            render_table(f"{space}/{kind}/", entries, f"{space}/={kind}")
            for kind, entries in tables.items()
        ),
        *_services(space, lead, root),
        *_errors(space),
    )
    return "\n".join([refuse_writes(), *_routes(names, space, lead), _catalog(names, lead), inside])


def served(text: str) -> frozenset[str]:
    """Return the files that a configuration serves, relative to the roots of its archives."""
    tables = parse_tables(text)
    manifests = (value.split(" ", 2)[2] for value in tables.get("manifests", {}).values())
    blobs = (
        f"{folder}/{key.rpartition(':')[2]}" for key, folder in tables.get("blobs", {}).items()
    )
    return frozenset((*manifests, *blobs))


def _placeholders(text: str) -> list[str]:
    return [piece for piece, placeholder in split_placeholders(text) if placeholder]


def _identity(repositories: tuple[Repository, ...], prefix: str, root: str) -> str:
    """32 digits that differ between archives which differ in anything."""
    return hashlib.sha256(repr((repositories, prefix, root)).encode()).hexdigest()[:32]


def _routes(names: list[str], space: str, lead: str) -> list[str]:
    """Rewrites that match this archive's names only, prefix and dots taken literally."""
    quoted = "".join(
        rf"\Q{text}\E" if placeholder else text.replace(".", r"\.")
        for text, placeholder in split_placeholders(lead)
    )
    return [
        rf'rewrite "^/v2/{quoted}(?<{_NAME[1:]}>{alternation(batch)})'
        rf"/(?<{_KIND[1:]}>manifests|blobs|tags|referrers)"
        rf'/(?<{_REFERENCE[1:]}>[A-Za-z0-9._:+=-]+)\z" '
        f'"{space}/{_KIND}/{_NAME}/{_REFERENCE}" last;'
        for batch in batches(names, ROOM, cost)
    ]


def _catalog(names: list[str], lead: str) -> str:
    """Append to what archives included earlier have collected, or begin the list.

    The first archive renames the request, which is how later ones know.
    """
    extra = len(lead) + 3 + (PLACEHOLDER_ROOM if has_placeholder(lead) else 0)
    runs = batches(names, ROOM, lambda _, name: len(name) + extra)
    texts = ["".join(f'"{lead}{name}",' for name in run) for run in runs]
    later = [f"set {_NAMES} '{_NAMES}{text}';" for text in texts]
    first = [f"set {_NAMES} '{texts[0]}';", *later[1:], f"rewrite ^ {SPACE}/catalog;"]
    return "\n".join(
        [
            block(f"if ($uri = {SPACE}/catalog)", *later),
            block("if ($uri = /v2/_catalog)", *first),
            block(
                f"location ~ ^{SPACE}/catalog$",
                *JSON,
                f"set {LIST} {_NAMES};",
                *paged("/v2/_catalog", '{"repositories":[', "]}"),
            ),
        ]
    )


def _services(space: str, lead: str, root: str) -> list[str]:
    """Look entries up in the table, and serve what it says."""
    digest = f'add_header Docker-Content-Digest "sha256:{_HEX}";'
    name = f"{lead}{_NAME}"
    hexdigits = f"(?<{_HEX[1:]}>[0-9a-f]{{64}})"
    return [
        block(
            r'location ~ "/=manifests\z"',
            _unless(
                rf"{FIND}{hexdigits} (?<{_TYPE[1:]}>[a-z-]+) (?<{_PATH[1:]}>[^;]+);", "manifests"
            ),
            f'rewrite ^ "{space}/=manifest.{_TYPE}" last;',
        ),
        block(
            r'location ~ "/=manifest\.[a-z-]+\z"',
            block("types", *(f"{media_type} {short};" for media_type, short in _TYPES.items())),
            *_SMALL,
            *_failures(space, "manifests"),
            API_VERSION,
            digest,
            f'alias "{root}/{_PATH}";',
        ),
        block(
            r'location ~ "/=blobs\z"',
            _unless(
                rf"{FIND.replace('^([^ ;]+) ', f'^([^ ;]+:{hexdigits}) ')}"
                rf"(?<{_PATH[1:]}>[^;]+);",
                "blobs",
            ),
            f'rewrite ^ "{space}/=blob" last;',
        ),
        block(
            r'location ~ "/=blob\z"',
            "default_type application/octet-stream;",
            *_LARGE,
            *_failures(space, "blobs"),
            API_VERSION,
            digest,
            f'alias "{root}/{_PATH}/{_HEX}";',
        ),
        block(
            r'location ~ "/=tags\z"',
            API_VERSION,
            _unless(rf"{FIND}(?<{LIST[1:]}>[^;]*);", "tags"),
            *paged(f"/v2/{name}/tags/list", f'{{"name":"{name}","tags":[', "]}"),
        ),
        block(
            r'location ~ "/=referrers\z"',
            f"default_type {OCI_INDEX};",
            f"set {LIST} '';",
            block(f'if ({_REFERENCE} !~ "{DIGEST}")', f'rewrite ^ "{space}/=digest" last;'),
            block(f'if ({TABLE} ~ "{FIND}(?<{LIST[1:]}>[^;]*);")', "# sets the list"),
            f"return 200 '{index(LIST)}';",
        ),
    ]


def _unless(pattern: str, kind: str) -> str:
    return block(f'if ({TABLE} !~ "{pattern}")', f"return 404 '{_MISSES[kind]}';")


def _failures(space: str, kind: str) -> list[str]:
    """Where nginx goes when a file is gone from the disk, cannot be read, or is too short."""
    return [
        f'error_page 404 "{space}/=no-{kind}";',
        *(f'error_page {codes} "{space}/={status}";' for codes, status, _ in _FAILURES),
    ]


def _errors(space: str) -> list[str]:
    wrong = json_error("DIGEST_INVALID", "not a digest")
    return [
        *(answer(f'location = "{space}/=no-{kind}"', 404, body) for kind, body in _MISSES.items()),
        *(answer(f'location = "{space}/={status}"', status, body) for _, status, body in _FAILURES),
        answer(f'location = "{space}/=digest"', 400, wrong),
    ]


def _manifests(repositories: Iterable[Repository]) -> dict[str, str]:
    entries: dict[str, str] = {}
    for repository in repositories:
        values = {
            document.hex: f"{document.hex} {_TYPES[document.media_type]} {document.path}"
            for document in repository.documents
        }
        for digits, value in values.items():
            entries[f"{repository.name}/sha256:{digits}"] = value
        for tag in repository.tags:
            entries[f"{repository.name}/{tag.name}"] = values[tag.hex]
    return entries


def _blobs(repositories: Iterable[Repository]) -> dict[str, str]:
    return {
        f"{repository.name}/sha256:{blob.hex}": blob.folder
        for repository in repositories
        for blob in repository.blobs
    }


def _tags(repositories: Iterable[Repository]) -> dict[str, str]:
    """Tags in the order of their bytes, as the distribution specification wants them."""
    return {
        f"{repository.name}/list": "".join(f'"{tag.name}",' for tag in sorted(repository.tags))
        for repository in repositories
    }


def _referrers(repositories: Iterable[Repository]) -> dict[str, str]:
    return {
        f"{repository.name}/sha256:{subject}": ",".join(one.descriptor for one in group)
        for repository in repositories
        for subject, group in groupby(repository.referrers, lambda one: one.subject)
    }
