"""Frozen records of what the pins describe."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar


@dataclass(frozen=True)
class Version:
    """Version of the product."""

    major: int
    minor: int
    patch: int
    suffix: str

    @property
    def short(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def full(self) -> str:
        base = f"{self.short}.{self.patch}"
        return f"{base}-{self.suffix}" if self.suffix else base


@dataclass(frozen=True)
class Source:
    """One upstream file, identified by content.

    :param package: Debian source package it belongs to.
    """

    file: str
    sha256: str
    package: str = ""
    version: str = ""


@dataclass(frozen=True)
class Package:
    """Something we compile once and package for both families.

    :param release: of the packages, counted by us.
    :param binaries: what the compilation leaves, by file name.
    :param rpms: binary RPM names.
    :param debs: binary DEB names.
    :param go_debs: Debian packages whose Go sources (with all they need) are a bundle.
    :param wheels: file of the package's folder that lists Python distributions and their SHA-256
        as ``sha256sum`` does; they are a bundle. Empty: none.
    """

    name: str
    version: str
    release: str
    binaries: tuple[str, ...]
    rpms: tuple[str, ...]
    debs: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    go_debs: tuple[str, ...] = ()
    wheels: str = ""

    @property
    def bundles(self) -> tuple[str, ...]:
        """File names of the archives that many small inputs are packed into."""
        kinds = [kind for kind, has in (("gocode", self.go_debs), ("wheels", self.wheels)) if has]
        return tuple(f"{self.name}-{self.version}-{kind}.tar" for kind in kinds)

    @property
    def archives(self) -> tuple[str, ...]:
        """File names of what ``prepare.sh`` unpacks, in order."""
        return (*(source.file for source in self.sources), *self.bundles)


@dataclass(frozen=True)
class Image:
    """A container image that we build from a folder of ``images/``.

    :param debs: Debian packages installed into it.
    :param version_of: the one of ``debs`` whose upstream version is the tag, or empty.
    :param packages: DEBs of ours installed into it; what they need of Debian is in ``debs``.
    :param binaries: ``<package>/<file>`` of what we compile.
    :param programs: folders of ``operators/`` whose Python packages go into it.
    :param from_scratch: no base below it.
    :param unused: why it is on the ISO though nothing there refers to it; empty: something does.
    """

    name: str
    version: str
    title: str
    licenses: str
    debs: tuple[str, ...] = ()
    version_of: str = ""
    packages: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    from_scratch: bool = False
    unused: str = ""


@dataclass(frozen=True)
class PulledImage:
    """A container image that comes from a registry as it is, by digest.

    :param reference: ``registry/path[:tag]``; the build stops when the tag has moved.
    :param digest: of its manifest or index.
    :param version: tag on the ISO; empty: that of ``reference``.
    :param platforms: which images of an index, ``os/architecture[/variant]``. With more than one
        the index is kept with these only; with ``["all"]`` as it is.
    :param referrers: bring along what refers to it: signatures, SBOMs.
    :param aliases: further ``name:version`` on the ISO.
    :param unused: why it is on the ISO though nothing there refers to it; empty: something does.
    """

    name: str
    reference: str
    digest: str
    version: str = ""
    platforms: tuple[str, ...] = ("linux/amd64",)
    referrers: bool = False
    aliases: tuple[str, ...] = ()
    unused: str = ""

    @property
    def tag(self) -> str:
        """What :attr:`version` means."""
        return self.version or self.reference.rpartition("/")[2].partition(":")[2]


@dataclass(frozen=True)
class Tool:
    """A program the build needs on the machine.

    :param option: key of :attr:`Config.binaries` when it can be configured.
    :param version: arguments that make it tell its version.
    :param minimum: lowest version that will do, or empty.
    :param reason: what for, completes "needed to …".
    :param purposes: ``build``, ``test``, ``vagrant``, …: who needs it.
    :param server: program that has to answer the tool, from the same package; empty when none has.
    """

    name: str
    package: str
    reason: str
    purposes: tuple[str, ...]
    option: str = ""
    version: tuple[str, ...] = ("--version",)
    minimum: str = ""
    server: str = ""


@dataclass(frozen=True)
class PackageFile:
    """One binary package file of a repository.

    :param version: with epoch (where it is not 0) and release.
    :param file: path, relative to the root of the repository.
    :param size: bytes of the file.
    """

    name: str
    version: str
    architecture: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class DebianFile(PackageFile):
    """One binary package file of Debian's archive."""

    @property
    def revision(self) -> str:
        """What tells one version from another."""
        return self.version

    @property
    def pool_name(self) -> str:
        """File name in a repository: without the epoch, whose colon URIs cannot carry."""
        return f"{self.name}_{self.version.split(':', 1)[-1]}_{self.architecture}.deb"


@dataclass(frozen=True)
class RedhatRepository:
    """A repository of RPMs.

    :param url: folder that has ``repodata`` (``https:``, ``http:`` or ``file:``), in which
        ``$releasever`` stands for the major version of EL.
    :param key: public key, ASCII armour, that signs its packages.
    :param is_signed: that key signs its metadata too (``repomd.xml.asc``).
    """

    name: str
    url: str
    key: Path
    is_signed: bool = True


@dataclass(frozen=True)
class RedhatFile:
    """One binary package file of a repository (size in bytes)."""

    name: str
    epoch: int
    version: str
    release: str
    architecture: str
    file: str
    size: int
    sha256: str
    repository: str

    @property
    def revision(self) -> str:
        """Epoch, unless it is 0, version and release, as dnf writes them."""
        epoch = f"{self.epoch}:" if self.epoch else ""
        return f"{epoch}{self.version}-{self.release}"


File = TypeVar("File", DebianFile, RedhatFile)
_WORD = r"[A-Za-z0-9][A-Za-z0-9+.:~^_%-]*"
# They become parts of paths and of command lines: none leads with a dot or a dash.
_FORMS = {
    "name": _WORD,
    "version": _WORD,
    "release": _WORD,
    "architecture": _WORD,
    "repository": _WORD,
    "file": rf"{_WORD}(?:/{_WORD})*",
    "sha256": "[0-9a-f]{64}",
}
_LEAST = {"size": 1, "epoch": 0}


def package_file(kind: type[File], entry: object) -> File:
    """Return a package as a lock, a resolution or a closure (JSON) describes it.

    Everything that is read from such a file comes through here.

    :raises ValueError: naming every field that is not what it should be.
    """
    expected = {field.name for field in dataclasses.fields(kind)}
    if not isinstance(entry, dict) or entry.keys() != expected:
        raise ValueError(f"expected {', '.join(sorted(expected))} of a package, got {entry!r:.80}")
    if problems := list(_problems(entry)):
        raise ValueError(f"package {entry['name']!r:.80}: {', '.join(problems)}")
    return kind(**entry)


def _problems(entry: Mapping[str, object]) -> Iterator[str]:
    for name, value in entry.items():
        if name in _FORMS:
            is_good = isinstance(value, str) and re.fullmatch(_FORMS[name], value) is not None
        else:
            is_good = type(value) is int and value >= _LEAST[name]
        if not is_good:
            yield f"{value!r:.80} is no {'SHA-256' if name == 'sha256' else name}"


@dataclass(frozen=True)
class Content:
    """Settings of all packages and images: suite, architecture, date (seconds since 1970)."""

    suite: str
    architecture: str
    epoch: int
