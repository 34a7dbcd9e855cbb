"""The sources of what we compile, on a medium of their own: licences ask for them.

::

    _build_packages:<name>:{pkg_srpm,pkg_dsc} ──> _sources_sign ──> _sources_populate
                                        ──> _sources_build ──> _sources_digest

Leaves ``_build/sources/<project>-sources.iso`` with ``redhat/*.src.rpm``, ``debian/`` and, beside
it, ``SHA256SUM`` and its signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, group, title
from buildchain.machine.steps import signing_checks
from buildchain.medium import iso
from buildchain.medium.making import Digest, Image
from buildchain.medium.steps import build_step, digest_step, populate_step
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
from buildchain.project.means import Means
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


@dataclass(frozen=True)
class Signing:
    """Source RPMs to sign.

    :param made: receipts of the steps that made them.
    :param folder: where the signed ones are put.
    :param epoch: date of the signatures, seconds since 1970.
    """

    made: tuple[Path, ...]
    folder: Path
    epoch: int


def task__sources_sign() -> Iterator[Task]:
    """Sign the source RPMs."""
    context = current()
    made = packages.receipts(context, "pkg_srpm", context.catalog.packages)
    folder = context.layout.build / "sources" / "redhat"
    yield Step(
        context.means,
        SIGN,
        title("SIGN", "source RPMs"),
        _sign,
        Signing(made, folder, context.catalog.content_epoch),
        needs=(KEY,),
        code=(rpm_repository, signing),
        owns=folder,
        after=signing_checks(context, "rpmsign"),
    ).task()


def _sign(wanted: Signing, means: Means) -> Made:
    with signing.signer(means.layout, means.signing_key) as signer:
        ours = packages.built(wanted.made, means.layout, ".src.rpm")
        rpm_repository.sign_copies(wanted.folder, ours, signer, epoch=wanted.epoch)
    return Made((wanted.folder,))


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
    yield _build(current()).task()


def _build(context: Context) -> Step[Image, Means]:
    volume = iso.volume_id(f"{context.config.project_name} sources", context.catalog.version)
    return build_step(context, BUILD, _medium(context), volume, POPULATE)


def task__sources_digest() -> Iterator[Task]:
    """Write and sign the checksum of the sources' ISO."""
    yield _digest(current()).task()


def _digest(context: Context) -> Step[Digest, Means]:
    return digest_step(context, DIGEST, _medium(context), BUILD)


def task_sources_iso() -> Task:
    """Build the ISO with the sources of what we compile."""
    context = current()
    return group(
        "sources_iso",
        "Build the ISO with the sources of what we compile: _build/sources/<project>-sources.iso.",
        [_build(context), _digest(context)],
    )
