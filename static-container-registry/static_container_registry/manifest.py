"""Manifests: Docker v2 schema 2 and OCI, of one image and of several (an index).

Both families have the same shape. An OCI document may leave out ``mediaType`` (OCI image
specification, "Image Manifest Property Descriptions"), a Docker one may not, so one
without it is OCI.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from .grammar import hex_of_digest
from .syntax import compact

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
INDEXES = (DOCKER_LIST, OCI_INDEX)
SERVED = (DOCKER, OCI, *INDEXES)
MAX_SIZE = 4 * 1024 * 1024  # bytes; the distribution specification lets clients refuse more
REF_NAME = "org.opencontainers.image.ref.name"
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+"


class ManifestError(ValueError):
    """The bytes are not a manifest that can be served; the message says why."""


@dataclass(frozen=True)
class Descriptor:
    """What a document says of another one or of a blob."""

    media_type: str
    hex: str  # SHA-256
    size: int  # bytes
    name: str = ""  # org.opencontainers.image.ref.name, in the index of an OCI layout


@dataclass(frozen=True)
class Manifest:
    """What has to be known of a manifest or an index in order to serve it."""

    media_type: str
    hex: str  # SHA-256 of the bytes it was parsed from
    size: int
    children: tuple[Descriptor, ...]  # manifests below an index
    blobs: tuple[Descriptor, ...]  # config first, then layers, each once
    subject: str | None  # SHA-256 of what it refers to
    descriptor: str  # of itself, as a list of referrers shows it


def parse(content: bytes) -> Manifest:
    """Read a manifest or index from its exact bytes.

    :raises ManifestError: it is too large, broken, or of a kind not served.
    """
    fields = read(content)
    media_type = _media_type(fields)
    if media_type in INDEXES:
        below = _list(fields, "manifests", "manifest")
    else:
        below = [_descriptor(fields.get("config"), "config"), *_list(fields, "layers", "layer")]
    unique = tuple({one.hex: one for one in below}.values())
    if any(one.size != other.size for one in below for other in unique if one.hex == other.hex):
        raise ManifestError("manifest gives one digest two different sizes")
    for one in unique:
        if media_type in INDEXES and one.media_type.startswith(_SCHEMA_1):
            raise ManifestError("a schema 1 manifest is part of it, which is not served")
    children = tuple(one for one in unique if media_type in INDEXES and one.media_type in SERVED)
    subject = fields.get("subject")
    digest = hashlib.sha256(content).hexdigest()
    return Manifest(
        media_type,
        digest,
        len(content),
        children,
        tuple(one for one in unique if one not in children),
        None if subject is None else _descriptor(subject, "subject").hex,
        _as_referrer(fields, media_type, digest, len(content)),
    )


def parse_layout(content: bytes) -> tuple[Descriptor, ...]:
    """Read the ``index.json`` of an OCI layout: each entry once, names as given.

    :raises ManifestError: it is broken, or an entry is of a kind not served.
    """
    entries = _list(read(content), "manifests", "manifest")
    for entry in entries:
        if entry.media_type not in SERVED:
            raise ManifestError(f"unsupported media type: {entry.media_type}")
    return tuple(dict.fromkeys(entries))


def index(manifests: str = "") -> str:
    """Return an OCI index around descriptors in JSON, as referrers are listed."""
    return f'{{"schemaVersion":2,"mediaType":"{OCI_INDEX}","manifests":[{manifests}]}}'


def read(content: bytes) -> dict[str, object]:
    """Return the fields of a JSON object.

    :raises ManifestError: it is too large or something else.
    """
    if len(content) > MAX_SIZE:
        raise ManifestError(f"manifest of {len(content)} bytes, clients accept {MAX_SIZE}")
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ManifestError("manifest is not a JSON object")
    return fields


def _media_type(fields: dict[str, object]) -> str:
    media_type = fields.get("mediaType")
    if media_type is None and fields.get("schemaVersion") == 2:
        media_type = OCI_INDEX if "manifests" in fields else OCI
    if media_type not in SERVED:
        kind = media_type or "a schema 1 manifest"
        raise ManifestError(f"unsupported media type: {kind}; served are {', '.join(SERVED)}")
    if fields.get("schemaVersion") != 2:
        raise ManifestError(f"unsupported schemaVersion {fields.get('schemaVersion')!r}, want 2")
    return str(media_type)


def _list(fields: dict[str, object], key: str, what: str) -> list[Descriptor]:
    found = fields.get(key)
    if not isinstance(found, list):
        raise ManifestError(f"manifest has no list of {key}")
    return [_descriptor(one, f"{what} {number}") for number, one in enumerate(found)]


def _descriptor(descriptor: object, what: str) -> Descriptor:
    if not isinstance(descriptor, dict):
        raise ManifestError(f"{what} is not described")
    digest, size = descriptor.get("digest"), descriptor.get("size")
    digits = hex_of_digest(digest) if isinstance(digest, str) else None
    if digits is None:
        raise ManifestError(f"{what} has digest {digest!r}, want sha256: and 64 digits")
    if type(size) is not int or size < 0:
        raise ManifestError(f"{what} has size {size!r}, want a number of bytes")
    name = _texts(descriptor.get("annotations")).get(REF_NAME, "")
    return Descriptor(str(descriptor.get("mediaType")), digits, size, name)


def _texts(annotations: object) -> dict[str, str]:
    """What is not a text is of no use to us, and no reason to refuse an image."""
    found = annotations if isinstance(annotations, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _as_referrer(fields: dict[str, object], media_type: str, digits: str, size: int) -> str:
    """Return what a list of referrers says of a manifest ("Listing Referrers")."""
    config = fields.get("config")
    of_config = config.get("mediaType") if isinstance(config, dict) else ""
    kind = fields.get("artifactType") or of_config
    annotations = _texts(fields.get("annotations"))
    return compact(
        {
            "mediaType": media_type,
            "digest": f"sha256:{digits}",
            "size": size,
            **({"artifactType": str(kind)} if kind else {}),
            **({"annotations": annotations} if annotations else {}),
        }
    )
