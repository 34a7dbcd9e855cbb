"""The inputs of a build as one archive.

::

    iso ──> inputs                 on a machine with a network
    KEY, FILE ──> inputs_unpack    on one without; then iso builds there

Leaves ``_build/<project>-inputs.tar``, or fills the store in ``CACHE_ROOT``.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from buildchain.core import events, receipt
from buildchain.core.errors import ConfigError, LockError
from buildchain.core.step import Task, guarded, title
from buildchain.debian import archive, lock
from buildchain.debian import steps as debian
from buildchain.inputs import archive as inputs
from buildchain.machine.steps import checks
from buildchain.packages import bundles
from buildchain.project import source
from buildchain.project.context import CALLED_FROM, Context, current
from buildchain.project.model import DebianFile
from buildchain.pulls import fetch
from buildchain.pulls.steps import FETCH
from buildchain.redhat import closure
from buildchain.redhat import steps as redhat
from buildchain.signatures import signing


def task_inputs() -> Task:
    """Export everything that the ISO is made of."""
    context = current()
    return {
        "basename": "inputs",
        "doc": "Write all inputs of the ISO to one archive: _build/<project>-inputs.tar.",
        "title": lambda _task: title("PACK", context.layout.inputs.name),
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
        "actions": [functools.partial(_unpack, current())],
        "pos_arg": "files",
        "params": [
            {
                "name": "key",
                "long": "key",
                "type": str,
                "default": "",
                "help": "public key of who wrote the archive (binary, _build/keys/metalk8s.gpg)",
            },
            {
                "name": "insecure",
                "long": "insecure-without-signature",
                "type": bool,
                "default": False,
                "help": "do not ask who wrote the archive",
            },
        ],
        "task_dep": list(checks("gpgv")),
        "io": {"capture": False},
    }


def _pack(context: Context) -> None:
    if context.config.base_image:
        events.closing(f"not among the inputs: {context.config.base_image} (BASE_IMAGE)")
    output = context.layout.inputs
    pack(context, output)
    events.note(f"{output}: {output.stat().st_size >> 20} MiB")


def pack(context: Context, output: Path) -> None:
    """Write the archive of a finished build, signed by the key of that build.

    :raises LockError: the build is made of Debian packages that are not locked.
    """
    layout, settings = context.layout, context.config
    _prove_locked(context)
    epoch = source.epoch(settings.binary("git"), settings.root, settings.source_date_epoch)
    with signing.signer(layout, settings.signing_key) as signer:
        inputs.pack(layout, output, blobs(context), resolutions(context), signer, epoch)


def _prove_locked(context: Context) -> None:
    """Stop here, with a network, rather than on the machine without one."""
    path = debian.locked(context).path
    known = lock.records(path, DebianFile)
    strange = [
        f"{name}: {file.name} {file.version}"
        for name in _sets(context)
        for file in archive.read_closure(context.layout.closure(name))
        if file not in known
    ]
    if strange:
        raise LockError(
            f"{len(strange)} packages of this build are not in {path}, and without a network only "
            f"those are believed: {'; '.join(strange)}",
            solution="Run ./doit.sh lock, review the difference, commit it and build again.",
        )


def _sets(context: Context) -> dict[str, tuple[str, ...]]:
    return {n: names for n, names in debian.wanted(context).items() if debian.is_shipped(n)}


def blobs(context: Context) -> dict[str, str]:
    """Return the SHA-256 of everything the ISO is made of, each with what it is."""
    layout, pins = context.layout, context.catalog
    found: dict[str, str] = {}
    for name in _sets(context):
        found |= {file.sha256: file.file for file in archive.read_closure(layout.closure(name))}
    for release in redhat.releases(context):
        files = closure.read_closure(layout.closure(redhat.closure_name(release)))
        found |= {file.sha256: file.file for file in files}
    for package in pins.packages:
        found |= {source.sha256: source.file for source in package.sources}
        if package.wheels:
            listed = bundles.read_wheels(layout.package_sources(package.name) / package.wheels)
            found |= {digest: file for file, digest in listed.items()}
    if pins.pulled_images:
        found |= fetch.blobs(layout, receipt.read(layout.receipt(FETCH)).facts)
    return found


def resolutions(context: Context) -> dict[Path, bytes]:
    """Return what names of Debian packages meant in this build, as the cache keeps it."""
    layout = context.layout
    found = {}
    for name, packages in _sets(context).items():
        status = debian.status_below(layout, name)
        path = archive.resolution(layout, packages, status)
        found[path] = layout.closure(name).read_bytes()
    return found


def _unpack(context: Context, files: list[str], key: str, insecure: bool) -> object:
    def action() -> None:
        layout, folder = context.layout, Path(os.environ.get(CALLED_FROM, "."))
        if len(files) != 1:
            raise ConfigError(
                f"inputs_unpack takes one archive, {len(files)} were named",
                solution="Call ./doit.sh inputs_unpack --key KEY FILE.",
            )
        keyring = folder / key if key else None
        if keyring is None and not insecure:
            raise ConfigError(
                "inputs_unpack was not told whose archive this is",
                solution="Name the public key of who wrote it: --key FILE (binary, "
                "_build/keys/metalk8s.gpg there); or --insecure-without-signature, to trust "
                "whoever brought it.",
            )
        if keyring is not None and not keyring.is_file():
            raise ConfigError(f"--key {key}: there is no such file in {folder.absolute()}")
        locked = lock.records(debian.locked(context).path, DebianFile)
        count = inputs.unpack(layout, folder / files[0], locked, keyring)
        events.note(f"{count} inputs are in {layout.cache}")

    return guarded(action)()
