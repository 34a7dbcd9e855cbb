"""Images from registries: fetched into the store, checked, laid out for the static registry.

Programs: ``skopeo`` where a signature policy is set, ``docker-credential-*`` where the user's
logins name one. On disk, hard links out of the store, spec chapter 12.2::

    <images>/<name>/<version>/manifest.json   as it came, byte for byte
    <images>/<name>/<version>/version         "Directory Transport Version: 1.1"
    <images>/<name>/<version>/<64 hex digits> configuration and layers

and where there is more than one manifest (an index, signatures), the OCI image layout::

    <images>/<name>/<version>/oci-layout
    <images>/<name>/<version>/index.json      what has a tag, and what refers to it
    <images>/<name>/<version>/blobs/sha256/<64 hex digits>
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from buildchain.core import process, reference
from buildchain.core.errors import CommandError, SigningError
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.project.config import Config
from buildchain.project.model import PulledImage
from buildchain.pulls import skopeo
from buildchain.store import manifest
from buildchain.store.blobs import Store
from buildchain.store.pull import pull
from buildchain.store.sources import Access, Sources, parse_mirror
from buildchain.store.tree import Pulled, Wanted

REF_NAME = "org.opencontainers.image.ref.name"
OCI_LAYOUT = '{"imageLayoutVersion": "1.0.0"}'


def access(config: Config, environ: Mapping[str, str] | None = None) -> Access:
    """Return how this user reaches registries."""
    variables = dict(os.environ if environ is None else environ)
    if config.registry_auth_file is not None:
        variables["REGISTRY_AUTH_FILE"] = str(config.registry_auth_file)
    return Access(
        config.plain_http_registries,
        tuple(parse_mirror(text) for text in config.registry_mirrors),
        variables,
        _helper,
    )


def _helper(name: str, server: str) -> str:
    return process.ask([f"docker-credential-{name}", "get"], server)


def wanted(image: PulledImage) -> Wanted:
    """Return what a pin asks for."""
    parsed = reference.parse(f"{image.reference}@{image.digest}")
    return Wanted(image.name, parsed, image.platforms, image.referrers)


def fetch(layout: Layout, images: Sequence[PulledImage], config: Config) -> Made:
    """Fetch all images into the store, as one queue, and check their signatures.

    :raises FetchError: naming every image that cannot be had, and why.
    :raises SigningError: naming every image that the policy refuses.
    """
    store = Store(layout.store)
    with Sources(access(config)) as sources:
        pulled = pull([wanted(image) for image in images], store, sources)
    if config.signature_policy is not None:
        _check_policy(store, pulled, config.signature_policy, config)
    facts: dict[str, object] = {
        image.wanted.name: {
            "manifests": [found.digest for found in image.manifests],
            "tags": dict(image.tags),
        }
        for image in pulled
    }
    return Made(facts=facts)


def is_here(layout: Layout, facts: Mapping[str, object]) -> bool:
    """Tell whether the store has all that :func:`fetch` made known (no blob is read)."""
    store = Store(layout.store)
    for name, fact in facts.items():
        assert isinstance(fact, dict)
        for digest in fact["manifests"]:
            content = store.read(_hex(digest))
            if content is None:
                return False
            for blob in manifest.parse(content, "", name).blobs:
                if not store.has(blob.hex, blob.size):
                    return False
    return True


def blobs(layout: Layout, facts: Mapping[str, object]) -> dict[str, str]:
    """Return the SHA-256 of all that :func:`fetch` made known, each with its image."""
    store, found = Store(layout.store), {}
    for name, fact in facts.items():
        assert isinstance(fact, dict)
        for digest in fact["manifests"]:
            found[_hex(digest)] = f"manifest of {name}"
            content = store.read(_hex(digest))
            for blob in manifest.parse(content, "", name).blobs if content is not None else ():
                found[blob.hex] = f"blob of {name}"
    return found


def lay_out(layout: Layout, image: PulledImage, fact: Mapping[str, object]) -> Made:
    """Put an image and its aliases into the tree of images.

    :param fact: what :func:`fetch` made known of it.
    """
    store = Store(layout.store)
    digests, tags = fact["manifests"], fact["tags"]
    assert isinstance(digests, list)
    assert isinstance(tags, dict)
    found = []
    for digest in digests:
        content = store.read(_hex(digest))
        assert content is not None, f"{digest} was fetched and is not in {store.root}"
        found.append(manifest.parse(content, "", image.name))
    pulled = Pulled(wanted(image), found[0], tuple(found), tags)
    folders: list[Path] = []
    known: dict[Path, str] = {}
    for place in (f"{image.name}:{image.tag}", *image.aliases):
        name, _, version = place.partition(":")
        final = layout.image(name, version)
        with replaced(final) as fresh:
            make = _dir if len(pulled.manifests) == 1 and not tags else _oci_layout
            names = make(store, pulled, version, fresh)
        folders.append(final)
        known |= {final / path: digest for path, digest in names.items()}
    facts = {"name": image.name, "version": image.tag, "digest": _hex(pulled.top.digest)}
    return Made(tuple(folders), facts, known)


def _dir(store: Store, image: Pulled, _version: str, folder: Path) -> dict[str, str]:
    """Make the tree of one manifest; return files whose SHA-256 is known."""
    for blob in image.blobs:
        store.link(blob.hex, folder / blob.hex)
    store.link(_hex(image.top.digest), folder / "manifest.json")
    write_whole(folder / "version", skopeo.DIR_VERSION)
    return {"manifest.json": _hex(image.top.digest), **{b.hex: b.hex for b in image.blobs}}


def _oci_layout(store: Store, image: Pulled, version: str, folder: Path) -> dict[str, str]:
    """Make an OCI image layout; return files whose SHA-256 is known."""
    blobs = Path("blobs") / "sha256"
    names = [_hex(found.digest) for found in image.manifests]
    names += [blob.hex for blob in image.blobs]
    for name in names:
        store.link(name, folder / blobs / name)
    below = {child.digest for found in image.manifests for child in found.children}
    by_digest = {found.digest: found for found in image.manifests}
    named = [(version, image.top.digest), *image.tags.items()]
    entries = [_entry(by_digest[digest], tag) for tag, digest in named]
    shown = below | {digest for _, digest in named}
    entries += [_entry(found) for found in image.manifests if found.digest not in shown]
    index = {"schemaVersion": 2, "mediaType": manifest.OCI_INDEX, "manifests": entries}
    write_whole(folder / "index.json", json.dumps(index, indent=3))
    write_whole(folder / "oci-layout", OCI_LAYOUT)
    return {str(blobs / name): name for name in names}


def _entry(found: manifest.Manifest, tag: str = "") -> dict[str, object]:
    entry: dict[str, object] = {
        "mediaType": found.media_type,
        "digest": found.digest,
        "size": len(found.content),
    }
    return {**entry, "annotations": {REF_NAME: tag}} if tag else entry


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _check_policy(store: Store, images: Sequence[Pulled], policy: Path, config: Config) -> None:
    """Let skopeo decide whether a policy allows images; no layer is fetched for that."""
    refused = []
    for image in images:
        # In the store's file system: links, no copies.
        with tempfile.TemporaryDirectory(prefix="policy-", dir=store.root) as scratch:
            folder = Path(scratch)
            for blob in image.blobs:
                store.link(blob.hex, folder / "blobs" / "sha256" / blob.hex)
            where = image.wanted.reference
            try:
                for platform in image.wanted.platforms:
                    argv = skopeo.argv_for_policy(
                        config.binary("skopeo"),
                        f"{where.registry}/{where.repository}@{where.digest}",
                        folder,
                        policy=policy,
                        platform=platform,
                        plain=where.registry in config.plain_http_registries,
                        login=config.registry_auth_file,
                    )
                    process.run(argv)
            except CommandError as error:
                last = (error.details.splitlines() or [error.reason])[-1]
                refused.append(f"{image.wanted.name}: {last}")
    if refused:
        raise SigningError(
            f"{policy} does not allow {len(refused)} of {len(images)} images: {'; '.join(refused)}",
            solution="Pin images that are signed as the policy demands, or correct the policy.",
        )
