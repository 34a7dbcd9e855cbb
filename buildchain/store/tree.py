"""What belongs to one image: its manifest or index, what is below, and what refers to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from buildchain.core.errors import ContentError
from buildchain.core.reference import Reference
from buildchain.store import manifest
from buildchain.store.blobs import Store
from buildchain.store.manifest import ALL, Descriptor, Manifest
from buildchain.store.registry import ATTACHED, AbsentError, CorruptError, Endpoint, Registry

# Queues work on an image: what it is, what does it.
Add = Callable[[str, Callable[[Endpoint], None]], None]
TAG = "tag"
REFERRERS = "referrers"


@dataclass(frozen=True)
class Wanted:
    """An image that is to be in the store.

    :param name: what messages call it.
    :param reference: with the digest of a manifest or an index; a tag is compared with it.
    :param platforms: which images of an index, ``os/architecture[/variant]`` or only ``all``.
    :param referrers: bring along what refers to it (signatures, SBOMs).
    """

    name: str
    reference: Reference
    platforms: tuple[str, ...] = ("linux/amd64",)
    referrers: bool = False


@dataclass(frozen=True)
class Pulled:
    """An image that is in the store, with all that belongs to it.

    :param top: what its tag stands for: the one manifest, or an index.
    :param manifests: ``top``, what is below it, and what refers to these; each once.
    :param tags: digests by further tags, where signatures are found.
    """

    wanted: Wanted
    top: Manifest
    manifests: tuple[Manifest, ...]
    tags: Mapping[str, str]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Configurations and layers, each once."""
        found = {blob.digest: blob for m in self.manifests for blob in m.blobs}
        return tuple(found.values())


class Tree:
    """Finds all manifests of an image, in the store or at a registry; used by several threads."""

    def __init__(self, image: Wanted, store: Store, registry: Registry, add: Add) -> None:
        self.image = image
        self._store = store
        self._registry = registry
        self._add = add
        self._found: dict[str, Manifest] = {}
        self._asked: set[str] = set()
        self._referring: dict[str, tuple[str, ...]] = {}
        self._tags: dict[str, str] = {}
        self._guard = threading.Lock()
        self.was_known = False

    def begin(self) -> None:
        """Queue what has to be asked for."""
        reference = self.image.reference
        self._want(reference.digest)
        self.was_known = reference.digest in self._found
        if reference.tag:
            self._add(TAG, self._compare_tag)

    def pulled(self) -> Pulled:
        """Return what was found, once all work is done."""
        top = self._top()
        if top.digest not in self._found:
            self._store.keep(top.content)
        reached: dict[str, Manifest] = {}
        self._reach(top, reached)
        return Pulled(self.image, top, tuple(reached.values()), dict(sorted(self._tags.items())))

    def _top(self) -> Manifest:
        root = self._found[self.image.reference.digest]
        if not root.is_index:
            return root
        chosen = self._chosen(root)
        if self._is_single:
            return self._found[chosen[0].digest]
        return manifest.narrowed(root, chosen)

    @property
    def _is_single(self) -> bool:
        return len(self.image.platforms) == 1 and self.image.platforms[0] != ALL

    def _chosen(self, index: Manifest) -> tuple[Descriptor, ...]:
        if index.digest != self.image.reference.digest:
            return index.children
        return manifest.choose(index, self.image.platforms, str(self.image.reference))

    def _reach(self, start: Manifest, reached: dict[str, Manifest]) -> None:
        if start.digest in reached:
            return
        reached[start.digest] = start
        for child in start.children:
            self._reach(self._found[child.digest], reached)
        for digest in self._referring.get(start.digest, ()):
            self._reach(self._found[digest], reached)

    # -- asking ---------------------------------------------------------------------------------
    def _want(self, digest: str) -> None:
        """Take a manifest out of the store, or queue it."""
        with self._guard:
            if digest in self._asked:
                return
            self._asked.add(digest)
        content = self._store.read(digest.removeprefix("sha256:"))
        if content is not None:
            self._take(manifest.parse(content, "", str(self.image.reference)))
        else:
            self._add(f"manifest {digest}", lambda endpoint: self._fetch(endpoint, digest))

    def _fetch(self, endpoint: Endpoint, digest: str) -> None:
        found = self._registry.manifest(endpoint, digest)
        self._store.keep(found.content)
        self._take(found)

    def _take(self, found: Manifest) -> None:
        self._found[found.digest] = found
        for child in self._chosen(found) if found.is_index else ():
            self._want(child.digest)
        if self.image.referrers:
            what = f"{REFERRERS} of {found.digest}"
            self._add(what, lambda endpoint: self._fetch_referrers(endpoint, found.digest))

    def _fetch_referrers(self, endpoint: Endpoint, digest: str) -> None:
        referring = [found.digest for found in self._registry.referrers(endpoint, digest)]
        for tag, attached in self._attached(endpoint, digest):
            referring.append(attached)
            self._tags[tag] = attached
        self._referring[digest] = tuple(sorted(referring))
        for found in referring:
            self._want(found)

    def _attached(self, endpoint: Endpoint, digest: str) -> Iterator[tuple[str, str]]:
        for suffix in ATTACHED:
            tag = digest.replace(":", "-") + suffix
            try:
                yield tag, self._registry.digest_of(endpoint, tag)
            except AbsentError:
                continue

    def _compare_tag(self, endpoint: Endpoint) -> None:
        """Compare what the tag stands for with the pin.

        :raises ContentError: it stands for something else now.
        """
        reference = self.image.reference
        now = self._registry.digest_of(endpoint, reference.tag)
        if now == reference.digest:
            return
        found = self._registry.manifest(endpoint, reference.tag)
        if found.digest != now:
            raise CorruptError(f"{reference}: {endpoint.host} gives two digests for the tag")
        # One image of an index may be pinned as well as the index.
        if reference.digest in [child.digest for child in found.children]:
            return
        raise ContentError(
            f"the tag {reference.tag} of {reference.registry}/{reference.repository} has moved: "
            f"{reference.digest} is pinned, {endpoint.host} has {now}",
            solution="Review what changed upstream, then pin the new digest in the profile's "
            "images.toml, or pin without the tag.",
        )
