"""The medium.

::

    _iso_key ─────────┐
    _iso_product ─────┤
    packaging ────────┼──> _iso_populate ─┬────────────> _iso_build ──> _iso_digest
    images, registry ─┤      _build/root  └> _iso_check ─┘ <project>.iso   SHA256SUM, SHA256SUM.sig
    salt_tree, bill,  │
    documents ────────┘

    _iso_build, _iso_key ──> _iso_blocks                      <project>.iso.blocks, ….blocks.sig
    _iso_build, _iso_key, closures ──> _iso_provenance        provenance.json, provenance.json.sig

``populate_iso`` stops at the tree, ``iso`` goes to the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from buildchain.bill import steps as bill
from buildchain.core.parts import Part
from buildchain.core.record import Later
from buildchain.core.step import READING, Step, Task, group, guarded, title
from buildchain.debian import version
from buildchain.images import steps as images
from buildchain.inputs import fetched
from buildchain.inputs import steps as inputs
from buildchain.locks import steps as locks
from buildchain.machine import steps as machine
from buildchain.machine.steps import checks, signing_checks
from buildchain.manual import steps as manual
from buildchain.medium import block_list, iso, making, provenance, versions
from buildchain.medium.making import Blocks, Digest, Image, Product, Provenance, Tree
from buildchain.project import source
from buildchain.project.context import Context, current
from buildchain.project.means import Means
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
        Part(layout.receipt(locks.RECORD), locks.record_file(context.layout).parent, "lock"),
    )


def _build_version(context: Context) -> Later[str]:
    git, root = context.config.binary("git"), context.config.root
    return Later(lambda: versions.of_build(context.catalog.version, versions.commit_of(git, root)))


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
        context.means,
        PRODUCT,
        title("WRITE", "product.txt"),
        making.write_product,
        Product(
            context.config.project_name,
            context.catalog.version,
            _build_version(context),
            context.commit,
            context.layout.receipt(KEY),
        ),
        code=(version,),
    ).task()


def task__iso_bill() -> Iterator[Task]:
    """Write what the ISO consists of, as SPDX and as CycloneDX."""
    context = current()
    yield bill.step(context, things(context)).task()


def task__iso_populate() -> Iterator[Task]:
    """Make the tree of the ISO out of what was built, with signed checksums."""
    yield _populate(current()).task()


def _populate(context: Context) -> Step[Tree, Means]:
    needs = (images.SHARE, *map(package_repositories.check_step, ("redhat", "debian")))
    return populate_step(context, POPULATE, medium_of(context), parts(context), needs)


def task__iso_build() -> Iterator[Task]:
    """Write the ISO image."""
    yield _build(current()).task()


def _build(context: Context) -> Step[Image, Means]:
    medium, volume = medium_of(context), _volume(context)
    return build_step(context, BUILD, medium, volume, POPULATE, after=(CHECK,))


def task__iso_digest() -> Iterator[Task]:
    """Write and sign the checksum of the ISO."""
    yield _digest(current()).task()


def _digest(context: Context) -> Step[Digest, Means]:
    return digest_step(context, DIGEST, medium_of(context), BUILD)


def task__iso_blocks() -> Iterator[Task]:
    """Write and sign the list of the ISO's blocks, by which damaged copies are repaired."""
    yield _blocks(current()).task()


def _blocks(context: Context) -> Step[Blocks, Means]:
    image, built = context.layout.iso, context.layout.receipt(BUILD)
    return Step(
        context.means,
        BLOCKS,
        title("SIGN", f"blocks of {image.name}"),
        making.write_blocks,
        Blocks(image, built, _volume(context), context.epoch),
        needs=(KEY,),
        products=(block_list.path_of(image),),
        code=(signing,),
        after=signing_checks(context),
    )


def _volume(context: Context) -> str:
    return iso.volume_id(context.config.project_name, context.catalog.version)


def task__iso_provenance() -> Iterator[Task]:
    """Write and sign where the ISO comes from."""
    yield _provenance(current()).task()


def _provenance(context: Context) -> Step[Provenance, Means]:
    layout, settings = context.layout, context.config
    parameters = {
        "PROJECT_NAME": settings.project_name,
        "PROFILE": settings.profile,
        "BASE_IMAGE": settings.base_image,
        "LOCK_POLICY": context.lock_policy,
    }
    return Step(
        context.means,
        PROVENANCE,
        title("SIGN", f"provenance of {layout.iso.name}"),
        making.write_provenance,
        Provenance(
            layout.iso,
            layout.receipt(BUILD),
            parameters,
            inputs.fetched(context),
            Later(functools.partial(source.commit, settings.binary("git"), settings.root)),
            context.commit,
            _build_version(context),
            context.epoch,
        ),
        needs=(KEY, *inputs.fetching(context)),
        products=(layout.iso.with_name(provenance.NAME),),
        code=(fetched, version, signing),
        after=signing_checks(context),
    )


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
) -> Step[Tree, Means]:
    """Return the step that makes a medium's tree out of declared parts."""
    return Step(
        context.means,
        name,
        title("POPULATE", f"tree of {medium.image.name}"),
        making.populate,
        Tree(medium, everything, context.epoch),
        needs=needs,
        code=(signing,),
        after=(*_release(context), *signing_checks(context)),
    )


def build_step(
    context: Context,
    name: str,
    medium: iso.Medium,
    volume: str,
    populated: str,
    after: tuple[str, ...] = (),
) -> Step[Image, Means]:
    """Return the step that writes a medium's image."""
    return Step(
        context.means,
        name,
        title("BUILD ISO", medium.image.name),
        making.write_image,
        Image(medium, volume, context.config.binary("mkisofs"), context.epoch),
        needs=(populated,),
        products=(medium.image,),
        after=(*checks("xorrisofs"), *after),
    )


def digest_step(context: Context, name: str, medium: iso.Medium, built: str) -> Step[Digest, Means]:
    """Return the step that writes and signs the checksum of a medium's image."""
    return Step(
        context.means,
        name,
        title("SIGN", f"{iso.CHECKSUMS} of {medium.image.name}"),
        making.write_digest,
        Digest(medium, context.layout.receipt(built), context.epoch),
        needs=(KEY,),
        products=(medium.checksums,),
        code=(gpg, signing),
        after=signing_checks(context, "gpgv"),
    )


def _build_tools(context: Context) -> tuple[str, ...]:
    # All of them first: a missing mkisofs should not show after an hour of compiling.
    tools = (tool.name for tool in machine.tools_for(context, *machine.build_purposes(context)))
    return (*_release(context), *checks(*tools))


def task_populate_iso() -> Task:
    """Populate the ISO file tree."""
    context = current()
    return group(
        "populate_iso",
        "Populate the ISO file tree.",
        [_populate(context)],
        after=(*_build_tools(context), "packaging", "images", "salt_tree"),
    )


def task_iso() -> Task:
    """Build the ISO."""
    context = current()
    return group(
        "iso",
        "Build the signed ISO: _build/<project>.iso (the default task).",
        [step(context) for step in (_build, _digest, _blocks, _provenance)],
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
