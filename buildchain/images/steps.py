"""Container images and the configuration of their registry.

::

    _base_image ─────────────────┐
    _debian_closure:image-* ─────┼──> _image_build:<name> ──> _image_dedup_layers
    _build_packages:*:pkg_compile┤   _image_pull:<name> ────> _registry_config
    _build_packages:*:pkg_deb ───┘

Leaves ``_build/images/<name>/<version>/`` (spec 12.2) and the nginx configuration in
``_build/registry``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, group, title
from buildchain.debian import archive, base, layers
from buildchain.debian import steps as debian
from buildchain.images import build, registry
from buildchain.machine.steps import checks
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import Image, Package
from buildchain.pulls import skopeo
from buildchain.pulls import steps as pulls

SHARE = "_image_dedup_layers"
REGISTRY = "_registry_config"


def image_steps(context: Context) -> tuple[str, ...]:
    """Return the steps that make images."""
    built = tuple(f"_image_build:{image.name}" for image in context.catalog.images)
    return (*built, *pulls.names(context))


def _sources(context: Context, image: Image) -> dict[str, Path]:
    """Return the files of the image's folder by their name in the build context."""
    folder = context.layout.image_sources(image.name)
    return {
        file.relative_to(folder).as_posix(): file
        for file in context.files(folder)
        if file.suffix != ".md"
    }


def _binaries(context: Context, image: Image) -> dict[str, Path]:
    found = {}
    for binary in image.binaries:
        package, _, name = binary.partition("/")
        found[f"bin/{name}"] = packages.compiled(context, package) / name
    return found


def _programs(context: Context, image: Image) -> dict[str, Path]:
    """Return the Python packages of ``operators/`` by their name in the build context."""
    found = {}
    for name in image.programs:
        folder = context.layout.program_sources(name)
        for file in context.files(folder):
            package = file.relative_to(folder).parts[0]
            if file.suffix == ".py" and (folder / package / "__init__.py").is_file():
                found[f"programs/{file.relative_to(folder).as_posix()}"] = file
    return found


def _packaged(context: Context, image: Image) -> list[Package]:
    """Return what of ours has a DEB in an image."""
    wanted = set(image.packages)
    return [package for package in context.catalog.packages if wanted & set(package.debs)]


@dataclass(frozen=True)
class Build:
    """An image to build.

    :param image: without what its labels and the task say of it.
    :param files: name in the build context to file.
    :param packaged: receipts of the steps that made DEBs of ours.
    :param base: receipt of what it stands on; ``None``: nothing.
    """

    image: Image
    files: Mapping[str, Path]
    packaged: tuple[Path, ...]
    labels: Mapping[str, str]
    epoch: int
    architecture: str
    base: Path | None


@dataclass(frozen=True)
class Share:
    """Equal layers to link."""

    hardlink: str


@dataclass(frozen=True)
class Configuration:
    """The configuration of a registry.

    :param images: receipts of the steps that made its images.
    :param generator: what writes it.
    """

    version: str
    images: tuple[Path, ...]
    generator: tuple[Path, ...]


def _image(context: Context, image: Image) -> Step[Build, Means]:
    compiled_of = sorted({binary.partition("/")[0] for binary in image.binaries})
    compiled = tuple(packages.stage(package, "pkg_compile") for package in compiled_of)
    closure = (debian.closure_step(f"image-{image.name}"),) if image.debs else ()
    pins = context.catalog
    return Step(
        context.means,
        f"_image_build:{image.name}",
        title("BUILD IMAGE", f"{image.name}:{image.version}"),
        _make,
        Build(
            dataclasses.replace(image, title="", licenses="", unused=""),
            {
                **_sources(context, image),
                **_binaries(context, image),
                **_programs(context, image),
            },
            packages.receipts(context, "pkg_deb", _packaged(context, image)),
            build.labels(image, context.config.project_name, pins.content_epoch),
            pins.content_epoch,
            pins.architecture,
            None if image.from_scratch else context.layout.receipt(debian.BASE),
        ),
        needs=(*closure, *compiled),
        code=(archive, base, layers, skopeo),
        after=checks("docker", "skopeo"),
    )


def _make(wanted: Build, means: Means) -> Made:
    debs = packages.built(wanted.packaged, means.layout, ".deb")
    ours = {
        f"debs/{file.name}": file
        for file in debs
        if file.name.partition("_")[0] in wanted.image.packages
    }
    recipe = build.Recipe(
        wanted.image,
        {**wanted.files, **ours},
        wanted.labels,
        wanted.epoch,
        wanted.architecture,
    )
    return build.make(
        means.layout,
        recipe,
        build.Below("", (), ()) if wanted.base is None else _below(wanted.base, means.layout),
        docker=means.binary("docker"),
        skopeo_bin=means.binary("skopeo"),
    )


def _below(made: Path, layout: Layout) -> build.Below:
    facts = receipt.read(made).facts
    diff_ids, blobs = facts["diff_ids"], facts["blobs"]
    assert isinstance(diff_ids, list)
    assert isinstance(blobs, list)
    return build.Below(
        str(facts["reference"]),
        tuple(diff_ids),
        tuple(layout.base / name for name in blobs),
    )


def task__image_build() -> Iterator[Task]:
    """Build a container image."""
    context = current()
    for image in context.catalog.images:
        yield _image(context, image).task()


def task__image_dedup_layers() -> Iterator[Task]:
    """Hard-link equal layers of all images."""
    yield _share(current()).task()


def _share(context: Context) -> Step[Share, Means]:
    return Step(
        context.means,
        SHARE,
        title("SHARE", "equal layers"),
        _link,
        Share(context.config.binary("hardlink")),
        needs=image_steps(context),
        after=checks("hardlink"),
    )


def _link(wanted: Share, means: Means) -> Made:
    build.share([means.layout.images], wanted.hardlink)
    return Made()


def task__registry_config() -> Iterator[Task]:
    """Generate the nginx configuration that serves the images of the ISO."""
    yield _registry(current()).task()


def _registry(context: Context) -> Step[Configuration, Means]:
    return Step(
        context.means,
        REGISTRY,
        title("GENERATE", "configuration of the registry"),
        _generate,
        Configuration(
            context.catalog.version.full,
            tuple(map(context.layout.receipt, image_steps(context))),
            registry.generator_files(),
        ),
        needs=(SHARE,),
    )


def _generate(wanted: Configuration, means: Means) -> Made:
    return registry.generate(means.layout, wanted.version, wanted.images)


def task_images() -> Task:
    """Make the container images."""
    context = current()
    built = (_image(context, image) for image in context.catalog.images)
    doc = "Make the container images and the configuration of their registry."
    steps = [*built, *pulls.steps(context), _share(context), _registry(context)]
    return group("images", doc, steps)
