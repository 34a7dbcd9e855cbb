"""A place that pulls: a store, and the registries it reaches."""

from __future__ import annotations

from pathlib import Path

from buildchain.core import reference
from buildchain.store import pull
from buildchain.store.blobs import Store
from buildchain.store.sources import Access, Sources
from buildchain.store.tree import Pulled, Wanted
from tests.registries import faulty, image_set


class Site:
    """A store, and how it reaches registries."""

    def __init__(self, folder: Path, *served: faulty.Faulty, **more: object) -> None:
        self.served = served
        self.store = Store(folder / "store")
        self.access = Access(tuple(one.address for one in served), **more)

    def wanted(self, *names: str, **more: object) -> list[Wanted]:
        """Return pins of what the first registry has under the tag 1.0 (of all by default)."""
        one = self.served[0]
        found = {n: image_set.digest(c) for (n, tag), c in one.manifests.items() if tag == "1.0"}
        return [
            Wanted(name, reference.parse(f"{one.address}/{name}:1.0@{found[name]}"), **more)
            for name in names or sorted(found)
        ]

    def pull(self, images: list[Wanted] | None = None) -> list[Pulled]:
        with Sources(self.access) as sources:
            return pull.pull(images or self.wanted(), self.store, sources)

    def check(self, pulled: list[Pulled]) -> None:
        """Everything is there and right, and nothing else is."""
        digests = set()
        for image in pulled:
            for found in image.manifests:
                assert self.store.read(found.digest.removeprefix("sha256:")) == found.content
                digests.add(found.digest)
            for blob in image.blobs:
                content = self.store.path(blob.hex).read_bytes()
                assert content == self.served[0].blobs[blob.digest]
                digests.add(blob.digest)
        there = {f"sha256:{p.name}" for p in (self.store.root / "sha256").glob("*/*")}
        assert there >= digests
        assert list(self.store.partials.glob("*")) == []
