"""The medium.

::

    _iso_key ─────────┐
    _iso_product ─────┤
    packaging ────────┼──> _iso_populate ─┬────────────> _iso_build ──> _iso_digest
    images, registry ─┤      _build/root  └> _iso_check ─┘ <project>.iso   SHA256SUM, SHA256SUM.sig
    salt_tree, bill,  │
    documents ────────┘

    _iso_build, _iso_key ──> _iso_blocks                       <project>.iso.blocks, ….blocks.sig
    _iso_build, _iso_key, _lock_record ──> _iso_provenance     provenance.json, provenance.json.sig

``populate_iso`` stops at the tree, ``iso`` goes to the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.bill import steps as bill
from buildchain.core import events, receipt
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.core.step import READING, Step, Task, group, guarded, title
from buildchain.debian import version
from buildchain.images import steps as images
from buildchain.inputs import steps as inputs
from buildchain.locks import steps as locks
from buildchain.machine import steps as machine
from buildchain.machine.steps import checks, signing_checks
from buildchain.manual import steps as manual
from buildchain.medium import block_list, iso, provenance, versions
from buildchain.project import source
from buildchain.project.context import Context, current
from buildchain.repositories import steps as package_repositories
from buildchain.salt_tree import steps as salt_tree
from buildchain.signatures import gpg, signing
from buildchain.signatures.steps import KEY

RELEASE = "_iso_release"
PRODUCT = "_iso_product"
POPULATE = "_iso_populate"
CHECK = "_iso_check"
BUILD = "_iso_build"
DIGEST = "_iso_digest"
BLOCKS = "_iso_blocks"
PROVENANCE = "_iso_provenance"
# How git status says that it does not track a file of a folder that the product comes from.
NEW = ("?? images/", "?? packages/", "?? salt/")


def parts(context: Context) -> tuple[Part, ...]:
    """Return what goes where on the ISO; nothing else gets there."""
    lists = Part(context.layout.receipt(bill.BILL), bill.folder(context), bill.PLACE)
    return (*things(context), lists)


def things(context: Context) -> tuple[Part, ...]:
    """Return what goes where on the ISO, but for the lists that tell of it."""
    layout = context.layout
    repositories = (
        *(("redhat", folder) for folder in package_repositories.rpm_folders(context)),
        ("debian", layout.deb_repository),
    )
    redhat = package_repositories.repository_step("redhat")
    return (
        Part(layout.receipt(PRODUCT), layout.product, "product.txt"),
        Part(layout.receipt(KEY), layout.keys, "keys"),
        *(
            Part(
                layout.receipt(package_repositories.repository_step(family)),
                folder,
                f"packages/{family}/{folder.name}",
            )
            for family, folder in repositories
        ),
        Part(layout.receipt(redhat), layout.rpm_keys, "keys/redhat"),
        *(
            Part(layout.receipt(step), layout.images, "images")
            for step in images.image_steps(context)
        ),
        Part(layout.receipt(images.REGISTRY), layout.registry_config, "."),
        Part(layout.receipt(salt_tree.DEPLOY), layout.salt_tree, "."),
        Part(layout.receipt(manual.DEPLOY), layout.documents, "."),
        Part(layout.receipt(locks.RECORD), locks.record_file(context).parent, "lock"),
    )


def _commit(context: Context) -> str:
    return source.describe(context.config.binary("git"), context.config.root)


def _build_version(context: Context) -> str:
    settings = context.config
    commit = versions.commit_of(settings.binary("git"), settings.root)
    return versions.of_build(context.catalog.version, commit)


def _epoch(context: Context) -> int:
    config = context.config
    return source.epoch(config.binary("git"), config.root, config.source_date_epoch)


def task__iso_release() -> Task:
    """Stop a release that is not what its commit says, before anything is compiled."""
    context = current()
    check = functools.partial(source.prove_clean, context.config.binary("git"), context.config.root)
    return {
        "basename": RELEASE,
        "doc": "Check that the checkout is what its commit says.",
        "title": lambda _task: title("CHECK", "checkout"),
        "actions": [(guarded(check), [])],
        "io": {"capture": False},
    }


def _release(context: Context) -> tuple[str, ...]:
    return (RELEASE,) if context.config.signing_key else ()


def task__iso_product() -> Iterator[Task]:
    """Write product.txt."""
    context = current()
    yield Step(
        context.layout,
        PRODUCT,
        title("WRITE", "product.txt"),
        functools.partial(_product, context),
        needs=(KEY,),
        config={"name": context.config.project_name, "version": context.catalog.version.full},
        code=(version,),
        fingerprint=lambda: [_commit(context), _build_version(context)],
    ).task()


def _product(context: Context) -> Made:
    found = source.changes(context.config.binary("git"), context.config.root)
    if new := [line[3:] for line in found if line.startswith(NEW)]:
        events.closing(f"not on the ISO, git does not track them: {', '.join(new)}")
    key = receipt.read(context.layout.receipt(KEY)).facts
    text = iso.product(
        context.config.project_name,
        context.catalog.version,
        _build_version(context),
        _commit(context),
        development_key=bool(key["development"]),
    )
    return iso.write_product(context.layout, text)


def task__iso_bill() -> Iterator[Task]:
    """Write what the ISO consists of, as SPDX and as CycloneDX."""
    context = current()
    yield bill.step(context, things(context)).task()


def task__iso_populate() -> Iterator[Task]:
    """Make the tree of the ISO out of what was built, with signed checksums."""
    context = current()
    needs = (images.SHARE, *map(package_repositories.check_step, ("redhat", "debian")))
    yield populate_step(context, POPULATE, medium_of(context), parts(context), needs).task()


def task__iso_build() -> Iterator[Task]:
    """Write the ISO image."""
    context = current()
    medium, volume = medium_of(context), _volume(context)
    yield build_step(context, BUILD, medium, volume, POPULATE, after=(CHECK,)).task()


def task__iso_digest() -> Iterator[Task]:
    """Write and sign the checksum of the ISO."""
    context = current()
    yield digest_step(context, DIGEST, medium_of(context), BUILD).task()


def task__iso_blocks() -> Iterator[Task]:
    """Write and sign the list of the ISO's blocks, by which damaged copies are repaired."""
    context = current()
    yield Step(
        context.layout,
        BLOCKS,
        title("SIGN", f"blocks of {context.layout.iso.name}"),
        functools.partial(_blocks, context),
        needs=(BUILD, KEY),
        products=(block_list.path_of(context.layout.iso),),
        config={"volume": _volume(context)},
        code=(signing,),
        fingerprint=functools.partial(_epoch, context),
        after=signing_checks(context),
    ).task()


def _blocks(context: Context) -> Made:
    layout = context.layout
    [built] = receipt.read(layout.receipt(BUILD)).outputs
    with signing.signer(layout, context.config.signing_key) as signer:
        return block_list.write(layout.iso, built.sha256, _volume(context), signer, _epoch(context))


def _volume(context: Context) -> str:
    return iso.volume_id(context.config.project_name, context.catalog.version)


def task__iso_provenance() -> Iterator[Task]:
    """Write and sign where the ISO comes from."""
    context = current()
    yield Step(
        context.layout,
        PROVENANCE,
        title("SIGN", f"provenance of {context.layout.iso.name}"),
        functools.partial(_provenance, context),
        needs=(BUILD, KEY, locks.RECORD),
        products=(context.layout.iso.with_name(provenance.NAME),),
        config=_parameters(context),
        code=(version, signing),
        fingerprint=lambda: [_commit(context), _epoch(context), _build_version(context)],
        after=signing_checks(context),
    ).task()


def _parameters(context: Context) -> dict[str, object]:
    config = context.config
    return {
        "PROJECT_NAME": config.project_name,
        "PROFILE": config.profile,
        "BASE_IMAGE": config.base_image,
        "LOCK_POLICY": context.lock_policy,
    }


def _provenance(context: Context) -> Made:
    layout, settings = context.layout, context.config
    origin = provenance.Origin(
        source.commit(settings.binary("git"), settings.root),
        _commit(context),
        {
            **_parameters(context),
            "SOURCE_DATE_EPOCH": _epoch(context),
            "BUILD_VERSION": _build_version(context),
        },
        inputs.blobs(context),
    )
    [built] = receipt.read(layout.receipt(BUILD)).outputs
    with signing.signer(layout, settings.signing_key) as signer:
        return provenance.write(layout.iso, built.sha256, origin, signer, _epoch(context))


def medium_of(context: Context) -> iso.Medium:
    """Return the product's own medium."""
    return iso.Medium(
        context.config.project_name,
        context.catalog.version,
        context.layout.iso_root,
        context.layout.iso,
    )


def populate_step(
    context: Context,
    name: str,
    medium: iso.Medium,
    everything: tuple[Part, ...],
    needs: tuple[str, ...] = (),
) -> Step:
    """Return the step that makes a medium's tree out of declared parts."""

    def action() -> Made:
        with signing.signer(context.layout, context.config.signing_key) as signer:
            return iso.populate(context.layout, medium, everything, signer, _epoch(context))

    return Step(
        context.layout,
        name,
        title("POPULATE", f"tree of {medium.image.name}"),
        action,
        inputs=tuple(dict.fromkeys(part.receipt for part in everything)),
        needs=needs,
        config={
            "parts": [[str(part.source), part.target] for part in everything],
            "title": [medium.name, medium.version.full],
        },
        code=(signing,),
        fingerprint=functools.partial(_epoch, context),
        after=(*_release(context), *signing_checks(context)),
    )


def build_step(
    context: Context,
    name: str,
    medium: iso.Medium,
    volume: str,
    populated: str,
    after: tuple[str, ...] = (),
) -> Step:
    """Return the step that writes a medium's image."""

    def action() -> Made:
        return iso.build(medium, context.config.binary("mkisofs"), volume, _epoch(context))

    return Step(
        context.layout,
        name,
        title("BUILD ISO", medium.image.name),
        action,
        needs=(populated,),
        products=(medium.image,),
        config={"volume": volume, "name": medium.image.name},
        fingerprint=functools.partial(_epoch, context),
        after=(*checks("xorrisofs"), *after),
    )


def digest_step(context: Context, name: str, medium: iso.Medium, built: str) -> Step:
    """Return the step that writes and signs the checksum of a medium's image."""

    def action() -> Made:
        path = context.layout.receipt(built)
        with signing.signer(context.layout, context.config.signing_key) as signer:
            return iso.digest(context.layout, medium, path, signer, _epoch(context))

    return Step(
        context.layout,
        name,
        title("SIGN", f"{iso.CHECKSUMS} of {medium.image.name}"),
        action,
        needs=(built, KEY),
        products=(medium.checksums,),
        code=(gpg, signing),
        fingerprint=functools.partial(_epoch, context),
        after=signing_checks(context, "gpgv"),
    )


def _build_tools(context: Context) -> tuple[str, ...]:
    # All of them first: a missing mkisofs should not show after an hour of compiling.
    tools = (tool.name for tool in machine.tools_for(context, *machine.build_purposes(context)))
    return (*_release(context), *checks(*tools))


def _steps(context: Context, *names: str) -> list[Step]:
    return [Step(context.layout, name, "", Made) for name in names]


def task_populate_iso() -> Task:
    """Populate the ISO file tree."""
    context = current()
    return group(
        "populate_iso",
        "Populate the ISO file tree.",
        _steps(context, POPULATE),
        after=(*_build_tools(context), "packaging", "images", "salt_tree"),
    )


def task_iso() -> Task:
    """Build the ISO."""
    context = current()
    return group(
        "iso",
        "Build the signed ISO: _build/<project>.iso (the default task).",
        _steps(context, BUILD, DIGEST, BLOCKS, PROVENANCE),
        after=(*_build_tools(context), "populate_iso"),
    )


def task_verify() -> Task:
    """Check the ISO as the recipient will."""
    context = current()
    return {
        "basename": "verify",
        "doc": "Verify the ISO and its tree as the recipient will (verify.sh on the ISO).",
        "title": lambda _task: title("VERIFY", context.layout.iso.name),
        "meta": READING,
        "actions": [
            (guarded(functools.partial(_verify, context)), []),
        ],
        # What is there is looked at, unless it is to be built by the same command.
        "task_dep": ["iso"] if context.is_asked_for("iso") else [],
        "io": {"capture": False},
    }


def _verify(context: Context) -> None:
    iso.verify(medium_of(context), signing.keyrings(context.layout))
