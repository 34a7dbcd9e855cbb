"""The records a tree is read into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Blob:
    """A config or layer that a manifest refers to."""

    hex: str  # SHA-256, 64 lower-case digits; the name of the file
    size: int  # bytes, as the manifest says


@dataclass(frozen=True, order=True)
class Image:
    """One version of one image: the directory ``<name>/<tag>`` of a tree."""

    name: str
    tag: str
    media_type: str
    manifest_hex: str  # SHA-256 of the bytes of manifest.json
    blobs: tuple[Blob, ...]  # config first, then layers, each once

    @property
    def directory(self) -> str:
        """Where its files are, relative to the root of the tree."""
        return f"{self.name}/{self.tag}"
