"""RPMs: ours signed, those of other people for every major version of EL that has a repository.

::

    pkg_rpm ──> _package_sign ──> _redhat_closure:node-el<version> ──> _package_repository:redhat

Leaves our signed packages, and package lists in ``_build/closures``; packages of others are in the
store. A profile without repositories in ``[redhat]`` only signs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, title
from buildchain.debian import lock as debian_lock
from buildchain.debian.lock import Locked
from buildchain.machine.steps import checks, signing_checks
from buildchain.packages import rpm
from buildchain.packages import steps as packages
from buildchain.project import catalog
from buildchain.project.context import Context, current
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
    layout, pins = context.layout, context.catalog
    ours = RedhatRepository(catalog.OURS, layout.signed_rpms.as_uri(), layout.keys / "metalk8s.asc")
    return System(release, pins.redhat_repositories_of(release), pins.redhat_minimal, ours)


def task__redhat_closure() -> Iterator[Task]:
    """Resolve and fetch the RPMs that the roles need."""
    context = current()
    for release in releases(context):
        yield _closure(context, release).task()


def _closure(context: Context, release: str) -> Step:
    pins, name = context.catalog, closure_name(release)
    on = system(context, release)
    lock_file = locked(context).path
    return Step(
        context.layout,
        closure_step(release),
        title("RESOLVE", f"RPMs for EL {release}"),
        functools.partial(
            lock.close, context.layout, locked(context), name, on, pins.redhat_packages
        ),
        inputs=(
            *(repository.key for repository in on.repositories),
            *((lock_file,) if lock_file.is_file() else ()),
        ),
        needs=(SIGN, KEY),
        config={
            "packages": pins.redhat_packages,
            "minimal": on.minimal,
            "repositories": [[r.name, r.url, r.is_signed] for r in on.repositories],
            "policy": context.lock_policy,
        },
        code=(debian_lock, rpm),
        after=checks("dnf", "rpm"),
    )


def task__package_sign() -> Iterator[Task]:
    """Sign our RPMs (APT trusts a repository's index instead)."""
    yield signing_step(current()).task()


def signing_step(context: Context) -> Step:
    """Return the step that signs our RPMs."""
    layout, epoch = context.layout, context.catalog.content_epoch
    is_solved_against = bool(releases(context))

    def sign() -> Made:
        with signing.signer(layout, context.config.signing_key) as signer:
            ours = packages.built(context, "pkg_rpm", ".rpm")
            rpm_repository.sign_copies(layout.signed_rpms, ours, signer, epoch=epoch)
            if is_solved_against:
                rpm_repository.index_rpms(layout.signed_rpms, signer, epoch=epoch)
        return Made((layout.signed_rpms,))

    return Step(
        layout,
        SIGN,
        title("SIGN", "RPMs"),
        sign,
        needs=(*(packages.stage(p.name, "pkg_rpm") for p in context.catalog.packages), KEY),
        config={
            "epoch": epoch,
            "key": context.config.signing_key,
            "index": is_solved_against,
        },
        code=(signing,),
        owns=layout.signed_rpms,
        after=signing_checks(context, "rpmsign", *(["createrepo_c"] if is_solved_against else [])),
    )
