"""The builder of packages: a container of the pinned image, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.layout import Layout
from buildchain.machine import engine
from buildchain.project.model import Package


@dataclass(frozen=True)
class Builder:
    """Where packages are built.

    :param reference: image in the engine.
    :param docker: Docker command that names the engine.
    :param build_root: whose builds these are: names of containers differ by it.
    :param epoch: date of files in source packages, seconds since 1970; all else is dated by the
        packages' own changelogs.
    :param is_cold: compile everything, with an empty cache: nothing of an earlier build, or of
        another package, gets into a release.
    """

    reference: str
    docker: str
    epoch: int
    build_root: Path
    is_cold: bool = False


def scratch(layout: Layout, package: Package, purpose: str) -> Path:
    """Return an empty scratch folder of the build root (large trees do not fit into memory)."""
    folder = layout.package(package.name) / f".work-{purpose}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run(
    builder: Builder,
    name: str,
    argv: list[str],
    mounts: Mapping[Path, str],
    *,
    writable: tuple[Path, ...],
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command in the builder, in ``/work``, and return its output.

    :param name: of the container, within this build.
    :param mounts: folders of this machine, to their places in the builder.
    :param writable: which of them the command may change.
    :raises CommandError: it failed.
    """
    job = engine.Run(
        name=engine.own_name(builder.build_root, name),
        image=builder.reference,
        argv=argv,
        mounts=mounts,
        writable=frozenset(writable),
        environment=environment or {},
        workdir="/work",
    )
    with engine.connect(builder.docker) as client:
        return engine.run(client, job)
