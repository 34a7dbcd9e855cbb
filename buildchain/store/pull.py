"""Images by digest into the store: manifests first, then every blob that is missing, once.

No blob is asked for before all manifests agree with the pins, so a tag that moved or a platform
that is missing is told within seconds, and how much is to come is known from then on.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Sequence

from buildchain.core import events
from buildchain.core.errors import BuildError, FetchError, SpaceError
from buildchain.store import partial
from buildchain.store.blobs import Store
from buildchain.store.failure import TransferError
from buildchain.store.jobs import ATTEMPTS, Job, Jobs
from buildchain.store.manifest import Descriptor
from buildchain.store.registry import Endpoint, Registry
from buildchain.store.sources import Sources
from buildchain.store.tree import REFERRERS, TAG, Pulled, Tree, Wanted

HASTE = 2  # attempts to compare a tag when the image is here already
MEGA = 1_000_000
KEPT = "Check the network and the pins, then run the same again: what came is kept."


def pull(images: Sequence[Wanted], store: Store, sources: Sources) -> list[Pulled]:
    """Fetch what is missing of some images.

    :raises FetchError: naming each image that cannot be had, and why.
    :raises SpaceError: it will not fit.
    """
    trees, failures = _manifests(images, store, sources)
    _raise(failures, len(images))
    pulled = [tree.pulled() for tree in trees]
    _raise(_blobs(pulled, store, sources), len(images))
    return pulled


def _manifests(
    images: Sequence[Wanted], store: Store, sources: Sources
) -> tuple[list[Tree], dict[str, BaseException]]:
    jobs = Jobs()
    registry = sources.registry(jobs.stopped)
    owners: dict[str, Tree] = {}

    def add(image: Wanted, what: str, action: Callable[[Endpoint], None]) -> None:
        key = f"{image.name}: {what}"
        tree = by_name[image.name]
        owners[key] = tree
        places = sources.endpoints(image.reference)
        if what.startswith(REFERRERS):
            # A mirror that knows of none proves nothing.
            places = places[-1:]
        attempts = HASTE if what == TAG and tree.was_known else ATTEMPTS
        jobs.add(Job(key, action, places, attempts=attempts))

    by_name = {i.name: Tree(i, store, registry, functools.partial(add, i)) for i in images}
    failures: dict[str, BaseException] = {}
    for name, tree in by_name.items():
        try:
            tree.begin()
        except BuildError as problem:
            failures[name] = problem
    for key, error in jobs.run().items():
        tree = owners[key]
        if key.endswith(f": {TAG}") and tree.was_known and isinstance(error, TransferError):
            events.note(f"{tree.image.reference} is here; its tag is not compared: {error.reason}")
        else:
            failures.setdefault(tree.image.name, error)
    return list(by_name.values()), failures


def _blobs(pulled: Sequence[Pulled], store: Store, sources: Sources) -> dict[str, BaseException]:
    missing: dict[str, tuple[Descriptor, list[Wanted]]] = {}
    for image in pulled:
        for blob in image.blobs:
            if not store.has(blob.hex, blob.size):
                missing.setdefault(blob.digest, (blob, []))[1].append(image.wanted)
    blobs = [blob for blob, _ in missing.values()]
    total = sum(blob.size for blob in blobs)
    _check_room(store, blobs)
    jobs = Jobs(_Progress(total).tell)
    registry = sources.registry(jobs.stopped)
    for blob, images in missing.values():
        places = dict.fromkeys(place for i in images for place in sources.endpoints(i.reference))
        jobs.add(_Transfer(store, registry, blob).job(tuple(places)))
    failures: dict[str, BaseException] = {}
    for digest, error in jobs.run().items():
        for wanted in missing[digest][1]:
            failures.setdefault(wanted.name, error)
    return failures


def _check_room(store: Store, wanted: Iterable[Descriptor]) -> None:
    store.partials.mkdir(parents=True, exist_ok=True)
    # What an earlier pull left has its room already.
    total = sum(max(0, b.size - partial.claimed(store.partials, b.hex)) for b in wanted)
    free = shutil.disk_usage(store.partials).free
    if total > free:
        raise SpaceError(
            f"{total // MEGA} MB of images are to come and {store.root} has room for "
            f"{free // MEGA} MB",
            solution="Free some room or set CACHE_ROOT in .env to a larger file system.",
        )


def _raise(failures: dict[str, BaseException], count: int) -> None:
    if not failures:
        return
    reasons = [
        f"{name}: {e.reason if isinstance(e, BuildError | TransferError) else e}"
        for name, e in sorted(failures.items())
    ]
    solutions = {e.solution if isinstance(e, BuildError) else KEPT for e in failures.values()}
    raise FetchError(
        f"{len(failures)} of {count} images cannot be pulled: {'; '.join(reasons)}",
        solution=" ".join(sorted(solutions)),
    )


class _Progress:
    """Tells how far it is; never goes back, whatever has to be fetched again."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._most = -1

    def tell(self, done: int) -> None:
        """Tell that so many bytes are there."""
        if done // MEGA > self._most:
            self._most = done // MEGA
            events.progress("images", self._most, self._total // MEGA, "MB")


class _Transfer:
    """One blob on its way into the store."""

    def __init__(self, store: Store, registry: Registry, wanted: Descriptor) -> None:
        self._store = store
        self._registry = registry
        self._wanted = wanted
        self._part: partial.Partial | None = None

    def job(self, endpoints: Sequence[Endpoint]) -> Job:
        """Return what brings it."""
        return Job(
            self._wanted.digest, self._run, endpoints, self._wanted.size, offset=self._offset
        )

    def _offset(self) -> int:
        return self._part.offset if self._part is not None else 0

    def _run(self, endpoint: Endpoint) -> None:
        wanted = self._wanted
        with partial.opened(self._store.partials, wanted.hex) as self._part:
            if self._store.has(wanted.hex, wanted.size):
                # Another build was quicker while this one waited for its lock.
                self._part.discard()
            else:
                self._registry.blob(endpoint, wanted, self._part)
                self._part.move(self._store.path(wanted.hex))
