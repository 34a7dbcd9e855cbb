"""Manifests and indexes of container images, Docker's and OCI's, kept byte for byte.

Formats: Docker image manifest v2 schema 2; OCI image specification 1.1 (manifest, index).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from buildchain.core.errors import ContentError
from buildchain.core.reference import DIGEST

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED = (OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST)
INDEXES = (OCI_INDEX, DOCKER_LIST)
LARGEST = 4 << 20  # bytes of a manifest; the least that registries must take, and all that many do
ALL = "all"


@dataclass(frozen=True)
class Descriptor:
    """What a manifest says of a blob or of another manifest.

    :param digest: ``sha256:<hex>``.
    :param size: bytes.
    :param platform: ``os/architecture[/variant]``, or empty.
    """

    digest: str
    size: int
    media_type: str
    platform: str = ""

    @property
    def hex(self) -> str:
        return self.digest.removeprefix("sha256:")


@dataclass(frozen=True)
class Manifest:
    """A manifest or an index.

    :param content: the bytes that have the digest.
    :param blobs: configuration and layers, each once; none in an index.
    :param children: the manifests an index lists; none in a manifest.
    """

    digest: str
    media_type: str
    content: bytes
    blobs: tuple[Descriptor, ...] = ()
    children: tuple[Descriptor, ...] = ()

    @property
    def is_index(self) -> bool:
        return self.media_type in INDEXES

    @property
    def descriptor(self) -> Descriptor:
        return Descriptor(self.digest, len(self.content), self.media_type)


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes, ``sha256:<hex>``."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def parse(content: bytes, media_type: str, origin: str) -> Manifest:
    """Read a manifest.

    :param media_type: what the server called it; what the document says of itself comes first.
    :param origin: where it came from, for the error.
    :raises ContentError: it is none of the four formats, or says something impossible.
    """
    try:
        document = json.loads(content)
        kind = document.get("mediaType") or media_type or _guess(document)
        if kind not in ACCEPTED:
            raise ValueError(f"its type is {kind}")
        if kind in INDEXES:
            children = tuple(_descriptor(entry) for entry in document["manifests"])
            return Manifest(digest_of(content), kind, content, children=children)
        entries = [document["config"], *document["layers"]]
        blobs = tuple(dict.fromkeys(_descriptor(entry) for entry in entries))
        return Manifest(digest_of(content), kind, content, blobs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ContentError(
            f"{origin}: unsupported manifest: {what}",
            solution="Pin an image whose manifest is Docker's v2 schema 2 or OCI's.",
        ) from error


def _guess(document: Mapping[str, object]) -> str:
    """OCI allows a document that does not say what it is."""
    return OCI_INDEX if "manifests" in document else OCI_MANIFEST


def _descriptor(entry: Mapping[str, Any]) -> Descriptor:
    digest, size = entry["digest"], entry["size"]
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ValueError(f"the digest {digest!r} is no sha256:<64 hex digits>")
    if type(size) is not int or size < 0:
        raise ValueError(f"{digest} has the size {size!r}")
    return Descriptor(digest, size, str(entry.get("mediaType", "")), _platform(entry))


def _platform(entry: Mapping[str, Any]) -> str:
    platform = entry.get("platform") or {}
    parts = [platform.get(key) for key in ("os", "architecture", "variant")]
    return "/".join(str(part) for part in parts if part)


def choose(index: Manifest, platforms: Sequence[str], origin: str) -> tuple[Descriptor, ...]:
    """Return the children of an index that are wanted, in the index's order.

    :param platforms: ``os/architecture[/variant]`` each, or only :data:`ALL`.
    :raises ContentError: one is missing; it is named with what there is.
    """
    if list(platforms) == [ALL]:
        return index.children
    wanted = [(platform, _best(index.children, platform)) for platform in platforms]
    missing = [platform for platform, child in wanted if child is None]
    if missing:
        there = sorted({child.platform for child in index.children if child.platform})
        raise ContentError(
            f"{origin} has no image for {', '.join(missing)}, only for {', '.join(there)}",
            solution="Correct `platforms` in the profile's images.toml.",
        )
    chosen = {child for _, child in wanted}
    return tuple(child for child in index.children if child in chosen)


def _best(children: Iterable[Descriptor], platform: str) -> Descriptor | None:
    """A platform without a variant is content with any, the plain one first."""
    exact = [child for child in children if child.platform == platform]
    close = [child for child in children if child.platform.startswith(f"{platform}/")]
    found = [*exact, *close]
    return found[0] if found else None


def narrowed(index: Manifest, children: Sequence[Descriptor]) -> Manifest:
    """Return an index of some of its children only: the original, when these are all.

    What it keeps stands as it stood; its digest is a new one.
    """
    if set(children) == set(index.children):
        return index
    kept = {child.digest for child in children}
    document = json.loads(index.content)
    document["manifests"] = [e for e in document["manifests"] if e["digest"] in kept]
    content = json.dumps(document, indent=3).encode()
    return Manifest(digest_of(content), index.media_type, content, children=tuple(children))
