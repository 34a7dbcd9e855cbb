"""How a medium and what is signed about it are made: what each step is told, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events, receipt
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.core.record import Later
from buildchain.inputs.fetched import Fetched, blobs
from buildchain.medium import block_list, iso, provenance
from buildchain.project import source
from buildchain.project.means import Means
from buildchain.project.model import Version
from buildchain.signatures import signing

# How git status says that it does not track a file of a folder that the product comes from.
NEW = ("?? images/", "?? packages/", "?? salt/")


@dataclass(frozen=True)
class Product:
    """What ``product.txt`` says.

    :param build: version of the build.
    :param key: receipt of the step that exported the keys.
    """

    name: str
    version: Version
    build: Later[str]
    commit: Later[str]
    key: Path


@dataclass(frozen=True)
class Tree:
    """The tree of a medium; ``epoch`` dates its signatures."""

    medium: iso.Medium
    parts: tuple[Part, ...]
    epoch: Later[int]


@dataclass(frozen=True)
class Image:
    """The image of a medium.

    :param volume: its volume id.
    :param mkisofs: what writes it: others give other bytes.
    """

    medium: iso.Medium
    volume: str
    mkisofs: str
    epoch: Later[int]


@dataclass(frozen=True)
class Digest:
    """The checksum of a medium's image; ``built`` is the receipt of the step that wrote that."""

    medium: iso.Medium
    built: Path
    epoch: Later[int]


@dataclass(frozen=True)
class Blocks:
    """The list of an image's blocks; ``built`` is the receipt of the step that wrote the image."""

    image: Path
    built: Path
    volume: str
    epoch: Later[int]


@dataclass(frozen=True)
class Provenance:
    """Where an image comes from.

    :param built: receipt of the step that wrote it.
    :param parameters: settings that decide what comes out.
    """

    image: Path
    built: Path
    parameters: Mapping[str, str]
    fetched: Fetched
    commit: Later[str]
    description: Later[str]
    build: Later[str]
    epoch: Later[int]


def write_product(wanted: Product, means: Means) -> Made:
    """Write ``product.txt``, and tell what of the checkout is not on the ISO."""
    found = source.changes(means.binary("git"), means.layout.root)
    if new := [line[3:] for line in found if line.startswith(NEW)]:
        events.closing(f"not on the ISO, git does not track them: {', '.join(new)}")
    key = receipt.read(wanted.key).facts
    text = iso.product(
        wanted.name,
        wanted.version,
        wanted.build.value,
        wanted.commit.value,
        development_key=bool(key["development"]),
    )
    return iso.write_product(means.layout, text)


def populate(wanted: Tree, means: Means) -> Made:
    """Make the tree of a medium."""
    layout, epoch = means.layout, wanted.epoch.value
    with signing.signer(layout, means.signing_key) as signer:
        return iso.populate(layout, wanted.medium, wanted.parts, signer, epoch)


def write_image(wanted: Image, _means: Means) -> Made:
    """Write the image of a medium."""
    return iso.build(wanted.medium, wanted.mkisofs, wanted.volume, wanted.epoch.value)


def write_digest(wanted: Digest, means: Means) -> Made:
    """Write and sign the checksum of an image."""
    layout, epoch = means.layout, wanted.epoch.value
    with signing.signer(layout, means.signing_key) as signer:
        return iso.digest(layout, wanted.medium, wanted.built, signer, epoch)


def write_blocks(wanted: Blocks, means: Means) -> Made:
    """Write and sign the list of an image's blocks."""
    [built] = receipt.read(wanted.built).outputs
    volume, epoch = wanted.volume, wanted.epoch.value
    with signing.signer(means.layout, means.signing_key) as signer:
        return block_list.write(wanted.image, built.sha256, volume, signer, epoch)


def write_provenance(wanted: Provenance, means: Means) -> Made:
    """Write and sign where an image comes from."""
    epoch = wanted.epoch.value
    origin = provenance.Origin(
        wanted.commit.value,
        wanted.description.value,
        {
            **wanted.parameters,
            "SOURCE_DATE_EPOCH": epoch,
            "BUILD_VERSION": wanted.build.value,
        },
        blobs(wanted.fetched, means.layout),
    )
    [built] = receipt.read(wanted.built).outputs
    with signing.signer(means.layout, means.signing_key) as signer:
        return provenance.write(wanted.image, built.sha256, origin, signer, epoch)
