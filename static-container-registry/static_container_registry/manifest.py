"""Image manifests: Docker v2 schema 2 and OCI.

Both have the same shape. An OCI manifest may leave out ``mediaType`` (OCI image
specification, "Image Manifest Property Descriptions"), a Docker one may not, so a
manifest without it is OCI.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from .grammar import hex_of_digest
from .image import Blob

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
MAX_SIZE = 4 * 1024 * 1024  # bytes; the distribution specification lets clients refuse more


class ManifestError(ValueError):
    """The bytes are not a manifest that can be served; the message says why."""


@dataclass(frozen=True)
class Manifest:
    """What has to be known of a manifest in order to serve it."""

    media_type: str
    hex: str  # SHA-256 of the bytes it was parsed from
    blobs: tuple[Blob, ...]


def parse(content: bytes) -> Manifest:
    """Read a manifest from its exact bytes.

    :raises ManifestError: it is too large, broken, or of a kind not served.
    """
    if len(content) > MAX_SIZE:
        raise ManifestError(f"manifest of {len(content)} bytes, clients accept {MAX_SIZE}")
    fields = _fields(content)
    media_type = _media_type(fields)
    layers = fields.get("layers")
    if not isinstance(layers, list):
        raise ManifestError("manifest has no list of layers")
    blobs = [_blob(fields.get("config"), "config")]
    blobs += [_blob(layer, f"layer {index}") for index, layer in enumerate(layers)]
    unique = tuple(dict.fromkeys(blobs))
    if len({blob.hex for blob in unique}) != len(unique):
        raise ManifestError("manifest gives one digest two different sizes")
    return Manifest(media_type, hashlib.sha256(content).hexdigest(), unique)


def _fields(content: bytes) -> dict[str, object]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ManifestError("manifest is not a JSON object")
    return fields


def _media_type(fields: dict[str, object]) -> str:
    media_type = fields.get("mediaType")
    if media_type is None and fields.get("schemaVersion") == 2 and "manifests" not in fields:
        return OCI
    if media_type not in (DOCKER, OCI):
        kind = media_type or ("an index" if "manifests" in fields else "a schema 1 manifest")
        raise ManifestError(f"unsupported media type: {kind}; served are {DOCKER} and {OCI}")
    if fields.get("schemaVersion") != 2:
        raise ManifestError(f"unsupported schemaVersion {fields.get('schemaVersion')!r}, want 2")
    return str(media_type)


def _blob(descriptor: object, what: str) -> Blob:
    if not isinstance(descriptor, dict):
        raise ManifestError(f"{what} is not described")
    digest, size = descriptor.get("digest"), descriptor.get("size")
    digits = hex_of_digest(digest) if isinstance(digest, str) else None
    if digits is None:
        raise ManifestError(f"{what} has digest {digest!r}, want sha256: and 64 digits")
    if type(size) is not int or size < 0:
        raise ManifestError(f"{what} has size {size!r}, want a number of bytes")
    return Blob(digits, size)
