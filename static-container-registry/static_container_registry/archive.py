r"""The part of the configuration that belongs to one archive.

A request travels in two steps. A ``rewrite`` of the server, one for a few hundred
names, recognises the repositories of this archive and moves the request into a space
of addresses that carries the archive's identity. There every manifest, blob and tag
list is an exact location, which nginx finds in a balanced tree without regular
expressions.

    /v2/pause/manifests/3.2  →  /static-container-registry/<id>/manifests/pause/3.2

Two archives never define the same location, even if both serve ``pause:3.2``; then the
one included first answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby

from .alternation import alternation, batches
from .grammar import has_placeholder, split_placeholders
from .image import Image
from .syntax import (
    API_VERSION,
    PLACEHOLDER_ROOM,
    ROOM,
    SPACE,
    VERBATIM,
    answer,
    block,
    compact,
    json_error,
    refuse_writes,
)

_MISSES = (
    ("manifests", "MANIFEST_UNKNOWN", "manifest unknown"),
    ("blobs", "BLOB_UNKNOWN", "blob unknown"),
    ("tags", "NAME_UNKNOWN", "repository name not known"),
)


def render_archive(images: tuple[Image, ...], prefix: str, root: str) -> str:
    """The configuration for sorted, checked images below a checked prefix and root."""
    space = f"{SPACE}/{_identity(images, prefix, root)}"
    marks = _placeholders(prefix) or _placeholders(root)  # tell two installations apart
    space += "".join(f"/{mark}" for mark in marks)
    lead = f"{prefix}/" if prefix else ""
    names = sorted({image.name for image in images})
    entries = {
        "manifests": _manifests(images, space, lead, root),
        "blobs": _blobs(images, space, lead, root),
        "tags": _tag_lists(images, space, lead),
    }
    kinds = [
        _kind(f"{space}/{kind}/", json_error(code, message), entries[kind])
        for kind, code, message in _MISSES
    ]
    return "\n".join([refuse_writes(), *_routes(names, space, lead), _catalog(names, lead), *kinds])


def _placeholders(text: str) -> list[str]:
    return [piece for piece, placeholder in split_placeholders(text) if placeholder]


def _identity(images: tuple[Image, ...], prefix: str, root: str) -> str:
    """32 digits that differ between archives which differ in anything."""
    return hashlib.sha256(repr((images, prefix, root)).encode()).hexdigest()[:32]


def _routes(names: list[str], space: str, lead: str) -> list[str]:
    """Rewrites that match this archive's names only, prefix and dots taken literally."""
    quoted = "".join(
        rf"\Q{text}\E" if placeholder else text.replace(".", r"\.")
        for text, placeholder in split_placeholders(lead)
    )
    return [
        rf'rewrite "^/v2/({quoted}{alternation(batch)})/(manifests|blobs|tags)/([^/?]*)\z" '
        f'"{space}/$2/$1/$3" last;'
        for batch in batches(names, ROOM // 2, extra=5)  # (?:|) around every tail at worst
    ]


def _catalog(names: list[str], lead: str) -> str:
    """Append to what archives included earlier have collected, or begin the list.

    The first archive renames the request, which is how later ones know.
    """
    extra = len(lead) + 3 + (PLACEHOLDER_ROOM if has_placeholder(lead) else 0)
    texts = [",".join(f'"{lead}{name}"' for name in batch) for batch in batches(names, ROOM, extra)]
    more = "$static_container_registry_names,"
    later = [_collect(more + text) for text in texts]
    first = [_collect(texts[0]), *later[1:], f"rewrite ^ {SPACE}/catalog;"]
    body = '{"repositories":[$static_container_registry_names]}'
    return "\n".join(
        [
            block(f"if ($uri = {SPACE}/catalog)", *later),
            block("if ($uri = /v2/_catalog)", *first),
            answer(f"location ~ ^{SPACE}/catalog$", 200, body),
        ]
    )


def _collect(text: str) -> str:
    return f"set $static_container_registry_names '{text}';"


def _kind(address: str, miss: str, entries: dict[str, str]) -> str:
    """The tree of one kind; what is not in it, or no longer on disk, is answered with a miss.

    nginx 1.22 sorts locations by insertion, a slash before all else: 20 000 of them in
    its own order load at once, in any other order in half a minute.
    """
    ordered = sorted(entries, key=lambda entry: entry.replace("/", "\0"))
    return block(
        f'location ^~ "{address}"',
        *VERBATIM,
        "default_type application/json;",
        API_VERSION,
        f'error_page 404 "{address}";',
        f"return 404 '{miss}';",
        *(block(f'location = "{entry}"', entries[entry]) for entry in ordered),
    )


def _file(path: str, media_type: str, hexdigits: str) -> str:
    return "\n".join(
        [
            f'alias "{path}";',
            f"default_type {media_type};",
            API_VERSION,
            f"add_header Docker-Content-Digest sha256:{hexdigits};",
        ]
    )


def _manifests(images: Iterable[Image], space: str, lead: str, root: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for image in images:
        address = f"{space}/manifests/{lead}{image.name}"
        path = f"{root}/{image.directory}/manifest.json"
        text = _file(path, image.media_type, image.manifest_hex)
        entries[f"{address}/{image.tag}"] = text
        entries.setdefault(f"{address}/sha256:{image.manifest_hex}", text)
    return entries


def _blobs(images: Iterable[Image], space: str, lead: str, root: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for image in images:
        for blob in image.blobs:
            path = f"{root}/{image.directory}/{blob.hex}"
            address = f"{space}/blobs/{lead}{image.name}/sha256:{blob.hex}"
            entries.setdefault(address, _file(path, "application/octet-stream", blob.hex))
    return entries


def _tag_lists(images: Iterable[Image], space: str, lead: str) -> dict[str, str]:
    return {
        f"{space}/tags/{lead}{name}/list": _tag_list(lead + name, [image.tag for image in group])
        for name, group in groupby(images, lambda image: image.name)
    }


def _tag_list(name: str, tags: list[str]) -> str:
    """Tags in the order of their bytes, as the distribution specification wants them."""
    texts = [compact(batch)[1:-1] for batch in batches(tags, ROOM, extra=3)]
    more = "$static_container_registry_tags,"
    sets = [
        f"set $static_container_registry_tags '{more if index else ''}{text}';"
        for index, text in enumerate(texts)
    ]
    body = f'{{"name":"{name}","tags":[$static_container_registry_tags]}}'
    return "\n".join([*sets, f"return 200 '{body}';"])
