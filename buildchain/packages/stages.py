"""What the stages of a package are told: of its pin what each needs, and no more.

A stage runs again when its record changes: one with more in it would compile for hours what comes
out as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildchain.core.record import Later
from buildchain.debian.base import BuilderImage
from buildchain.project.model import Source


@dataclass(frozen=True)
class Named:
    """A package, by its name."""

    name: str


@dataclass(frozen=True)
class Pinned(Named):
    """A package that is compared with its spec.

    :param archives: file names of what is fetched for it.
    """

    version: str
    release: str
    archives: tuple[str, ...]
    rpms: tuple[str, ...]


@dataclass(frozen=True)
class Sourced(Named):
    """A package whose sources are collected.

    :param bundles: file names of the archives that many small inputs are packed into.
    """

    sources: tuple[Source, ...]
    bundles: tuple[str, ...]
    wheels: str


@dataclass(frozen=True)
class Compiled(Named):
    """A package that is compiled.

    :param archives: what ``prepare.sh`` unpacks, in order.
    """

    archives: tuple[str, ...]
    binaries: tuple[str, ...]


@dataclass(frozen=True)
class Rpms(Named):
    """A package of which RPMs are made."""

    rpms: tuple[str, ...]


@dataclass(frozen=True)
class Debs(Named):
    """A package of which DEBs are made."""

    debs: tuple[str, ...]


@dataclass(frozen=True)
class Described(Named):
    """A package of which a Debian source package is made."""

    version: str
    archives: tuple[str, ...]


@dataclass(frozen=True)
class ReadSpec:
    """Reading a spec.

    :param files: the spec, and what else says for which machines the package is.
    :param local: names of files of the package's folder that the spec may name.
    """

    package: Pinned
    files: tuple[Path, ...]
    local: tuple[str, ...]


@dataclass(frozen=True)
class GetSources:
    """Collecting sources.

    :param local: files of the package's folder that the spec may name.
    :param epoch: date of what is in bundles, seconds since 1970; ``None``: there are none.
    """

    package: Sourced
    local: tuple[Path, ...]
    epoch: int | None


@dataclass(frozen=True)
class Compile:
    """Compiling.

    :param local: files of the package's folder that are among its sources.
    :param patches: names of those that are applied, in order, as the spec says.
    :param is_cold: with an empty cache.
    """

    package: Compiled
    local: tuple[Path, ...]
    patches: Later[tuple[str, ...]]
    builder: BuilderImage
    is_cold: bool


@dataclass(frozen=True)
class BuildSrpm:
    """Making a source RPM; ``epoch`` dates what is in it."""

    package: Named
    spec: Path
    builder: BuilderImage
    epoch: int


@dataclass(frozen=True)
class BuildRpms:
    """Making RPMs; ``epoch`` dates the sources."""

    package: Rpms
    spec: Path
    builder: BuilderImage
    epoch: int


@dataclass(frozen=True)
class BuildDebs:
    """Making DEBs of what was compiled and of a package's files."""

    package: Debs
    files: tuple[Path, ...]
    builder: BuilderImage


@dataclass(frozen=True)
class BuildDsc:
    """Making a Debian source package of a package's files; ``epoch`` dates what is in it."""

    package: Described
    files: tuple[Path, ...]
    builder: BuilderImage
    epoch: int
