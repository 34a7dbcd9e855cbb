"""RPMs: ours signed, those of other people for every major version of EL that has a repository.

::

    pkg_rpm ──> _package_sign ──> _redhat_closure:node-el<version> ──> _package_repository:redhat

Leaves our signed packages, and package lists in ``_build/closures``; packages of others are in the
store. A profile without repositories in ``[redhat]`` only signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, title
from buildchain.debian import lock as debian_lock
from buildchain.debian.lock import Locked
from buildchain.machine.steps import checks, signing_checks
from buildchain.packages import rpm
from buildchain.packages import steps as packages
from buildchain.project import catalog
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import RedhatRepository
from buildchain.redhat import lock, rpm_repository
from buildchain.redhat.closure import System
from buildchain.signatures import signing
from buildchain.signatures.steps import KEY

SIGN = "_package_sign"


def closure_name(release: str) -> str:
    """Return what the set of packages for a major version is called."""
    return f"node-el{release}"


def closure_step(release: str) -> str:
    """Return the step that resolves the packages for a major version."""
    return f"_redhat_closure:{closure_name(release)}"


def releases(context: Context) -> tuple[str, ...]:
    """Return the major versions for which there are packages of other people."""
    pins = context.catalog
    return pins.redhat_releases if pins.redhat_repositories else ()


def keys(context: Context) -> tuple[tuple[str, Path], ...]:
    """Return the public keys of other people's packages, by their place below ``keys/redhat``."""
    return tuple(
        (f"{release}/{repository.name}.asc", repository.key)
        for release in releases(context)
        for repository in context.catalog.redhat_repositories_of(release)
    )


def locked(context: Context) -> Locked:
    """Return the lock of the profile and how it binds."""
    path = context.layout.pins / context.config.profile / "redhat.lock"
    return Locked(path, context.lock_policy)


def system(context: Context, release: str) -> System:
    """Return what the packages for a major version are resolved against."""
    return with_ours(_system(context, release), context.layout)


def _system(context: Context, release: str) -> System:
    """Return the same without what we build: where that is, is no matter of pins."""
    pins = context.catalog
    return System(release, pins.redhat_repositories_of(release), pins.redhat_minimal)


def with_ours(told: System, layout: Layout) -> System:
    """Return a system with what we build."""
    ours = RedhatRepository(catalog.OURS, layout.signed_rpms.as_uri(), layout.keys / "metalk8s.asc")
    return replace(told, ours=ours)


@dataclass(frozen=True)
class Closure:
    """A set of RPMs to resolve."""

    name: str
    packages: tuple[str, ...]
    system: System
    locked: Locked


@dataclass(frozen=True)
class Signing:
    """RPMs to sign, and to make a repository of when others are solved against it.

    :param made: receipts of the steps that made them.
    :param epoch: date of signatures and metadata, seconds since 1970.
    """

    made: tuple[Path, ...]
    is_solved_against: bool
    epoch: int


def task__redhat_closure() -> Iterator[Task]:
    """Resolve and fetch the RPMs that the roles need."""
    context = current()
    for release in releases(context):
        yield _closure(context, release).task()


def _closure(context: Context, release: str) -> Step[Closure, Means]:
    packages = context.catalog.redhat_packages
    return Step(
        context.means,
        closure_step(release),
        title("RESOLVE", f"RPMs for EL {release}"),
        _close,
        Closure(closure_name(release), packages, _system(context, release), locked(context)),
        needs=(SIGN, KEY),
        code=(debian_lock, rpm),
        after=checks("dnf", "rpm"),
    )


def _close(wanted: Closure, means: Means) -> Made:
    on = with_ours(wanted.system, means.layout)
    return lock.close(means.layout, wanted.locked, wanted.name, on, wanted.packages)


def task__package_sign() -> Iterator[Task]:
    """Sign our RPMs (APT trusts a repository's index instead)."""
    yield signing_step(current()).task()


def signing_step(context: Context) -> Step[Signing, Means]:
    """Return the step that signs our RPMs."""
    made = packages.receipts(context, "pkg_rpm", context.catalog.packages)
    is_solved_against = bool(releases(context))
    return Step(
        context.means,
        SIGN,
        title("SIGN", "RPMs"),
        _sign,
        Signing(made, is_solved_against, context.catalog.content_epoch),
        needs=(KEY,),
        code=(signing,),
        owns=context.layout.signed_rpms,
        after=signing_checks(context, "rpmsign", *(["createrepo_c"] if is_solved_against else [])),
    )


def _sign(wanted: Signing, means: Means) -> Made:
    layout, epoch = means.layout, wanted.epoch
    with signing.signer(layout, means.signing_key) as signer:
        ours = packages.built(wanted.made, layout, ".rpm")
        rpm_repository.sign_copies(layout.signed_rpms, ours, signer, epoch=epoch)
        if wanted.is_solved_against:
            rpm_repository.index_rpms(layout.signed_rpms, signer, epoch=epoch)
    return Made((layout.signed_rpms,))
