"""The bill of materials of the ISO.

::

    all parts of the ISO ──> _iso_bill ──> _iso_populate

Leaves ``_build/sbom/{spdx,cyclonedx}.json``, which lie in ``sbom/`` on the ISO. They cover
everything there but themselves and the lists that name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from buildchain.bill import bill, cyclonedx, spdx
from buildchain.bill.bill import Built, Contents, Ours, Pulled
from buildchain.core import parts as parts_of_media
from buildchain.core.parts import Part, placement
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, title
from buildchain.debian import archive
from buildchain.debian import steps as debian
from buildchain.debian.floor import BASE, NODE
from buildchain.packages import build, bundles, rpm
from buildchain.project import model
from buildchain.project.context import Context
from buildchain.project.means import Means
from buildchain.project.model import DebianFile
from buildchain.redhat import closure
from buildchain.redhat import steps as redhat

BILL = "_iso_bill"
PLACE = "sbom"  # on the ISO


def folder(context: Context) -> Path:
    """Return where the documents are."""
    return context.layout.build / PLACE


@dataclass(frozen=True)
class Package:
    """A package of ours; ``wheels`` lists the Python distributions in it, if there are any."""

    pin: Ours
    spec: Path
    wheels: Path | None


@dataclass(frozen=True)
class Image:
    """An image of ours; ``sets`` are the Debian packages in it that are known."""

    pin: Built
    sets: tuple[str, ...]


@dataclass(frozen=True)
class Medium:
    """What the bill is of.

    :param epoch: date of the documents, seconds since 1970.
    :param redhat: names of the sets of RPMs of others.
    """

    name: str
    version: str
    epoch: int
    parts: tuple[Part, ...]
    packages: tuple[Package, ...]
    images: tuple[Image, ...]
    pulled: tuple[Pulled, ...]
    redhat: tuple[str, ...]
    folder: Path


def step(context: Context, parts: tuple[Part, ...]) -> Step[Medium, Means]:
    """Return the step that writes the bill of some parts."""
    pins = context.catalog
    images = tuple(_image(context, image) for image in pins.images)
    sets = {name: None for image in images for name in image.sets}
    releases = redhat.releases(context)
    return Step(
        context.means,
        BILL,
        title("WRITE", "bill of materials"),
        _write,
        Medium(
            context.config.project_name,
            pins.version.full,
            pins.content_epoch,
            parts,
            tuple(_package(context, package) for package in pins.packages),
            images,
            tuple(Pulled(image.name, image.tag, image.digest) for image in pins.pulled_images),
            tuple(map(redhat.closure_name, releases)),
            folder(context),
        ),
        needs=(
            *map(debian.closure_step, (NODE, *sets)),
            *map(redhat.closure_step, releases),
        ),
        code=(archive, parts_of_media, build, bundles, rpm, closure),
    )


def _package(context: Context, package: model.Package) -> Package:
    layout = context.layout
    listed = layout.package_sources(package.name) / package.wheels if package.wheels else None
    return Package(
        Ours(package.name, package.version, package.release, package.debs, package.rpms),
        build.spec_path(layout, package),
        listed,
    )


def _image(context: Context, image: model.Image) -> Image:
    """Return an image with the sets in it; what a foreign base has is not known."""
    below = [] if image.from_scratch or context.config.base_image else [BASE]
    own = [f"image-{image.name}"] if image.debs and not image.from_scratch else []
    compiled = frozenset(binary.partition("/")[0] for binary in image.binaries)
    pin = Built(image.name, image.version, image.licenses, compiled, image.packages)
    return Image(pin, (*below, *own))


def _write(wanted: Medium, means: Means) -> Made:
    layout = means.layout
    placed = placement(layout, wanted.parts)

    def inside(sets: Iterable[str]) -> tuple[DebianFile, ...]:
        return tuple(file for name in sets for file in archive.read_closure(layout.closure(name)))

    contents = Contents(
        files={path: output.sha256 for path, output in placed.items()},
        debian=inside([NODE]),
        redhat=tuple(
            file for name in wanted.redhat for file in closure.read_closure(layout.closure(name))
        ),
        packages=tuple(package.pin for package in wanted.packages),
        images={image.pin: inside(image.sets) for image in wanted.images},
        pulled=wanted.pulled,
        wheels={
            package.pin.name: bundles.read_wheels(package.wheels)
            for package in wanted.packages
            if package.wheels
        },
        licenses={package.pin.name: rpm.read_license(package.spec) for package in wanted.packages},
    )
    found = bill.make(wanted.name, wanted.version, wanted.epoch, contents)
    outputs = []
    for stem, document in (("spdx", spdx.document), ("cyclonedx", cyclonedx.document)):
        output = wanted.folder / f"{stem}.json"
        write_whole(output, document(found))
        outputs.append(output)
    return Made(tuple(outputs))
