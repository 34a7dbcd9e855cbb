"""The bill of materials of the ISO.

::

    all parts of the ISO ──> _iso_bill ──> _iso_populate

Leaves ``_build/sbom/{spdx,cyclonedx}.json``, which lie in ``sbom/`` on the ISO. They cover
everything there but themselves and the lists that name them.
"""

from __future__ import annotations

import functools
from pathlib import Path

from buildchain.bill import bill, cyclonedx, spdx
from buildchain.bill.bill import Contents
from buildchain.core import parts as parts_of_media
from buildchain.core.parts import Part, placement
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, title
from buildchain.debian import archive
from buildchain.debian import steps as debian
from buildchain.packages import build, bundles, rpm
from buildchain.project.context import Context
from buildchain.project.model import DebianFile, Image, RedhatFile
from buildchain.redhat import closure
from buildchain.redhat import steps as redhat

BILL = "_iso_bill"
PLACE = "sbom"  # on the ISO


def folder(context: Context) -> Path:
    """Return where the documents are."""
    return context.layout.build / PLACE


def step(context: Context, parts: tuple[Part, ...]) -> Step:
    """Return the step that writes the bill of some parts."""
    pins = context.catalog
    specs = tuple(build.spec_path(context.layout, package) for package in pins.packages)
    return Step(
        context.layout,
        BILL,
        title("WRITE", "bill of materials"),
        functools.partial(_write, context, parts),
        inputs=(*dict.fromkeys(part.receipt for part in parts), *specs),
        needs=(*map(debian.closure_step, _sets(context)),),
        config={
            "title": [context.config.project_name, pins.version.full],
            "epoch": pins.content_epoch,
            "images": [[image.name, image.licenses] for image in pins.images],
        },
        code=(archive, parts_of_media, build, bundles, rpm, closure),
    )


def _sets(context: Context) -> tuple[str, ...]:
    base = () if context.config.base_image else ("base",)
    return (*base, "node", *(f"image-{i.name}" for i in context.catalog.images if i.debs))


def _write(context: Context, parts: tuple[Part, ...]) -> Made:
    pins, layout = context.catalog, context.layout
    placed = placement(layout, parts)
    contents = Contents(
        files={path: output.sha256 for path, output in placed.items()},
        debian=archive.read_closure(layout.closure("node")),
        redhat=_redhat(context),
        packages=pins.packages,
        images={
            image: () if image.from_scratch else _inside(context, image) for image in pins.images
        },
        pulled=pins.pulled_images,
        wheels={
            package.name: bundles.read_wheels(layout.package_sources(package.name) / package.wheels)
            for package in pins.packages
            if package.wheels
        },
        licenses={
            package.name: rpm.read_license(build.spec_path(layout, package))
            for package in pins.packages
        },
    )
    name = context.config.project_name
    found = bill.make(name, pins.version.full, pins.content_epoch, contents)
    outputs = []
    for stem, document in (("spdx", spdx.document), ("cyclonedx", cyclonedx.document)):
        output = folder(context) / f"{stem}.json"
        write_whole(output, document(found))
        outputs.append(output)
    return Made(tuple(outputs))


def _inside(context: Context, image: Image) -> tuple[DebianFile, ...]:
    """Return the Debian packages in an image; what a foreign base has is not known."""
    sets = [] if context.config.base_image else ["base"]
    sets += [f"image-{image.name}"] if image.debs else []
    return tuple(
        file for name in sets for file in archive.read_closure(context.layout.closure(name))
    )


def _redhat(context: Context) -> tuple[RedhatFile, ...]:
    layout = context.layout
    return tuple(
        file
        for release in redhat.releases(context)
        for file in closure.read_closure(layout.closure(redhat.closure_name(release)))
    )
