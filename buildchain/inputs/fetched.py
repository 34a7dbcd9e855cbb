"""What was fetched for an ISO: every blob, by its SHA-256 and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.debian import archive
from buildchain.packages import bundles
from buildchain.pulls import fetch
from buildchain.redhat import closure


@dataclass(frozen=True)
class Fetched:
    """What an ISO is made of that was fetched.

    :param debian: names of sets of Debian packages.
    :param redhat: names of sets of RPMs.
    :param sources: of what we compile: file name and SHA-256.
    :param wheels: lists of Python distributions.
    :param pulled: receipt of the step that fetched images; ``None``: there are none.
    """

    debian: tuple[str, ...]
    redhat: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    wheels: tuple[Path, ...]
    pulled: Path | None


def blobs(wanted: Fetched, layout: Layout) -> dict[str, str]:
    """Return the SHA-256 of everything that was fetched, each with what it is."""
    found: dict[str, str] = {}
    for name in wanted.debian:
        found |= {file.sha256: file.file for file in archive.read_closure(layout.closure(name))}
    for name in wanted.redhat:
        found |= {file.sha256: file.file for file in closure.read_closure(layout.closure(name))}
    found |= {digest: file for file, digest in wanted.sources}
    for path in wanted.wheels:
        found |= {digest: file for file, digest in bundles.read_wheels(path).items()}
    if wanted.pulled is not None:
        found |= fetch.blobs(layout, receipt.read(wanted.pulled).facts)
    return found
