"""The proof that the medium is complete, and that what is said of vulnerabilities is true.

::

    _iso_populate ──> _iso_check ──> _iso_build

Leaves nothing: what is wrong stops the build before there is an ISO. A build with a release key
also refuses vulnerabilities that are open above the level of the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.core.receipt import Made, sources
from buildchain.core.step import Step, Task, group, title
from buildchain.debian import floor, lock, version
from buildchain.debian.steps import FLOOR
from buildchain.images import registry
from buildchain.medium import contents, package_index
from buildchain.medium import steps as medium
from buildchain.packages import bundles
from buildchain.project import vulnerabilities
from buildchain.project.context import Context, current
from buildchain.proof import (
    completeness,
)
from buildchain.proof import vulnerabilities as proof


def _check(context: Context) -> Step:
    pins = context.catalog
    return Step(
        context.layout,
        medium.CHECK,
        title("CHECK", "nothing is missing on the ISO"),
        functools.partial(_prove, context),
        inputs=(
            context.layout.pins / vulnerabilities.NAME,
            *sources(context.layout.root.glob("packages/*/patches")),
        ),
        needs=(medium.POPULATE, FLOOR),
        config={
            "declared": pins.unused_images,
            "given": pins.redhat_minimal,
            "release": bool(context.config.signing_key),
        },
        code=(
            *(floor, lock, version, bundles, registry, contents, package_index),
            vulnerabilities,
        ),
    )


def _prove(context: Context) -> Made:
    _prove_vulnerabilities(context)
    given = {"debian": floor.names(context.layout), "redhat": context.catalog.redhat_minimal}
    with contents.opened(context.layout.iso_root) as there:
        completeness.prove(there, context.catalog.unused_images, given)
    return Made()


def _prove_vulnerabilities(context: Context) -> None:
    table = vulnerabilities.read(context.layout.pins)
    components = proof.pinned(context.layout, context.config.profile, context.catalog)
    proof.prove(context.layout, table, components)
    if context.config.signing_key:
        proof.refuse(table)


def task__iso_check() -> Iterator[Task]:
    """Check that everything the ISO refers to is on it, and nothing else."""
    yield _check(current()).task()


def task_check() -> Task:
    """Check that nothing is missing on the ISO."""
    doc = "Check that everything the ISO refers to is on it, and nothing else (part of iso)."
    return group("check", doc, [_check(current())], after=("populate_iso",))
