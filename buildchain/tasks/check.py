"""The proof that the medium is complete, and that what is said of vulnerabilities is true.

::

    _iso_populate ──> _iso_check ──> _iso_build

Leaves nothing: what is wrong stops the build before there is an ISO. A build with a release key
also refuses vulnerabilities that are open above the level of the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain import vulnerabilities
from buildchain.actions import (
    completeness,
    contents,
    floor,
    image_check,
    medium_check,
    package_check,
    script_check,
    states,
)
from buildchain.actions import vulnerabilities as proof
from buildchain.receipt import Made, sources
from buildchain.targets.step import Step, Task, group, title
from buildchain.tasks import iso
from buildchain.tasks.context import Context, current
from buildchain.tasks.foundations import FLOOR
from buildchain.tools import debian_version, package_index


def _check(context: Context) -> Step:
    pins = context.catalog
    return Step(
        context.layout,
        iso.CHECK,
        title("CHECK", "nothing is missing on the ISO"),
        functools.partial(_prove, context),
        # By its file, not as a module: it stands on a library that only a check needs.
        inputs=(
            context.layout.root / "buildchain" / "tools" / "salt_jinja.py",
            context.layout.pins / vulnerabilities.NAME,
            *sources(context.layout.root.glob("packages/*/patches")),
        ),
        needs=(iso.POPULATE, FLOOR),
        config={
            "declared": pins.unused_images,
            "given": pins.redhat_minimal,
            "release": bool(context.config.signing_key),
        },
        code=(
            *(completeness, contents, image_check, medium_check, package_check, script_check),
            *(states, package_index, proof, debian_version, vulnerabilities, floor),
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
