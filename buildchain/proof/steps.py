"""The proof that the medium is complete, and that what is said of vulnerabilities is true.

::

    _iso_populate ──> _iso_check ──> _iso_build

Leaves nothing: what is wrong stops the build before there is an ISO. A build with a release key
also refuses vulnerabilities that are open above the level of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.receipt import Made, sources
from buildchain.core.step import Step, Task, group, title
from buildchain.debian import floor, lock, version
from buildchain.debian import steps as debian
from buildchain.images import registry
from buildchain.medium import contents, package_index
from buildchain.medium import steps as medium
from buildchain.packages import bundles
from buildchain.packages import steps as packages
from buildchain.project import vulnerabilities
from buildchain.project.context import Context, current
from buildchain.project.means import Means
from buildchain.proof import completeness
from buildchain.proof import vulnerabilities as proof
from buildchain.proof.vulnerabilities import Ours


@dataclass(frozen=True)
class Claims:
    """What is said of the medium, and has to be true.

    :param unused: images that nothing has to refer to, with the reason.
    :param minimal: names of RPMs that machines have without us.
    :param table: of vulnerabilities; what it says is compared with the lock, our pins and patches.
    :param patches: of our packages.
    :param sources: receipts of the steps that collected sources, with Debian's patches.
    :param is_release: vulnerabilities above the level of the table are refused.
    """

    unused: Mapping[str, str]
    minimal: tuple[str, ...]
    table: Path
    locked: Path
    pins: tuple[Ours, ...]
    patches: tuple[Path, ...]
    sources: tuple[Path, ...]
    is_release: bool


def _check(context: Context) -> Step[Claims, Means]:
    layout, pins = context.layout, context.catalog
    return Step(
        context.means,
        medium.CHECK,
        title("CHECK", "nothing is missing on the ISO"),
        _prove,
        Claims(
            pins.unused_images,
            pins.redhat_minimal,
            layout.pins / vulnerabilities.NAME,
            debian.locked(context).path,
            proof.ours(layout, pins),
            tuple(sources(layout.root.glob("packages/*/patches"))),
            packages.receipts(context, "pkg_get_source", pins.packages),
            bool(context.config.signing_key),
        ),
        needs=(medium.POPULATE, debian.FLOOR),
        code=(
            *(floor, lock, version, bundles, registry, contents, package_index),
            vulnerabilities,
        ),
    )


def _prove(wanted: Claims, means: Means) -> Made:
    _prove_vulnerabilities(wanted, means)
    given = {"debian": floor.names(means.layout), "redhat": wanted.minimal}
    with contents.opened(means.layout.iso_root) as there:
        completeness.prove(there, wanted.unused, given)
    return Made()


def _prove_vulnerabilities(wanted: Claims, means: Means) -> None:
    table = vulnerabilities.read(wanted.table.parent)
    proof.prove(means.layout, table, proof.pinned(wanted.locked, wanted.pins))
    if wanted.is_release:
        proof.refuse(table)


def task__iso_check() -> Iterator[Task]:
    """Check that everything the ISO refers to is on it, and nothing else."""
    yield _check(current()).task()


def task_check() -> Task:
    """Check that nothing is missing on the ISO."""
    doc = "Check that everything the ISO refers to is on it, and nothing else (part of iso)."
    return group("check", doc, [_check(current())], after=("populate_iso",))
