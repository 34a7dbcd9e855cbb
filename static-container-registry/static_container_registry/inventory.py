"""What has been found in a tree so far, by repository."""

from __future__ import annotations

from pathlib import Path

from .errors import Problem
from .manifest import Manifest
from .repository import Blob, Document, Referrer, Repository, Tag


class Inventory:
    """Collects; what comes twice counts once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._tags: dict[str, dict[str, str]] = {}
        self._documents: dict[str, dict[str, Document]] = {}
        self._blobs: dict[str, dict[str, Blob]] = {}
        self._referrers: dict[str, set[Referrer]] = {}

    def add_tag(self, name: str, tag: str, digits: str, where: Path) -> None:
        """Take a tag in; one that stands for something else already is a problem."""
        known = self._tags.setdefault(name, {}).setdefault(tag, digits)
        if known != digits:
            reason = f"{name}:{tag} is sha256:{digits} here and sha256:{known} elsewhere"
            self.problems.append(Problem(where, reason))

    def has_document(self, name: str, digits: str) -> bool:
        """Tell whether a manifest is known in a repository."""
        return digits in self._documents.get(name, {})

    def add_document(self, name: str, document: Document, manifest: Manifest) -> None:
        """Take a manifest in, and that it refers to another one."""
        self._documents.setdefault(name, {}).setdefault(document.hex, document)
        if manifest.subject is not None:
            referrer = Referrer(manifest.subject, manifest.descriptor)
            self._referrers.setdefault(name, set()).add(referrer)

    def add_blob(self, name: str, blob: Blob) -> None:
        """Take a config or layer in."""
        self._blobs.setdefault(name, {}).setdefault(blob.hex, blob)

    def repositories(self) -> tuple[Repository, ...]:
        """Return all that was found, sorted."""
        return tuple(
            Repository(
                name,
                tuple(sorted(Tag(*pair) for pair in self._tags.get(name, {}).items())),
                tuple(sorted(documents.values())),
                tuple(sorted(self._blobs.get(name, {}).values())),
                tuple(sorted(self._referrers.get(name, ()))),
            )
            for name, documents in sorted(self._documents.items())
        )
