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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, title
from buildchain.debian import apt, archive
from buildchain.debian import steps as debian
from buildchain.debian.archive import closure_name
from buildchain.machine import engine, python
from buildchain.packages import build as packages
from buildchain.packages import compilation, kept
from buildchain.packages.builder import Builder
from buildchain.project.context import Context, current
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


def stages(context: Context, package: Package) -> Iterator[Step]:
    """Yield the steps of a package."""
    layout = context.layout
    spec = packages.spec_path(layout, package)
    pins = {
        "version": [package.version, package.release],
        "sources": [[s.file, s.sha256] for s in package.sources],
        "packages": [package.rpms, package.debs],
    }
    folder = layout.package_sources(package.name)
    outline = _Outline(context, package)
    yield outline.step(
        "pkg_mkdir",
        "MKDIR",
        packages.make_folders,
        owns=layout.package(package.name),
    )
    yield outline.step(
        "pkg_rpmspec",
        "READ SPEC",
        packages.read_meta,
        inputs=(spec,),
        needs=("pkg_mkdir",),
        config=pins,
    )
    yield outline.step(
        "pkg_get_source",
        "GET SOURCE",
        functools.partial(packages.get_sources, epoch=context.catalog.content_epoch),
        inputs=packages.local_sources(layout, package),
        needs=("pkg_rpmspec",),
        config={**pins, "go": package.go_debs, "content": context.catalog.content_epoch},
        others=(
            debian.UPDATE,
            *((debian.closure_step(closure_name(package)),) if package.go_debs else ()),
        ),
        code=(apt, archive, python),
    )
    yield outline.step(
        "pkg_compile",
        "COMPILE",
        _in_builder(context, _compile),
        inputs=tuple(path for path in packages.local_sources(layout, package) if path != spec),
        needs=("pkg_get_source",),
        config={"binaries": package.binaries, "cold": context.is_release},
        others=(debian.BUILDER,),
    )
    build = ("pkg_get_source", "pkg_compile")
    srpm = f"{package.name}-{package.version}-{package.release}.src.rpm"
    # Their containers are told the date, too.
    dated: dict[str, object] = {"content": context.catalog.content_epoch}
    for name, verb, make, makes, products in (
        ("pkg_srpm", "BUILD SRPM", packages.build_srpm, "SRPMS", (f"SRPMS/{srpm}",)),
        ("pkg_rpm", "BUILD RPM", packages.build_rpms, "RPMS", ()),
    ):
        yield outline.step(
            name,
            verb,
            _in_builder(context, make),
            inputs=(spec,),
            needs=build,
            config=dated,
            others=(debian.BUILDER,),
            makes=makes,
            products=tuple(layout.package(package.name) / product for product in products),
        )
    sources = context.files(folder)
    for name, verb, action, makes in (
        ("pkg_deb", "BUILD DEB", packages.build_debs, "DEBS"),
        ("pkg_dsc", "BUILD DSC", packages.build_dsc, "DSC"),
    ):
        yield outline.step(
            name,
            verb,
            _in_builder(context, functools.partial(action, sources=sources)),
            inputs=sources,
            needs=build,
            config=dated,
            others=(debian.BUILDER,),
            makes=makes,
        )


def _compile(layout: Layout, package: Package, builder: Builder) -> Made:
    sources = receipt.read(layout.receipt(stage(package.name, "pkg_get_source")))
    known = {layout.build / output.path: output.sha256 for output in sources.outputs}
    return compilation.compile_binaries(layout, package, builder, known)


def _in_builder(
    context: Context, action: Callable[[Layout, Package, Builder], Made]
) -> Callable[[Layout, Package], Made]:
    """Hand the builder to an action, made again when the engine lost it."""

    def call(layout: Layout, package: Package) -> Made:
        docker = context.config.binary("docker")
        with engine.connect(docker) as client:
            reference = debian.ensure_builder(context, client)
        builder = Builder(
            reference,
            docker,
            context.catalog.content_epoch,
            context.layout.build,
            is_cold=context.is_release,
        )
        return action(layout, package, builder)

    return call


class _Outline:
    """Fills in what the stages of one package have in common."""

    def __init__(self, context: Context, package: Package) -> None:
        self.context = context
        self.package = package

    def step(
        self,
        name: str,
        verb: str,
        action: Callable[[Layout, Package], Made],
        *,
        inputs: tuple[Path, ...] = (),
        needs: tuple[str, ...] = (),
        config: dict[str, object] | None = None,
        others: tuple[str, ...] = (),
        owns: Path | None = None,
        products: tuple[Path, ...] = (),
        code: tuple[ModuleType, ...] = (),
        makes: str = "",
    ) -> Step:
        """Return a stage.

        :param needs: names of other stages.
        :param others: names of any steps.
        :param makes: name of the folder that is all it makes, where another checkout may take it.
        """
        package, layout = self.package, self.context.layout
        keep = None
        if makes and not self.context.is_release:
            place = layout.made_cache / package.name / makes
            keep = functools.partial(kept.once, place, layout.package(package.name) / makes)
        return Step(
            layout,
            stage(package.name, name),
            title(verb, f"{package.name} {package.version}-{package.release}"),
            functools.partial(action, layout, package),
            inputs=inputs,
            needs=(*(stage(package.name, other) for other in needs), *others),
            config=config or {},
            owns=owns,
            products=products,
            code=code,
            keep=keep,
        )


def built(
    context: Context, name: str, suffix: str, of: Iterable[Package] | None = None
) -> list[Path]:
    """Return the package files that a stage made, of all packages or of some."""
    layout = context.layout
    return [
        file
        for package in (context.catalog.packages if of is None else of)
        for file in packages.packages_of(
            layout.receipt(stage(package.name, name)), layout.build, suffix
        )
    ]
