"""Every path of a build and of the ISO, as properties of one object."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Paths below the checkout, the build root and the cache.

    :param root: the checkout.
    :param build: ``BUILD_ROOT``; everything below it can be deleted and built again.
    :param cache: ``CACHE_ROOT``; outlives ``clean``.
    :param project: lower-case name of the product, the ISO's file name.
    :param public_keys: ``SIGNING_PUBLIC_KEY``, if the keys that sign are elsewhere.
    """

    root: Path
    build: Path
    cache: Path
    project: str
    public_keys: Path | None = None

    # -- the checkout ---------------------------------------------------------------------------
    @property
    def pins(self) -> Path:
        return self.root / "buildchain" / "pins"

    def package_sources(self, name: str) -> Path:
        return self.root / "packages" / name

    def image_sources(self, name: str) -> Path:
        return self.root / "images" / name

    def program_sources(self, name: str) -> Path:
        """Return where a program of ours is that runs in the cluster."""
        return self.root / "operators" / name

    @property
    def salt_sources(self) -> Path:
        return self.root / "salt"

    # -- the cache ------------------------------------------------------------------------------
    @property
    def store(self) -> Path:
        """Blobs by SHA-256, however they came."""
        return self.cache / "store"

    @property
    def go_cache(self) -> Path:
        """Caches of the Go compiler, a folder for each package."""
        return self.cache / "go-build"

    def resolution(self, identity: str) -> Path:
        """What a set of Debian packages meant when the archive could be reached (JSON)."""
        return self.cache / "resolutions" / f"{identity}.json"

    @property
    def compiled_cache(self) -> Path:
        """What packages compiled, by package and by what it was compiled from."""
        return self.cache / "compiled"

    @property
    def made_cache(self) -> Path:
        """What steps made, by step and by all that decides it."""
        return self.cache / "made"

    @property
    def conformance_cache(self) -> Path:
        """Kubernetes' own tests, compiled, a folder for each set of sources."""
        return self.cache / "conformance"

    @property
    def development_key(self) -> Path:
        """Secret OpenPGP key of this machine's builds, ASCII armour, mode 0600."""
        return self.cache / "keys" / "development.key"

    @property
    def publication(self) -> Path:
        """Which lists of releases were seen where; an older one is refused."""
        return self.cache / "publication"

    # -- the build root -------------------------------------------------------------------------
    @property
    def temporary(self) -> Path:
        """What is being made; the next build removes what a killed one left here."""
        return self.build / "tmp"

    def scratch(self, prefix: str) -> tempfile.TemporaryDirectory[str]:
        """Return a new folder that goes away with the block it is made for."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=prefix, dir=self.temporary)

    def receipt(self, name: str) -> Path:
        """What a step made, see :mod:`buildchain.core.receipt`."""
        return self.build / "receipts" / f"{name.replace(':', '.').lstrip('_')}.json"

    @property
    def apt(self) -> Path:
        """Private APT state: the machine's Debian sources, our own lists and cache."""
        return self.build / "apt"

    def closure(self, name: str) -> Path:
        """Resolved package list of one set of Debian packages (JSON)."""
        return self.build / "closures" / f"{name}.json"

    @property
    def base(self) -> Path:
        return self.build / "base"

    @property
    def base_tar(self) -> Path:
        return self.base / "base.tar"

    @property
    def base_status(self) -> Path:
        """The dpkg status file of the base: what other packages of images stand on."""
        return self.base / "status"

    @property
    def floor_status(self) -> Path:
        """The dpkg status file of the least a machine has: what the ISO's packages stand on."""
        return self.build / "floor" / "status"

    @property
    def builder(self) -> Path:
        return self.build / "builder"

    def package(self, name: str) -> Path:
        return self.build / "packages" / name

    def rpm_repository(self, release: str) -> Path:
        """Repository for a major version of EL."""
        return self.build / "repositories" / "redhat" / f"metalk8s-el{release}"

    @property
    def signed_rpms(self) -> Path:
        """Signed copies of our RPMs, which the repositories are made of."""
        return self.build / "signed"

    @property
    def rpm_keys(self) -> Path:
        """Public keys of other people's RPMs, ``<major version>/<repository>.asc``."""
        return self.build / "repositories" / "redhat" / "keys"

    @property
    def deb_repository(self) -> Path:
        return self.build / "repositories" / "debian" / "metalk8s"

    @property
    def images(self) -> Path:
        """Image trees in the layout of the spec's chapter 12.2."""
        return self.build / "images"

    def image(self, name: str, version: str) -> Path:
        return self.images / name / version

    @property
    def registry_config(self) -> Path:
        return self.build / "registry"

    @property
    def salt_tree(self) -> Path:
        return self.build / "salt_tree"

    @property
    def documents(self) -> Path:
        """The manual, laid out as on the ISO."""
        return self.build / "documents"

    @property
    def keys(self) -> Path:
        return self.build / "keys"

    @property
    def signatures(self) -> Path:
        """What is to be signed elsewhere and what was, :mod:`buildchain.signatures.folder`."""
        return self.build / "signatures"

    @property
    def conformance(self) -> Path:
        """Kubernetes' own tests and the image that their pods run."""
        return self.build / "conformance"

    @property
    def product(self) -> Path:
        return self.build / "product.txt"

    @property
    def iso_root(self) -> Path:
        return self.build / "root"

    @property
    def iso(self) -> Path:
        return self.build / f"{self.project}.iso"

    @property
    def sources_root(self) -> Path:
        """Tree of the medium with the sources of what we compile."""
        return self.build / "sources" / "root"

    @property
    def sources_iso(self) -> Path:
        return self.build / "sources" / f"{self.project}-sources.iso"

    @property
    def inputs(self) -> Path:
        """Everything that the ISO is made of, as one archive."""
        return self.build / f"{self.project}-inputs.tar"

    @property
    def release(self) -> Path:
        """What is handed on, under names that carry the version."""
        return self.build / "release"

    @property
    def log(self) -> Path:
        return self.build / "build.log"
