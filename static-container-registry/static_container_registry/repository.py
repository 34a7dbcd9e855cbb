"""The records a tree is read into: what can be asked for, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Tag:
    """A name that stands for a manifest."""

    name: str
    hex: str  # SHA-256 of the manifest


@dataclass(frozen=True, order=True)
class Document:
    """A manifest or an index."""

    hex: str  # SHA-256 of its bytes, 64 lower-case digits
    media_type: str
    path: str  # of the file, relative to the root of the tree


@dataclass(frozen=True, order=True)
class Blob:
    """A config or layer; the name of its file is its digest."""

    hex: str
    folder: str  # relative to the root of the tree


@dataclass(frozen=True, order=True)
class Referrer:
    """That a manifest refers to another one as its subject."""

    subject: str  # SHA-256, 64 digits
    descriptor: str  # compact JSON, OCI distribution specification, "Listing Referrers"


@dataclass(frozen=True, order=True)
class Repository:
    """Everything of one name; each tuple is sorted and has no element twice."""

    name: str
    tags: tuple[Tag, ...]
    documents: tuple[Document, ...]
    blobs: tuple[Blob, ...] = ()
    referrers: tuple[Referrer, ...] = ()
