"""The sources of what we compile, on a medium of their own: licences ask for them.

::

    _build_packages:<name>:{pkg_srpm,pkg_dsc} ──> _sources_sign ──> _sources_populate
                                        ──> _sources_build ──> _sources_digest

Leaves ``_build/sources/<project>-sources.iso`` with ``redhat/*.src.rpm``, ``debian/`` and, beside
it, ``SHA256SUM`` and its signature.
"""

from __future__ import annotations

from collections.abc import Iterator

from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, group, title
from buildchain.machine.steps import signing_checks
from buildchain.medium import iso
from buildchain.medium.steps import build_step, digest_step, populate_step
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
from buildchain.redhat import rpm_repository
from buildchain.signatures import signing
from buildchain.signatures.steps import KEY

SIGN = "_sources_sign"
POPULATE = "_sources_populate"
BUILD = "_sources_build"
DIGEST = "_sources_digest"


def _medium(context: Context) -> iso.Medium:
    return iso.Medium(
        f"{context.config.project_name} sources",
        context.catalog.version,
        context.layout.sources_root,
        context.layout.sources_iso,
    )


def task__sources_sign() -> Iterator[Task]:
    """Sign the source RPMs."""
    context = current()
    layout = context.layout
    epoch = context.catalog.content_epoch
    folder = layout.build / "sources" / "redhat"

    def sign() -> Made:
        with signing.signer(layout, context.config.signing_key) as signer:
            rpm_repository.sign_copies(
                folder, packages.built(context, "pkg_srpm", ".src.rpm"), signer, epoch=epoch
            )
        return Made((folder,))

    yield Step(
        layout,
        SIGN,
        title("SIGN", "source RPMs"),
        sign,
        needs=(*(packages.stage(p.name, "pkg_srpm") for p in context.catalog.packages), KEY),
        config={"epoch": epoch, "key": context.config.signing_key},
        code=(rpm_repository, signing),
        owns=folder,
        after=signing_checks(context, "rpmsign"),
    ).task()


def parts(context: Context) -> tuple[Part, ...]:
    """Return what goes where on the medium."""
    layout = context.layout
    return (
        Part(layout.receipt(KEY), layout.keys, "keys"),
        Part(layout.receipt(SIGN), layout.build / "sources" / "redhat", "redhat"),
        *(
            Part(
                layout.receipt(packages.stage(package.name, "pkg_dsc")),
                layout.package(package.name) / "DSC",
                "debian",
            )
            for package in context.catalog.packages
        ),
    )


def task__sources_populate() -> Iterator[Task]:
    """Make the tree of the sources, with signed checksums."""
    context = current()
    yield populate_step(context, POPULATE, _medium(context), parts(context)).task()


def task__sources_build() -> Iterator[Task]:
    """Write the ISO image of the sources."""
    context = current()
    volume = iso.volume_id(f"{context.config.project_name} sources", context.catalog.version)
    yield build_step(context, BUILD, _medium(context), volume, POPULATE).task()


def task__sources_digest() -> Iterator[Task]:
    """Write and sign the checksum of the sources' ISO."""
    context = current()
    yield digest_step(context, DIGEST, _medium(context), BUILD).task()


def task_sources_iso() -> Task:
    """Build the ISO with the sources of what we compile."""
    context = current()
    return group(
        "sources_iso",
        "Build the ISO with the sources of what we compile: _build/sources/<project>-sources.iso.",
        [Step(context.layout, name, "", Made) for name in (BUILD, DIGEST)],
    )
