"""What a medium carries: its packages, images and files, out of its own lists.

Only lists are read (``MANIFEST``, indexes of packages, manifests and configurations of images),
and each must be what ``MANIFEST`` says it is.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from buildchain.core.errors import ContentError
from buildchain.core.listing import Entry, Listing
from buildchain.medium import package_index
from buildchain.medium.contents import Contents, listed
from buildchain.medium.package_index import Indexed

LICENSES = "org.opencontainers.image.licenses"
UNKNOWN_LICENSE = ""


@dataclass(frozen=True)
class Item:
    """A package or an image of a medium.

    :param place: the repository's folder, or ``images``.
    :param digest: SHA-256 of the package, or of the image's manifest or index.
    :param size: bytes on the medium; what images share counts for each.
    :param license: SPDX expression, or empty where the medium does not say.
    """

    place: str
    name: str
    version: str
    digest: str
    size: int
    license: str


@dataclass(frozen=True)
class Inventory:
    """What a medium carries.

    :param origin: where it was read from.
    :param facts: name and version of the medium, and the commit it was built of.
    :param files: every file by path.
    """

    origin: str
    facts: Mapping[str, str]
    packages: tuple[Item, ...]
    images: tuple[Item, ...]
    files: Mapping[str, Entry]

    @property
    def size(self) -> int:
        """Bytes of all contents: what several files share is stored once, and counts once."""
        return sum({entry.digest: entry.size for entry in self.files.values()}.values())


class _Reader:
    """Reads lists of a medium, each checked against ``MANIFEST``."""

    def __init__(self, contents: Contents, listing: Listing) -> None:
        self._contents = contents
        self.files = listing.files

    def read(self, path: str) -> bytes:
        """Return a file's content.

        :raises ContentError: it is not what ``MANIFEST`` says.
        """
        try:
            content = self._contents.read(path)
        except KeyError:
            content = b""
        if hashlib.sha256(content).hexdigest() != self.files[path].digest:
            raise ContentError(
                f"{path} of {self._contents.name} is not what its MANIFEST says",
                solution="Check the medium with verify.sh, then get it again.",
            )
        return content

    def has(self, path: str) -> bool:
        """Tell whether ``MANIFEST`` lists a file."""
        return path in self.files


def read(contents: Contents) -> Inventory:
    """Read the lists of a medium.

    :raises ContentError: it is none of ours, or damaged.
    """
    listing = listed(contents)
    reader = _Reader(contents, listing)
    try:
        packages = tuple(_packages(reader))
        images = tuple(_images(reader))
        facts = {**listing.facts, "commit": _commit(reader)}
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, ValueError) as error:
        raise ContentError(
            f"the lists of {contents.name} cannot be read: {error!r}",
            solution="Check the medium with verify.sh, then get it again.",
        ) from error
    return Inventory(contents.name, facts, packages, images, listing.files)


def _commit(reader: _Reader) -> str:
    lines = reader.read("product.txt").decode().splitlines() if reader.has("product.txt") else []
    return dict(line.split("=", 1) for line in lines if "=" in line).get("GIT", "")


def _packages(reader: _Reader) -> Iterator[Item]:
    for path in sorted(reader.files):
        if path.startswith("packages/") and path.endswith("/Packages"):
            folder = path.partition("/dists/")[0]
            found = package_index.parse_packages(reader.read(path).decode())
        elif path.startswith("packages/") and path.endswith("/repodata/repomd.xml"):
            folder = posixpath.dirname(posixpath.dirname(path))
            files = package_index.parse_repomd(reader.read(path))
            found = package_index.parse_primary(reader.read(f"{folder}/{files['primary'][0]}"))
        else:
            continue
        yield from (_package(folder, package) for package in found)


def _package(folder: str, package: Indexed) -> Item:
    version = f"{package.version} {package.architecture}"
    digest, size = package.sha256, package.size
    return Item(folder, package.name, version, digest, size, package.license)


def _images(reader: _Reader) -> Iterator[Item]:
    for path in sorted(reader.files):
        folder, _, file = path.rpartition("/")
        if not path.startswith("images/") or file not in {"manifest.json", "index.json"}:
            continue
        name, _, version = folder.removeprefix("images/").rpartition("/")
        size = sum(e.size for p, e in reader.files.items() if p.startswith(f"{folder}/"))
        document = json.loads(reader.read(path))
        digest = reader.files[path].digest
        if file == "index.json":  # it only says what has a tag; the image is what that stands for
            digest = document["manifests"][0]["digest"].removeprefix("sha256:")
        yield Item("images", name, version, digest, size, _license(reader, folder, document))


def _license(reader: _Reader, folder: str, document: Mapping[str, object]) -> str:
    config = document.get("config")
    digest = config.get("digest", "") if isinstance(config, dict) else ""
    path = f"{folder}/{digest.removeprefix('sha256:')}"
    if not digest or not reader.has(path):
        return UNKNOWN_LICENSE
    labels = json.loads(reader.read(path)).get("config", {}).get("Labels") or {}
    return str(labels.get(LICENSES, UNKNOWN_LICENSE))
