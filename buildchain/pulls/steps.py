"""Images that come from registries; a profile that pins none has none of these steps.

::

    _images_fetch ──> _image_pull:<name> ──> _image_dedup_layers, _registry_config

One queue fetches all of them, so that a blob comes once and the largest comes first; the store in
``CACHE_ROOT`` keeps it. Then each becomes ``_build/images/<name>/<version>/`` (spec 12.2).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from buildchain.core import receipt
from buildchain.core.receipt import Made
from buildchain.core.step import Step, Task, title
from buildchain.machine.steps import checks
from buildchain.project.context import Context, current
from buildchain.project.model import PulledImage
from buildchain.pulls import fetch
from buildchain.store import manifest, tree

FETCH = "_images_fetch"


def names(context: Context) -> tuple[str, ...]:
    """Return the steps that lay out images."""
    return tuple(f"_image_pull:{image.name}" for image in context.catalog.pulled_images)


def steps(context: Context) -> tuple[Step, ...]:
    """Return every step, the fetching one first."""
    images = context.catalog.pulled_images
    return (_fetch(context), *(_lay_out(context, i) for i in images)) if images else ()


def _fetch(context: Context) -> Step:
    policy = context.config.signature_policy
    images = context.catalog.pulled_images
    return Step(
        context.layout,
        FETCH,
        title("FETCH", f"{len(images)} images"),
        functools.partial(fetch.fetch, context.layout, images, context.config),
        inputs=(policy,) if policy is not None else (),
        config={"images": [dataclasses.asdict(image) for image in images]},
        code=(manifest, tree),
        after=checks("skopeo") if policy is not None else (),
        holds=functools.partial(_is_here, context),
    )


def _is_here(context: Context) -> bool:
    """Tell whether the store, or else the tree of images, has all: a cache may be emptied."""
    layout = context.layout
    if all(receipt.is_complete(layout.receipt(name), layout.build) for name in names(context)):
        return True
    try:
        facts = receipt.read(layout.receipt(FETCH)).facts
    except (OSError, ValueError):
        return False
    return fetch.is_here(layout, facts)


def _lay_out(context: Context, image: PulledImage) -> Step:
    return Step(
        context.layout,
        f"_image_pull:{image.name}",
        title("LAY OUT", f"{image.name}:{image.tag}"),
        functools.partial(_make, context, image),
        needs=(FETCH,),
        config={"image": dataclasses.asdict(image)},
    )


def _make(context: Context, image: PulledImage) -> Made:
    fact = receipt.read(context.layout.receipt(FETCH)).facts[image.name]
    assert isinstance(fact, dict)
    return fetch.lay_out(context.layout, image, fact)


def task__images_fetch() -> Iterator[Task]:
    """Fetch the images that the profile pins from registries."""
    yield from (step.task() for step in steps(current())[:1])


def task__image_pull() -> Iterator[Task]:
    """Put a fetched image into the tree of images."""
    yield from (step.task() for step in steps(current())[1:])
