"""The inputs of a build as one archive.

::

    iso ──> inputs                 on a machine with a network
    FILE ──> inputs_unpack         on one without; then iso builds there

Leaves ``_build/<project>-inputs.tar``, or fills the store in ``CACHE_ROOT``.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from buildchain import events, receipt
from buildchain.actions import bundles, debian, inputs, pulls
from buildchain.actions import redhat as rpms
from buildchain.errors import ConfigError
from buildchain.layout import Layout
from buildchain.targets.step import Task, guarded, title
from buildchain.tasks import foundations, redhat
from buildchain.tasks.context import CALLED_FROM, Context, current
from buildchain.tasks.pulls import FETCH


def archive_of(layout: Layout) -> Path:
    """Return where the archive is written."""
    return layout.build / f"{layout.project}-inputs.tar"


def task_inputs() -> Task:
    """Export everything that the ISO is made of."""
    context = current()
    return {
        "basename": "inputs",
        "doc": "Write all inputs of the ISO to one archive: _build/<project>-inputs.tar.",
        "title": lambda _task: title("PACK", archive_of(context.layout).name),
        "actions": [(guarded(functools.partial(_pack, context)), [])],
        "task_dep": ["iso"],
        "io": {"capture": False},
    }


def task_inputs_unpack() -> Task:
    """Import what inputs has exported."""
    return {
        "basename": "inputs_unpack",
        "doc": "Put the inputs of an archive (FILE) where iso finds them without a network.",
        "title": lambda _task: title("UNPACK", "inputs"),
        "actions": [functools.partial(_unpack, current().layout)],
        "pos_arg": "files",
        "io": {"capture": False},
    }


def _pack(context: Context) -> None:
    layout = context.layout
    if context.config.base_image:
        events.closing(f"not among the inputs: {context.config.base_image} (BASE_IMAGE)")
    output = archive_of(layout)
    inputs.pack(layout, output, blobs(context), resolutions(context))
    events.note(f"{output}: {output.stat().st_size >> 20} MiB")


def _sets(context: Context) -> dict[str, tuple[str, ...]]:
    sets = {n: names for n, names in foundations.closures(context).items() if n != "testbed"}
    if not context.config.base_image:
        sets["base"] = foundations.minimal_packages(context)
    return sets


def blobs(context: Context) -> dict[str, str]:
    """Return the SHA-256 of everything the ISO is made of, each with what it is."""
    layout, pins = context.layout, context.catalog
    found: dict[str, str] = {}
    for name in _sets(context):
        found |= {file.sha256: file.file for file in debian.read_closure(layout.closure(name))}
    for release in redhat.releases(context):
        files = rpms.read_closure(layout.closure(redhat.closure_name(release)))
        found |= {file.sha256: file.file for file in files}
    for package in pins.packages:
        found |= {source.sha256: source.file for source in package.sources}
        if package.wheels:
            listed = bundles.read_wheels(layout.package_sources(package.name) / package.wheels)
            found |= {digest: file for file, digest in listed.items()}
    if pins.pulled_images:
        found |= pulls.blobs(layout, receipt.read(layout.receipt(FETCH)).facts)
    return found


def resolutions(context: Context) -> dict[Path, bytes]:
    """Return what names of Debian packages meant in this build, as the cache keeps it."""
    layout = context.layout
    found = {}
    for name, packages in _sets(context).items():
        status = None if name == "base" else layout.base_status
        path = debian.resolution(layout, packages, status)
        found[path] = layout.closure(name).read_bytes()
    return found


def _unpack(layout: Layout, files: list[str]) -> object:
    def action() -> None:
        if len(files) != 1:
            raise ConfigError(
                f"inputs_unpack takes one archive, {len(files)} were named",
                solution="Call ./doit.sh inputs_unpack FILE.",
            )
        count = inputs.unpack(layout, Path(os.environ.get(CALLED_FROM, ".")) / files[0])
        events.note(f"{count} inputs are in {layout.cache}")

    return guarded(action)()
