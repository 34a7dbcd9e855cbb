"""Software packages and their repositories.

::

    _build_packages:<name>:pkg_mkdir
        └> pkg_rpmspec ─> pkg_get_source ─┬> pkg_srpm, pkg_dsc    (for sources_iso)
                                          └> pkg_compile ─┬> pkg_rpm
              _builder_image ─────────────────┘           └> pkg_deb

    pkg_rpm ──> _package_sign ─┬──────────> _package_repository:redhat ──> _package_check:redhat
                               └─> _redhat_closure:* ──┘
    pkg_deb, _debian_closure:node ────────> _package_repository:debian ──> _package_check:debian

Leaves ``_build/packages/<name>/`` and the signed repositories in ``_build/repositories``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from buildchain import receipt
from buildchain.actions import bundles, closures, debian, engine, packages, repositories, signing
from buildchain.actions import redhat as rpms
from buildchain.layout import Layout
from buildchain.model import Package
from buildchain.receipt import Made, write_whole
from buildchain.targets.step import Step, Task, group, title
from buildchain.tasks import foundations, redhat
from buildchain.tasks.context import Context, current
from buildchain.tasks.host import checks
from buildchain.tools import repository, rpm

NODE = foundations.closure_step("node")
EVERYTHING = "everything we build"
SOURCE_STAGES = ("pkg_srpm", "pkg_dsc")


def stage(package: str, name: str) -> str:
    """Return the step of a package's stage."""
    return f"_build_packages:{package}:{name}"


def repository_step(family: str) -> str:
    """Return the step that makes a family's repository."""
    return f"_package_repository:{family}"


def compiled(context: Context, package: str) -> Path:
    """Return the folder of what a package compiles."""
    return context.layout.package(package) / "compiled"


def task__build_packages() -> Iterator[Task]:
    """Build a software package, stage by stage."""
    context = current()
    for package in context.catalog.packages:
        for step in _stages(context, package):
            yield step.task()


def _stages(context: Context, package: Package) -> Iterator[Step]:
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
        "pkg_mkdir", "MKDIR", packages.make_folders, owns=layout.package(package.name)
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
            foundations.UPDATE,
            *(
                (foundations.closure_step(bundles.closure_name(package)),)
                if package.go_debs
                else ()
            ),
        ),
        code=(bundles,),
    )
    yield outline.step(
        "pkg_compile",
        "COMPILE",
        _in_builder(context, packages.compile_binaries),
        inputs=tuple(path for path in packages.local_sources(layout, package) if path != spec),
        needs=("pkg_get_source",),
        config={"binaries": package.binaries},
        others=(foundations.BUILDER,),
        code=(packages,),
    )
    build = ("pkg_get_source", "pkg_compile")
    srpm = f"{package.name}-{package.version}-{package.release}.src.rpm"
    for name, verb, make, products in (
        ("pkg_srpm", "BUILD SRPM", packages.build_srpm, (f"SRPMS/{srpm}",)),
        ("pkg_rpm", "BUILD RPM", packages.build_rpms, ()),
    ):
        yield outline.step(
            name,
            verb,
            _in_builder(context, make),
            inputs=(spec,),
            needs=build,
            others=(foundations.BUILDER,),
            code=(packages, rpm),
            products=tuple(layout.package(package.name) / product for product in products),
        )
    for name, verb, action in (
        ("pkg_deb", "BUILD DEB", packages.build_debs),
        ("pkg_dsc", "BUILD DSC", packages.build_dsc),
    ):
        yield outline.step(
            name,
            verb,
            _in_builder(context, action),
            inputs=tuple(receipt.sources([folder])),
            needs=build,
            others=(foundations.BUILDER,),
            code=(packages,),
        )


def _in_builder(
    context: Context, action: Callable[[Layout, Package, packages.Builder], Made]
) -> Callable[[Layout, Package], Made]:
    """Hand the builder to an action, made again when the engine lost it."""

    def call(layout: Layout, package: Package) -> Made:
        docker = context.config.binary("docker")
        with engine.connect(docker) as client:
            reference = foundations.ensure_builder(context, client)
        builder = packages.Builder(
            reference, docker, context.catalog.content_epoch, context.layout.build
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
    ) -> Step:
        """Return a stage; ``needs`` names other stages, ``others`` any step."""
        package, layout = self.package, self.context.layout
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
        )


def task__package_repository() -> Iterator[Task]:
    """Make a signed package repository."""
    for step in _repositories(current()):
        yield step.task()


def _repositories(context: Context) -> Iterator[Step]:
    all_packages = context.catalog.packages
    epoch = {"epoch": context.catalog.content_epoch, "key": context.config.signing_key}
    yield Step(
        context.layout,
        repository_step("redhat"),
        title("REPOSITORY", "RPM, metalk8s"),
        functools.partial(_redhat, context),
        inputs=tuple(key for _, key in redhat.keys(context)),
        needs=(redhat.SIGN, *map(redhat.closure_step, redhat.releases(context)), "_iso_key"),
        config={**epoch, "releases": context.catalog.redhat_releases},
        code=(repositories, repository),
        after=checks("createrepo_c", "gpg"),
    )
    yield Step(
        context.layout,
        repository_step("debian"),
        title("REPOSITORY", "APT, metalk8s"),
        functools.partial(_debian, context),
        needs=(*(stage(p.name, "pkg_deb") for p in all_packages), NODE, "_iso_key"),
        config=epoch,
        code=(repositories, repository),
        after=checks("apt-ftparchive", "gpg"),
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


def rpm_folders(context: Context) -> tuple[Path, ...]:
    """Return the repositories for EL, one for each major version."""
    return tuple(map(context.layout.rpm_repository, context.catalog.redhat_releases))


def task__package_sign() -> Iterator[Task]:
    """Sign our RPMs (APT trusts a repository's index instead)."""
    yield _sign(current()).task()


def _sign(context: Context) -> Step:
    layout, epoch = context.layout, context.catalog.content_epoch
    is_solved_against = bool(redhat.releases(context))

    def sign() -> Made:
        with signing.signer(layout, context.config.signing_key) as signer:
            ours = built(context, "pkg_rpm", ".rpm")
            repositories.sign_copies(layout.signed_rpms, ours, signer, epoch=epoch)
            if is_solved_against:
                repositories.index_rpms(layout.signed_rpms, signer, epoch=epoch)
        return Made((layout.signed_rpms,))

    return Step(
        layout,
        redhat.SIGN,
        title("SIGN", "RPMs"),
        sign,
        needs=(*(stage(p.name, "pkg_rpm") for p in context.catalog.packages), "_iso_key"),
        config={
            "epoch": epoch,
            "key": context.config.signing_key,
            "index": is_solved_against,
        },
        owns=layout.signed_rpms,
        after=checks("rpmsign", "gpg", *(["createrepo_c"] if is_solved_against else [])),
    )


def _redhat(context: Context) -> Made:
    layout, epoch = context.layout, context.catalog.content_epoch
    ours = sorted(layout.signed_rpms.glob("*.rpm"))
    with signing.signer(layout, context.config.signing_key) as signer:
        if not redhat.releases(context):
            folders = rpm_folders(context)
            repositories.make_rpm_repositories(folders, ours, signer, epoch=epoch)
            return Made(folders, digests=_known_rpms(context))
        for release in redhat.releases(context):
            # Blobs are named by hash; a repository wants the packages' names.
            with layout.scratch("rpms-") as scratch:
                theirs = rpms.link_closure(layout, redhat.closure_name(release), Path(scratch))
                folder = layout.rpm_repository(release)
                everything = (*ours, *theirs)
                repositories.make_rpm_repositories([folder], everything, signer, epoch=epoch)
    with repositories.replaced(layout.rpm_keys) as fresh:
        for name, key in redhat.keys(context):
            write_whole(fresh / name, key.read_text(encoding="ascii"))
    return Made((*rpm_folders(context), layout.rpm_keys), digests=_known_rpms(context))


def _known_rpms(context: Context) -> dict[Path, str]:
    """Return the SHA-256 of packages in the repositories, as who made or fetched them knows it."""
    layout = context.layout
    signed = receipt.read(layout.receipt(redhat.SIGN)).outputs
    ours = {Path(output.path).name: output.sha256 for output in signed}
    known = {folder / name: ours[name] for folder in rpm_folders(context) for name in ours}
    for release in redhat.releases(context):
        for file in rpms.read_closure(layout.closure(redhat.closure_name(release))):
            known[layout.rpm_repository(release) / file.file] = file.sha256
    return known


def _debian(context: Context) -> Made:
    layout, pins = context.layout, context.catalog
    # Blobs are named by hash; the pool wants the packages' names.
    with (
        layout.scratch("pool-") as pool,
        signing.signer(layout, context.config.signing_key) as signer,
    ):
        downloaded = debian.link_closure(layout, "node", Path(pool))
        folder = repositories.make_deb_repository(
            layout.deb_repository,
            [*downloaded, *built(context, "pkg_deb", ".deb")],
            signer,
            suite=pins.suite,
            architecture=pins.architecture,
            epoch=pins.content_epoch,
        )
    pool_of = folder / "pool" / repository.COMPONENT
    made_by = [stage(package.name, "pkg_deb") for package in pins.packages]
    outputs = [output for name in made_by for output in receipt.read(layout.receipt(name)).outputs]
    known = {pool_of / Path(output.path).name: output.sha256 for output in outputs}
    for file in debian.read_closure(layout.closure("node")):
        known[pool_of / file.pool_name] = file.sha256
    return Made((folder,), digests=known)


def check_step(family: str) -> str:
    """Return the step that proves a family's repository complete."""
    return f"_package_check:{family}"


def task__package_check() -> Iterator[Task]:
    """Solve the installation of every role from the repository alone."""
    for step in _checks(current()):
        yield step.task()


def _checks(context: Context) -> Iterator[Step]:
    pins, layout = context.catalog, context.layout
    for family, roles, action in (
        ("redhat", pins.redhat_roles, _check_redhat),
        ("debian", pins.debian_roles, _check_debian),
    ):
        yield Step(
            layout,
            check_step(family),
            title("CHECK", f"{family} packages of every role"),
            functools.partial(action, context),
            needs=(repository_step(family), foundations.BASE),
            config={"roles": dict(roles), "minimal": pins.redhat_minimal},
            code=(closures,),
            after=checks("rpm") if family == "redhat" else (),
        )


def _check_redhat(context: Context) -> Made:
    pins = context.catalog
    ours = {name for package in pins.packages for name in package.rpms}
    sets = {**pins.redhat_roles, EVERYTHING: sorted(ours)}
    for release in pins.redhat_releases:
        folder = context.layout.rpm_repository(release)
        if redhat.releases(context):
            closure = context.layout.closure(redhat.closure_name(release))
            closures.check_redhat_closure(folder, rpms.read_closure(closure), sets)
        else:
            closures.check_redhat(folder, pins.redhat_minimal, sets)
    return Made()


def _check_debian(context: Context) -> Made:
    pins, layout = context.catalog, context.layout
    ours = {name for package in pins.packages for name in package.debs}
    return closures.check_debian(
        layout,
        layout.deb_repository,
        layout.keys / "metalk8s.gpg",
        pins.suite,
        {**pins.debian_roles, EVERYTHING: sorted(ours)},
    )


def task_packaging() -> Task:
    """Build the software packages and repositories."""
    context = current()
    # What nobody installs is made for `sources_iso`.
    steps = [
        step
        for package in context.catalog.packages
        for step in _stages(context, package)
        if not step.name.endswith(SOURCE_STAGES)
    ]
    doc = "Download and build the software packages and repositories."
    return group(
        "packaging", doc, [*steps, _sign(context), *_repositories(context), *_checks(context)]
    )
