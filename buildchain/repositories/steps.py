"""Package repositories: signed, solved from themselves, and all of the task ``packaging``.

::

    pkg_rpm ──> _package_sign ─┬──────────> _package_repository:redhat ──> _package_check:redhat
                               └─> _redhat_closure:* ──┘
    pkg_deb, _debian_closure:node ────────> _package_repository:debian ──> _package_check:debian

Leaves the signed repositories in ``_build/repositories``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.files import replaced
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, Task, group, title
from buildchain.debian import apt, archive, deb_repository
from buildchain.debian import steps as debian
from buildchain.debian.deb_repository import COMPONENT, make_deb_repository
from buildchain.machine.steps import checks, signing_checks
from buildchain.packages import rpm
from buildchain.packages import steps as packages
from buildchain.project.context import Context, current
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


def rpm_folders(context: Context) -> tuple[Path, ...]:
    """Return the repositories for EL, one for each major version."""
    return tuple(map(context.layout.rpm_repository, context.catalog.redhat_releases))


def _redhat(context: Context) -> Made:
    layout, epoch = context.layout, context.catalog.content_epoch
    ours = sorted(layout.signed_rpms.glob("*.rpm"))
    with signing.signer(layout, context.config.signing_key) as signer:
        if not redhat.releases(context):
            folders = rpm_folders(context)
            rpm_repository.make_rpm_repositories(folders, ours, signer, epoch=epoch)
            return Made(folders, digests=_known_rpms(context))
        for release in redhat.releases(context):
            # Blobs are named by hash; a repository wants the packages' names.
            with layout.scratch("rpms-") as scratch:
                theirs = rpms.link_closure(layout, redhat.closure_name(release), Path(scratch))
                folder = layout.rpm_repository(release)
                everything = (*ours, *theirs)
                rpm_repository.make_rpm_repositories([folder], everything, signer, epoch=epoch)
    with replaced(layout.rpm_keys) as fresh:
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
        downloaded = archive.link_closure(layout, "node", Path(pool))
        folder = make_deb_repository(
            layout.deb_repository,
            [*downloaded, *packages.built(context, "pkg_deb", ".deb")],
            signer,
            suite=pins.suite,
            architecture=pins.architecture,
            epoch=pins.content_epoch,
        )
    pool_of = folder / "pool" / COMPONENT
    made_by = [packages.stage(package.name, "pkg_deb") for package in pins.packages]
    outputs = [output for name in made_by for output in receipt.read(layout.receipt(name)).outputs]
    known = {pool_of / Path(output.path).name: output.sha256 for output in outputs}
    for file in archive.read_closure(layout.closure("node")):
        known[pool_of / file.pool_name] = file.sha256
    return Made((folder,), digests=known)


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
        needs=(redhat.SIGN, *map(redhat.closure_step, redhat.releases(context)), KEY),
        config={**epoch, "releases": context.catalog.redhat_releases},
        code=(rpm_repository, rpms, signing),
        after=signing_checks(context, "createrepo_c"),
    )
    yield Step(
        context.layout,
        repository_step("debian"),
        title("REPOSITORY", "APT, metalk8s"),
        functools.partial(_debian, context),
        needs=(*(packages.stage(p.name, "pkg_deb") for p in all_packages), NODE, KEY),
        config=epoch,
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
            needs=(repository_step(family), debian.FLOOR),
            config={"roles": dict(roles), "minimal": pins.redhat_minimal},
            code=(rpm, rpms) if family == "redhat" else (apt, archive, deb_repository),
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
