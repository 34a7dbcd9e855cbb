"""Package repositories: signed, solved from themselves, and all of the task ``packaging``.

::

    pkg_rpm ──> _package_sign ─┬──────────> _package_repository:redhat ──> _package_check:redhat
                               └─> _redhat_closure:* ──┘
    pkg_deb, _debian_closure:node ────────> _package_repository:debian ──> _package_check:debian

Leaves the signed repositories in ``_build/repositories``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import AnyStep, Step, Task, group, title
from buildchain.debian import apt, archive, deb_repository
from buildchain.debian import steps as debian
from buildchain.debian.deb_repository import COMPONENT, make_deb_repository
from buildchain.machine.steps import checks, signing_checks
from buildchain.packages import rpm
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import Content
from buildchain.redhat import closure as rpms
from buildchain.redhat import rpm_repository
from buildchain.redhat import steps as redhat
from buildchain.redhat.steps import signing_step
from buildchain.repositories import closures
from buildchain.signatures import signing
from buildchain.signatures.steps import KEY

NODE = debian.closure_step("node")
EVERYTHING = "everything we build"


def repository_step(family: str) -> str:
    """Return the step that makes a family's repository."""
    return f"_package_repository:{family}"


@dataclass(frozen=True)
class Rpms:
    """Repositories of RPMs.

    :param releases: major versions of EL.
    :param solved: those among them that have packages of other people.
    :param keys: public keys of these, by their place below ``keys/redhat``.
    :param epoch: date of metadata, seconds since 1970.
    """

    releases: tuple[str, ...]
    solved: tuple[str, ...]
    keys: tuple[tuple[str, Path], ...]
    epoch: int


@dataclass(frozen=True)
class Debs:
    """A repository of DEBs.

    :param made: receipts of the steps that made ours.
    """

    made: tuple[Path, ...]
    content: Content


@dataclass(frozen=True)
class RpmRoles:
    """What is installed from repositories of RPMs.

    :param sets: names of packages by what they are for.
    :param minimal: names that an EL machine provides; the solver knows them where it was asked.
    """

    releases: tuple[str, ...]
    solved: tuple[str, ...]
    minimal: tuple[str, ...]
    sets: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class DebRoles:
    """What is installed from a repository of DEBs."""

    suite: str
    sets: Mapping[str, tuple[str, ...]]


def rpm_folders(context: Context) -> tuple[Path, ...]:
    """Return the repositories for EL, one for each major version."""
    return tuple(map(context.layout.rpm_repository, context.catalog.redhat_releases))


def _redhat(wanted: Rpms, means: Means) -> Made:
    layout, epoch = means.layout, wanted.epoch
    folders = tuple(map(layout.rpm_repository, wanted.releases))
    ours = sorted(layout.signed_rpms.glob("*.rpm"))
    with signing.signer(layout, means.signing_key) as signer:
        if not wanted.solved:
            rpm_repository.make_rpm_repositories(folders, ours, signer, epoch=epoch)
            return Made(folders, digests=_known_rpms(wanted, layout))
        for release in wanted.solved:
            # Blobs are named by hash; a repository wants the packages' names.
            with layout.scratch("rpms-") as scratch:
                theirs = rpms.link_closure(layout, redhat.closure_name(release), Path(scratch))
                folder = layout.rpm_repository(release)
                everything = (*ours, *theirs)
                rpm_repository.make_rpm_repositories([folder], everything, signer, epoch=epoch)
    with replaced(layout.rpm_keys) as fresh:
        for name, key in wanted.keys:
            write_whole(fresh / name, key.read_text(encoding="ascii"))
    return Made((*folders, layout.rpm_keys), digests=_known_rpms(wanted, layout))


def _known_rpms(wanted: Rpms, layout: Layout) -> dict[Path, str]:
    """Return the SHA-256 of packages in the repositories, as who made or fetched them knows it."""
    signed = receipt.read(layout.receipt(redhat.SIGN)).outputs
    ours = {Path(output.path).name: output.sha256 for output in signed}
    folders = map(layout.rpm_repository, wanted.releases)
    known = {folder / name: ours[name] for folder in folders for name in ours}
    for release in wanted.solved:
        for file in rpms.read_closure(layout.closure(redhat.closure_name(release))):
            known[layout.rpm_repository(release) / file.file] = file.sha256
    return known


def _debian(wanted: Debs, means: Means) -> Made:
    layout, content = means.layout, wanted.content
    # Blobs are named by hash; the pool wants the packages' names.
    with (
        layout.scratch("pool-") as pool,
        signing.signer(layout, means.signing_key) as signer,
    ):
        downloaded = archive.link_closure(layout, "node", Path(pool))
        folder = make_deb_repository(
            layout.deb_repository,
            [*downloaded, *packages.built(wanted.made, layout, ".deb")],
            signer,
            suite=content.suite,
            architecture=content.architecture,
            epoch=content.epoch,
        )
    pool_of = folder / "pool" / COMPONENT
    outputs = [output for path in wanted.made for output in receipt.read(path).outputs]
    known = {pool_of / Path(output.path).name: output.sha256 for output in outputs}
    for file in archive.read_closure(layout.closure("node")):
        known[pool_of / file.pool_name] = file.sha256
    return Made((folder,), digests=known)


def task__package_repository() -> Iterator[Task]:
    """Make a signed package repository."""
    for step in _repositories(current()):
        yield step.task()


def _repositories(context: Context) -> Iterator[AnyStep]:
    pins, solved = context.catalog, redhat.releases(context)
    yield Step(
        context.means,
        repository_step("redhat"),
        title("REPOSITORY", "RPM, metalk8s"),
        _redhat,
        Rpms(pins.redhat_releases, solved, redhat.keys(context), pins.content_epoch),
        needs=(redhat.SIGN, *map(redhat.closure_step, solved), KEY),
        code=(rpm_repository, rpms, signing),
        after=signing_checks(context, "createrepo_c"),
    )
    yield Step(
        context.means,
        repository_step("debian"),
        title("REPOSITORY", "APT, metalk8s"),
        _debian,
        Debs(packages.receipts(context, "pkg_deb", pins.packages), context.content),
        needs=(NODE, KEY),
        code=(archive, deb_repository, signing),
        after=signing_checks(context, "apt-ftparchive"),
    )


def check_step(family: str) -> str:
    """Return the step that proves a family's repository complete."""
    return f"_package_check:{family}"


def task__package_check() -> Iterator[Task]:
    """Solve the installation of every role from the repository alone."""
    for step in _checks(current()):
        yield step.task()


def _checks(context: Context) -> Iterator[AnyStep]:
    pins, solved = context.catalog, redhat.releases(context)
    rpm_names, deb_names = (
        tuple(sorted({name for package in pins.packages for name in getattr(package, kind)}))
        for kind in ("rpms", "debs")
    )
    yield Step(
        context.means,
        check_step("redhat"),
        title("CHECK", "redhat packages of every role"),
        _check_redhat,
        RpmRoles(
            pins.redhat_releases,
            solved,
            () if solved else pins.redhat_minimal,
            {**pins.redhat_roles, EVERYTHING: rpm_names},
        ),
        needs=(repository_step("redhat"), *map(redhat.closure_step, solved)),
        code=(rpm, rpms),
        after=checks("rpm"),
    )
    yield Step(
        context.means,
        check_step("debian"),
        title("CHECK", "debian packages of every role"),
        _check_debian,
        DebRoles(pins.suite, {**pins.debian_roles, EVERYTHING: deb_names}),
        needs=(repository_step("debian"), debian.FLOOR, KEY),
        code=(apt, archive, deb_repository),
    )


def _check_redhat(wanted: RpmRoles, means: Means) -> Made:
    for release in wanted.releases:
        folder = means.layout.rpm_repository(release)
        if wanted.solved:
            closure = means.layout.closure(redhat.closure_name(release))
            closures.check_redhat_closure(folder, rpms.read_closure(closure), wanted.sets)
        else:
            closures.check_redhat(folder, wanted.minimal, wanted.sets)
    return Made()


def _check_debian(wanted: DebRoles, means: Means) -> Made:
    layout = means.layout
    keyring = layout.keys / "metalk8s.gpg"
    return closures.check_debian(layout, layout.deb_repository, keyring, wanted.suite, wanted.sets)


def task_packaging() -> Task:
    """Build the software packages and repositories."""
    context = current()
    steps = [
        step
        for package in context.catalog.packages
        for step in packages.stages(context, package)
        if not step.name.endswith(packages.SOURCE_STAGES)
    ]
    doc = "Download and build the software packages and repositories."
    return group(
        "packaging",
        doc,
        [*steps, signing_step(context), *_repositories(context), *_checks(context)],
    )
