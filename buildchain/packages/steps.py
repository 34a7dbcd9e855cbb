"""Software packages, stage by stage.

::

    _build_packages:<name>:pkg_mkdir
        └> pkg_rpmspec ─> pkg_get_source ─┬> pkg_srpm, pkg_dsc    (for sources_iso)
                                          └> pkg_compile ─┬> pkg_rpm
              _builder_image ─────────────────┘           └> pkg_deb

Leaves ``_build/packages/<name>/``; :mod:`buildchain.repositories.steps` goes on from there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.record import Later
from buildchain.core.step import AnyStep, Step, Task, title
from buildchain.debian import apt, archive
from buildchain.debian import steps as debian
from buildchain.debian.archive import closure_name
from buildchain.debian.base import BuilderImage
from buildchain.machine import engine, python
from buildchain.packages import build
from buildchain.packages.stages import (
    BuildDebs,
    BuildDsc,
    BuildRpms,
    BuildSrpm,
    Compile,
    Compiled,
    Debs,
    Described,
    GetSources,
    Named,
    Pinned,
    ReadSpec,
    Rpms,
    Sourced,
)
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import Package

SOURCE_STAGES = ("pkg_srpm", "pkg_dsc")  # nobody installs what they make


def stage(package: str, name: str) -> str:
    """Return the step of a package's stage."""
    return f"_build_packages:{package}:{name}"


def compiled(context: Context, package: str) -> Path:
    """Return the folder of what a package compiles."""
    return context.layout.package(package) / "compiled"


def task__build_packages() -> Iterator[Task]:
    """Build a software package, stage by stage."""
    context = current()
    for package in context.catalog.packages:
        for step in stages(context, package):
            yield step.task()


def stages(context: Context, package: Package) -> Iterator[AnyStep]:
    """Yield the steps of a package."""
    means, layout, epoch = context.means, context.layout, context.catalog.content_epoch
    name, builder = package.name, debian.builder(context)
    spec = build.spec_path(layout, package)
    local = build.local_sources(layout, package)
    files = context.files(layout.package_sources(name))
    closure = (debian.closure_step(closure_name(name)),) if package.go_debs else ()
    made = _needs(name, "pkg_get_source", "pkg_compile")
    yield Step(
        means,
        stage(name, "pkg_mkdir"),
        _title("MKDIR", package),
        _make_folders,
        Named(name),
        owns=layout.package(name),
    )
    yield Step(
        means,
        stage(name, "pkg_rpmspec"),
        _title("READ SPEC", package),
        _read_spec,
        ReadSpec(
            Pinned(name, package.version, package.release, package.archives, package.rpms),
            (spec, layout.package_sources(name) / "debian" / "control"),
            tuple(path.name for path in local),
        ),
        needs=_needs(name, "pkg_mkdir"),
    )
    yield Step(
        means,
        stage(name, "pkg_get_source"),
        _title("GET SOURCE", package),
        _get_sources,
        GetSources(
            Sourced(name, package.sources, package.bundles, package.wheels),
            local,
            epoch if package.bundles else None,
        ),
        needs=(*_needs(name, "pkg_rpmspec"), debian.UPDATE, *closure),
        code=(apt, archive, python),
    )
    yield Step(
        means,
        stage(name, "pkg_compile"),
        _title("COMPILE", package),
        _compile,
        Compile(
            Compiled(name, package.archives, package.binaries),
            tuple(path for path in local if path != spec),
            Later(functools.partial(build.patches, layout, name)),
            builder,
            is_cold=_is_cold(context),
        ),
        needs=(*_needs(name, "pkg_get_source"), debian.BUILDER),
    )
    srpm = f"SRPMS/{name}-{package.version}-{package.release}.src.rpm"
    yield Step(
        means,
        stage(name, "pkg_srpm"),
        _title("BUILD SRPM", package),
        _build_srpm,
        BuildSrpm(Named(name), spec, builder, epoch),
        needs=(*made, debian.BUILDER),
        products=(layout.package(name) / srpm,),
    )
    yield Step(
        means,
        stage(name, "pkg_rpm"),
        _title("BUILD RPM", package),
        _build_rpms,
        BuildRpms(Rpms(name, package.rpms), spec, builder, epoch),
        needs=(*made, debian.BUILDER),
    )
    yield Step(
        means,
        stage(name, "pkg_deb"),
        _title("BUILD DEB", package),
        _build_debs,
        BuildDebs(Debs(name, package.debs), files, builder),
        needs=(*made, debian.BUILDER),
    )
    yield Step(
        means,
        stage(name, "pkg_dsc"),
        _title("BUILD DSC", package),
        _build_dsc,
        BuildDsc(Described(name, package.version, package.archives), files, builder, epoch),
        needs=(*made, debian.BUILDER),
    )


def _title(verb: str, package: Package) -> str:
    return title(verb, f"{package.name} {package.version}-{package.release}")


def _needs(package: str, *names: str) -> tuple[str, ...]:
    return tuple(stage(package, name) for name in names)


def _is_cold(context: Context) -> bool:
    """Tell whether this is a release."""
    return bool(context.config.signing_key)


def _make_folders(package: Named, means: Means) -> Made:
    return build.make_folders(means.layout, package)


def _read_spec(wanted: ReadSpec, means: Means) -> Made:
    return build.read_meta(means.layout, wanted.package, wanted.local)


def _get_sources(wanted: GetSources, means: Means) -> Made:
    return build.get_sources(means.layout, wanted.package, wanted.local, wanted.epoch)


def _compile(wanted: Compile, means: Means) -> Made:
    builder = prepare(wanted.builder, means, is_cold=wanted.is_cold)
    return build.compile_binaries(means.layout, wanted.package, builder, wanted.patches.value)


def _build_srpm(wanted: BuildSrpm, means: Means) -> Made:
    builder = prepare(wanted.builder, means, wanted.epoch)
    return build.build_srpm(means.layout, wanted.package, builder)


def _build_rpms(wanted: BuildRpms, means: Means) -> Made:
    builder = prepare(wanted.builder, means, wanted.epoch)
    return build.build_rpms(means.layout, wanted.package, builder)


def _build_debs(wanted: BuildDebs, means: Means) -> Made:
    builder = prepare(wanted.builder, means)
    return build.build_debs(means.layout, wanted.package, builder, wanted.files)


def _build_dsc(wanted: BuildDsc, means: Means) -> Made:
    builder = prepare(wanted.builder, means, wanted.epoch)
    return build.build_dsc(means.layout, wanted.package, builder, wanted.files)


def prepare(
    wanted: BuilderImage, means: Means, epoch: int = 0, *, is_cold: bool = False
) -> build.Builder:
    """Return the builder to work in, made again when the engine lost it."""
    docker = means.binary("docker")
    with engine.connect(docker) as client:
        reference = debian.ensure_builder(wanted, means, client)
    return build.Builder(reference, docker, epoch, means.layout.build, is_cold=is_cold)


def receipts(context: Context, name: str, of: Iterable[Package]) -> tuple[Path, ...]:
    """Return the receipts of a stage, of some packages."""
    return tuple(context.layout.receipt(stage(package.name, name)) for package in of)


def built(made: Iterable[Path], layout: Layout, suffix: str) -> list[Path]:
    """Return the package files that stages made.

    :param made: their receipts.
    """
    return [file for path in made for file in build.packages_of(path, layout.build, suffix)]
