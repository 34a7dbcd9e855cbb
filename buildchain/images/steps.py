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

import functools
from collections.abc import Iterator
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, group, title
from buildchain.debian import archive, base, layers
from buildchain.debian import steps as debian
from buildchain.images import build, registry
from buildchain.machine.steps import checks
from buildchain.packages import kept
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
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


def _packages(context: Context, image: Image) -> dict[str, Path]:
    """Return the DEBs of ours that go into an image, by their name in the build context."""
    files = packages.built(context, "pkg_deb", ".deb", _packaged(context, image))
    return {
        f"debs/{file.name}": file for file in files if file.name.partition("_")[0] in image.packages
    }


def _packaged(context: Context, image: Image) -> list[Package]:
    """Return what of ours has a DEB in an image."""
    wanted = set(image.packages)
    return [package for package in context.catalog.packages if wanted & set(package.debs)]


def _image(context: Context, image: Image) -> Step:
    compiled_of = sorted({binary.partition("/")[0] for binary in image.binaries})
    compiled = tuple(packages.stage(package, "pkg_compile") for package in compiled_of)
    packaged = tuple(packages.stage(p.name, "pkg_deb") for p in _packaged(context, image))
    closure = (debian.closure_step(f"image-{image.name}"),) if image.debs else ()
    below = () if image.from_scratch else (debian.BASE,)
    labels = build.labels(image, context.config.project_name, context.catalog.content_epoch)
    layout = context.layout
    target = layout.image(image.name, image.version)
    keep = functools.partial(kept.once, layout.made_cache / f"image-{image.name}", target)
    return Step(
        layout,
        f"_image_build:{image.name}",
        title("BUILD IMAGE", f"{image.name}:{image.version}"),
        functools.partial(_make, context, image, labels),
        inputs=(*_sources(context, image).values(), *_programs(context, image).values()),
        needs=(*below, *closure, *compiled, *packaged),
        config={
            "image": [
                image.name,
                image.version,
                image.debs,
                image.packages,
                image.binaries,
                image.programs,
            ],
            "labels": labels,
            "epoch": context.catalog.content_epoch,
        },
        code=(archive, base, layers, skopeo),
        after=checks("docker", "skopeo"),
        keep=None if context.is_release else keep,
    )


def _make(context: Context, image: Image, labels: dict[str, str]) -> Made:
    recipe = build.Recipe(
        image,
        {
            **_sources(context, image),
            **_packages(context, image),
            **_binaries(context, image),
            **_programs(context, image),
        },
        labels,
        context.catalog.content_epoch,
        context.catalog.architecture,
    )
    return build.make(
        context.layout,
        recipe,
        build.Below("", (), ()) if image.from_scratch else _below(context),
        docker=context.config.binary("docker"),
        skopeo_bin=context.config.binary("skopeo"),
    )


def _below(context: Context) -> build.Below:
    facts = receipt.read(context.layout.receipt(debian.BASE)).facts
    diff_ids, blobs = facts["diff_ids"], facts["blobs"]
    assert isinstance(diff_ids, list)
    assert isinstance(blobs, list)
    return build.Below(
        str(facts["reference"]),
        tuple(diff_ids),
        tuple(context.layout.base / name for name in blobs),
    )


def task__image_build() -> Iterator[Task]:
    """Build a container image."""
    context = current()
    for image in context.catalog.images:
        yield _image(context, image).task()


def task__image_dedup_layers() -> Iterator[Task]:
    """Hard-link equal layers of all images."""
    context = current()
    hardlink = context.config.binary("hardlink")
    yield Step(
        context.layout,
        SHARE,
        title("SHARE", "equal layers"),
        functools.partial(_share, context, hardlink),
        needs=image_steps(context),
        config={"binary": hardlink},
        after=checks("hardlink"),
    ).task()


def _share(context: Context, hardlink: str) -> Made:
    build.share([context.layout.images], hardlink)
    return Made()


def task__registry_config() -> Iterator[Task]:
    """Generate the nginx configuration that serves the images of the ISO."""
    context = current()
    version = context.catalog.version.full
    receipts = tuple(map(context.layout.receipt, image_steps(context)))
    yield Step(
        context.layout,
        REGISTRY,
        title("GENERATE", "configuration of the registry"),
        functools.partial(registry.generate, context.layout, version, receipts),
        inputs=registry.generator_files(),
        needs=(SHARE, *image_steps(context)),
        config={"place": registry.place(version)},
    ).task()


def task_images() -> Task:
    """Make the container images."""
    context = current()
    steps = [*(_image(context, i) for i in context.catalog.images), *pulls.steps(context)]
    others = [Step(context.layout, name, "", Made) for name in (SHARE, REGISTRY)]
    doc = "Make the container images and the configuration of their registry."
    return group("images", doc, [*steps, *others])
