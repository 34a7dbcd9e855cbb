"""RPMs of other people, for every major version of EL that there is a repository for.

::

    _package_sign ──> _redhat_closure:node-el<version> ──> _package_repository:redhat

Leaves package lists in ``_build/closures``; packages are in the store. A profile without
repositories in ``[redhat]`` has none of these steps.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from buildchain import catalog
from buildchain.actions import redhat, redhat_lock
from buildchain.actions.lock import Locked
from buildchain.actions.redhat import System
from buildchain.model import RedhatRepository
from buildchain.targets.step import Step, Task, title
from buildchain.tasks.context import Context, current
from buildchain.tasks.host import checks
from buildchain.tools import dnf, dnf_solver

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
            redhat_lock.close, context.layout, locked(context), name, on, pins.redhat_packages
        ),
        inputs=(
            *(repository.key for repository in on.repositories),
            *((lock_file,) if lock_file.is_file() else ()),
        ),
        needs=(SIGN, "_iso_key"),
        config={
            "packages": pins.redhat_packages,
            "minimal": on.minimal,
            "repositories": [[r.name, r.url, r.is_signed] for r in on.repositories],
            "policy": context.lock_policy,
        },
        code=(redhat, redhat_lock, dnf, dnf_solver),
        after=checks("dnf", "rpm"),
    )
