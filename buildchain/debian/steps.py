"""What packages and images stand on.

::

    _apt_update ─┬─> _debian_closure:base ──> _base_image ──> _debian_closure:{builder,image-…,…}
                 │                                 └────────────────> _builder_image
                 └─> _debian_closure:floor ─> _debian_floor ─> _debian_closure:node

Leaves the archive's indexes in ``_build/apt``, package lists in ``_build/closures``, the base in
``_build/base``, what every machine has in ``_build/floor``; packages themselves are in the store.
With ``BASE_IMAGE`` the base is pulled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.record import Nothing
from buildchain.core.step import Step, Task, title
from buildchain.debian import archive, base, floor, lock
from buildchain.debian.archive import Indexes, closure_name
from buildchain.debian.base import BuilderImage
from buildchain.debian.lock import Locked
from buildchain.machine import engine
from buildchain.machine.steps import checks
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.project.model import Content
from buildchain.signatures import signing

if TYPE_CHECKING:
    import docker

BASE = "_base_image"
BUILDER = "_builder_image"
UPDATE = "_apt_update"
FLOOR = "_debian_floor"


def closures(context: Context) -> Mapping[str, tuple[str, ...]]:
    """Return every set of Debian packages that stands on the base or the floor, by name."""
    pins = context.catalog
    images = {f"image-{image.name}": image.debs for image in pins.images if image.debs}
    go = {closure_name(package.name): package.go_debs for package in pins.packages}
    return {
        "builder": pins.builder_packages,
        floor.NODE: pins.node_packages,
        "testbed": pins.testbed_packages,
        "testbed-pods": pins.testbed_pods,
        **{name: debs for name, debs in go.items() if debs},
        **images,
    }


def is_shipped(name: str) -> bool:
    """Tell whether a set has a part in the ISO, and is no matter of tests alone."""
    return not name.startswith("testbed")


@dataclass(frozen=True)
class Closure:
    """A set of Debian packages to resolve.

    :param status: of what it stands on; ``None``: nothing.
    """

    name: str
    packages: tuple[str, ...]
    locked: Locked
    status: Path | None


@dataclass(frozen=True)
class MadeBase:
    """A base of our own."""

    packages: tuple[str, ...]
    content: Content


@dataclass(frozen=True)
class PulledBase:
    """A base of somebody else, by digest."""

    reference: str


def locked(context: Context) -> Locked:
    """Return the lock of the profile and how it binds."""
    path = context.layout.pins / context.config.profile / "debian.lock"
    return Locked(path, context.lock_policy, context.config.base_image)


def indexes(context: Context) -> Indexes:
    """Return which indexes the profile believes."""
    pins = context.catalog
    return Indexes(pins.suite, pins.architecture, pins.keyring)


def closure_step(name: str) -> str:
    """Return the step that resolves a set of packages."""
    return f"_debian_closure:{name}"


def task__apt_update() -> Iterator[Task]:
    """Read the signed indexes of the machine's Debian sources."""
    context = current()
    yield Step(
        context.means,
        UPDATE,
        title("UPDATE", f"indexes of Debian {context.catalog.suite}"),
        _refresh,
        indexes(context),
        owns=context.layout.apt,
    ).task()


def _refresh(wanted: Indexes, means: Means) -> Made:
    return archive.refresh(means.layout, wanted)


def minimal_packages(context: Context) -> tuple[str, ...]:
    """Return what the base is resolved for."""
    return ("?essential", "?priority(required)", *context.catalog.base_packages)


def wanted(context: Context) -> dict[str, tuple[str, ...]]:
    """Return every set of Debian packages of this build, by name, and what it is resolved for."""
    alone: dict[str, tuple[str, ...]] = {floor.NAME: floor.PACKAGES}
    if not context.config.base_image:
        alone[floor.BASE] = minimal_packages(context)
    return {**alone, **closures(context)}


def status_below(layout: Layout, name: str) -> Path | None:
    """Return dpkg's status file that a set of packages is resolved on; ``None``: on nothing."""
    return {floor.NAME: layout.floor_status, floor.BASE: layout.base_status}.get(floor.below(name))


def task__debian_closure() -> Iterator[Task]:
    """Resolve and fetch a set of Debian packages."""
    context = current()
    for name, packages in wanted(context).items():
        yield _closure(context, name, packages).task()


def _closure(context: Context, name: str, packages: tuple[str, ...]) -> Step[Closure, Means]:
    on = floor.below(name)
    # What a foreign base has in it is no matter of sets that do not stand on it.
    bound = locked(context) if on == floor.BASE else replace(locked(context), base_image="")
    return Step(
        context.means,
        closure_step(name),
        title("RESOLVE", f"Debian packages for {name}"),
        _close,
        Closure(name, packages, bound, status_below(context.layout, name)),
        needs=(UPDATE, *_below(context, on)),
    )


def _below(context: Context, on: str) -> tuple[str, ...]:
    """Return the steps that made what a set stands on, whose packages identify it."""
    if on == floor.NAME:
        return (FLOOR, closure_step(floor.NAME))
    if on == floor.BASE:
        return (BASE,) if context.config.base_image else (BASE, closure_step(floor.BASE))
    return ()


def _close(closure: Closure, means: Means) -> Made:
    return lock.close(means.layout, closure.locked, closure.name, closure.packages, closure.status)


def task__debian_floor() -> Iterator[Task]:
    """Describe a machine that has the least there is."""
    yield Step(
        current().means,
        FLOOR,
        title("DESCRIBE", "what every Debian machine has"),
        _describe,
        Nothing(),
        needs=(closure_step(floor.NAME),),
    ).task()


def _describe(_nothing: Nothing, means: Means) -> Made:
    return floor.make_status(means.layout)


def task__base_image() -> Iterator[Task]:
    """Make (or pull) the base of all images."""
    context = current()
    yield (_pulled(context) if context.config.base_image else _made(context)).task()


def _pulled(context: Context) -> Step[PulledBase, Means]:
    reference = context.config.base_image
    return Step(
        context.means,
        BASE,
        title("PULL IMAGE", reference),
        _pull,
        PulledBase(reference),
        owns=context.layout.base,
        after=checks("docker"),
    )


def _pull(wanted: PulledBase, means: Means) -> Made:
    with engine.connect(means.binary("docker")) as client:
        return base.pull_base(means.layout, client, wanted.reference)


def _made(context: Context) -> Step[MadeBase, Means]:
    return Step(
        context.means,
        BASE,
        title("BUILD IMAGE", "base"),
        _make,
        MadeBase(context.catalog.base_packages, context.content),
        needs=(closure_step(floor.BASE),),
        code=(signing,),
        owns=context.layout.base,
        after=checks("mmdebstrap", "apt-ftparchive", "gpg"),
    )


def _make(wanted: MadeBase, means: Means) -> Made:
    with signing.local_signer(means.layout, means.signing_key) as signer:
        return base.make_base(means.layout, wanted.packages, wanted.content, signer)


def base_reference(made: Path) -> str:
    """Return the reference of the base that was made.

    :param made: receipt of the step that did.
    """
    return str(receipt.read(made).facts["reference"])


def task__builder_image() -> Iterator[Task]:
    """Make the image that packages are built in."""
    context = current()
    yield Step(
        context.means,
        BUILDER,
        title("BUILD IMAGE", "builder"),
        _build,
        builder(context),
        needs=(closure_step("builder"),),
        after=checks("docker"),
    ).task()


def builder(context: Context) -> BuilderImage:
    """Return what the builder is made of."""
    recipe = context.layout.package_sources("builder") / "Dockerfile"
    return BuilderImage(recipe, context.layout.receipt(BASE))


def _build(wanted: BuilderImage, means: Means) -> Made:
    with engine.connect(means.binary("docker")) as client:
        return Made(facts={"reference": ensure_builder(wanted, means, client)})


def ensure_builder(wanted: BuilderImage, means: Means, client: docker.DockerClient) -> str:
    """Return the builder's reference; it is made again when the engine lost it."""
    return base.ensure_builder(means.layout, client, base_reference(wanted.base), wanted.recipe)
