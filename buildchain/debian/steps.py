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

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, title
from buildchain.debian import archive, base, floor, lock
from buildchain.debian.archive import closure_name
from buildchain.debian.lock import Locked
from buildchain.machine import engine
from buildchain.machine.steps import checks
from buildchain.project.context import Context, current
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
    go = {closure_name(package): package.go_debs for package in pins.packages}
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


def locked(context: Context) -> Locked:
    """Return the lock of the profile and how it binds."""
    path = context.layout.pins / context.config.profile / "debian.lock"
    return Locked(path, context.lock_policy, context.config.base_image)


def closure_step(name: str) -> str:
    """Return the step that resolves a set of packages."""
    return f"_debian_closure:{name}"


def recipe(context: Context) -> Path:
    """Return the builder's Dockerfile."""
    return context.layout.package_sources("builder") / "Dockerfile"


def task__apt_update() -> Iterator[Task]:
    """Read the signed indexes of the machine's Debian sources."""
    context = current()
    pins = context.catalog
    yield Step(
        context.layout,
        UPDATE,
        title("UPDATE", f"indexes of Debian {pins.suite}"),
        functools.partial(archive.refresh, context.layout, pins),
        config={"suite": pins.suite, "architecture": pins.architecture, "key": str(pins.keyring)},
        owns=context.layout.apt,
    ).task()


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


def _closure(context: Context, name: str, packages: tuple[str, ...]) -> Step:
    below = {floor.NAME: (FLOOR,), floor.BASE: (BASE,)}.get(floor.below(name), ())
    status = status_below(context.layout, name)
    return Step(
        context.layout,
        closure_step(name),
        title("RESOLVE", f"Debian packages for {name}"),
        functools.partial(lock.close, context.layout, locked(context), name, packages, status),
        inputs=(locked(context).path,) if locked(context).path.is_file() else (),
        needs=(UPDATE, *below),
        config={"packages": packages, "policy": context.lock_policy},
    )


def task__debian_floor() -> Iterator[Task]:
    """Describe a machine that has the least there is."""
    context = current()
    yield Step(
        context.layout,
        FLOOR,
        title("DESCRIBE", "what every Debian machine has"),
        functools.partial(floor.make_status, context.layout),
        needs=(closure_step(floor.NAME),),
    ).task()


def task__base_image() -> Iterator[Task]:
    """Make (or pull) the base of all images."""
    context = current()
    reference = context.config.base_image
    yield Step(
        context.layout,
        BASE,
        title("PULL IMAGE", reference) if reference else title("BUILD IMAGE", "base"),
        functools.partial(_base, context),
        needs=() if reference else (closure_step("base"),),
        config={
            "reference": reference,
            "packages": context.catalog.base_packages,
            "content": context.catalog.content_epoch,
        },
        code=(signing,),
        owns=context.layout.base,
        after=checks("docker") if reference else checks("mmdebstrap", "apt-ftparchive", "gpg"),
    ).task()


def _base(context: Context) -> Made:
    if context.config.base_image:
        with engine.connect(context.config.binary("docker")) as client:
            return base.pull_base(context.layout, client, context.config.base_image)
    with signing.local_signer(context.layout, context.config.signing_key) as signer:
        packages = context.catalog.base_packages
        return base.make_base(context.layout, packages, context.content, signer)


def base_reference(context: Context) -> str:
    """Return the reference of the base that was made."""
    return str(receipt.read(context.layout.receipt(BASE)).facts["reference"])


def task__builder_image() -> Iterator[Task]:
    """Make the image that packages are built in."""
    context = current()
    yield Step(
        context.layout,
        BUILDER,
        title("BUILD IMAGE", "builder"),
        functools.partial(_builder, context),
        inputs=(recipe(context),),
        needs=(BASE, closure_step("builder")),
        after=checks("docker"),
    ).task()


def _builder(context: Context) -> Made:
    with engine.connect(context.config.binary("docker")) as client:
        return Made(facts={"reference": ensure_builder(context, client)})


def ensure_builder(context: Context, client: docker.DockerClient) -> str:
    """Return the builder's reference; it is made again when the engine lost it."""
    return base.ensure_builder(context.layout, client, base_reference(context), recipe(context))
