"""Container images: built by the engine, normalised by us, laid out for the static registry.

Programs: ``skopeo``, ``hardlink``. On disk, spec chapter 12.2::

    <images>/<name>/<version>/manifest.json   Docker v2s2
    <images>/<name>/<version>/version         "Directory Transport Version: 1.1"
    <images>/<name>/<version>/<64 hex digits> configuration and layers (gzip)
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildchain.core import process, receipt
from buildchain.core.errors import ContentError, PinError
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive, base, layers
from buildchain.machine import engine
from buildchain.project.model import Image
from buildchain.pulls import skopeo
from buildchain.store.blobs import link

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
# What of a built image's configuration is ours to keep; the rest is the builder's.
KEPT = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels",
        "StopSignal")  # fmt: skip


@dataclass(frozen=True)
class Below:
    """The base an image stands on: reference in the engine, diff ids and compressed layers."""

    reference: str
    diff_ids: tuple[str, ...]
    blobs: tuple[Path, ...]


@dataclass(frozen=True)
class Recipe:
    """Everything that makes one image.

    :param files: name in the build context to file.
    :param labels: OCI annotations.
    :param epoch: date of its content, seconds since 1970.
    """

    image: Image
    files: Mapping[str, Path]
    labels: Mapping[str, str]
    epoch: int
    architecture: str


def check_version(image: Image, layout: Layout) -> None:
    """Compare an image's tag with the Debian package that gives it.

    :raises PinError: the archive has another upstream version.
    """
    if not image.version_of:
        return
    for file in archive.read_closure(layout.closure(f"image-{image.name}")):
        if file.name == image.version_of:
            upstream = file.version.split(":")[-1].rsplit("-", 1)[0].split("+")[0]
            if upstream == image.version:
                return
            raise PinError(
                f"image {image.name} is pinned to {image.version}, but the archive has "
                f"{file.name} {file.version}",
                solution=f'Set version = "{upstream}" in buildchain/pins/*/images.toml.',
            )
    raise PinError(
        f"image {image.name}: {image.version_of} is not among its packages",
        solution="Correct version_of in buildchain/pins/*/images.toml.",
    )


def make(layout: Layout, recipe: Recipe, below: Below, *, docker: str, skopeo_bin: str) -> Made:
    """Build, normalise and lay out an image; the engine keeps no copy of it."""
    image = recipe.image
    check_version(image, layout)
    reference = f"{engine.own_name(layout.build, image.name)}:{image.version}"
    layout.build.mkdir(parents=True, exist_ok=True)
    with (
        layout.scratch(f"image-{image.name}-") as scratch,
        engine.connect(docker) as client,
    ):
        folder = Path(scratch)
        context = dict(recipe.files)
        if image.debs:
            debs = archive.link_closure(layout, f"image-{image.name}", folder / "debs")
            context |= {f"debs/{deb.name}": deb for deb in debs}
        arguments = {"SOURCE_DATE_EPOCH": str(recipe.epoch), "VERSION": image.version}
        if not image.from_scratch:
            arguments["BASE_IMAGE"] = base.ensure_base(layout, client, below.reference)
        engine.build(client, reference, context, arguments)
        argv = skopeo.argv_for_export(
            skopeo_bin, reference, folder / "export", engine=engine.endpoint(docker)
        )
        process.run(argv)
        client.images.remove(reference, force=True)
        with replaced(layout.image(image.name, image.version)) as fresh:
            digests = _lay_out(folder / "export", fresh, recipe, below)
    final = layout.image(image.name, image.version)
    manifest = final / "manifest.json"
    digest = receipt.sha256(manifest)
    return Made(
        (final,),
        {"name": image.name, "version": image.version, "digest": digest},
        {manifest: digest, **{final / name: name for name in digests}},
    )


def _lay_out(export: Path, folder: Path, recipe: Recipe, below: Below) -> list[str]:
    """Write the normalised image; return the names (hashes) of its blobs."""
    manifest = json.loads((export / "manifest.json").read_text(encoding="utf-8"))
    built = json.loads((export / _hex(manifest["config"]["digest"])).read_text(encoding="utf-8"))
    tars = [export / _hex(layer["digest"]) for layer in manifest["layers"]]
    kept = 0 if recipe.image.from_scratch else len(below.diff_ids)
    diff_ids = list(built["rootfs"]["diff_ids"])
    if diff_ids[:kept] != list(below.diff_ids[:kept]):
        raise ContentError(f"image {recipe.image.name} is not built on {below.reference}")
    blobs = _base_blobs(folder, tars[:kept], diff_ids[:kept], below)
    blobs.append(layers.merge(tars[kept:], folder, epoch=recipe.epoch))
    config = json.dumps(_config(built["config"], recipe, blobs), sort_keys=True).encode()
    digest = hashlib.sha256(config).hexdigest()
    write_whole(folder / digest, config)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": f"sha256:{digest}"},
        "layers": [
            {"mediaType": LAYER, "size": blob.size, "digest": f"sha256:{blob.sha256}"}
            for blob in blobs
        ],
    }
    write_whole(folder / "manifest.json", json.dumps(document, indent=3))
    write_whole(folder / "version", skopeo.DIR_VERSION)
    return [digest, *(blob.sha256 for blob in blobs)]


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _base_blobs(
    folder: Path, tars: Sequence[Path], diff_ids: Sequence[str], below: Below
) -> list[layers.Blob]:
    """Share the base's compressed layers; compress those of a foreign base as they are."""
    if not below.blobs:
        return [layers.compress(tar, folder) for tar in tars]
    return [
        layers.Blob(link(blob, folder / blob.name), blob.name, blob.stat().st_size, _hex(diff_id))
        for blob, diff_id in zip(below.blobs, diff_ids, strict=True)
    ]


def _config(
    built: Mapping[str, Any], recipe: Recipe, blobs: Sequence[layers.Blob]
) -> dict[str, object]:
    """Return the image configuration, without a trace of when and where it was built."""
    moment = datetime.datetime.fromtimestamp(recipe.epoch, datetime.UTC)
    created = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {key: built[key] for key in KEPT if built.get(key)}
    kept["Labels"] = {**(built.get("Labels") or {}), **recipe.labels}
    return {
        "architecture": recipe.architecture,
        "os": "linux",
        "created": created,
        "config": kept,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{blob.diff_id}" for blob in blobs]},
        "history": [
            {"created": created, "created_by": f"MetalK8s build chain: {recipe.image.name}"}
            for _ in blobs
        ],
    }


def labels(image: Image, vendor: str, epoch: int) -> dict[str, str]:
    """Return the labels of an image: the OCI image specification's annotations."""
    prefix = "org.opencontainers.image"
    moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    return {
        f"{prefix}.title": image.title,
        f"{prefix}.version": image.version,
        f"{prefix}.licenses": image.licenses,
        f"{prefix}.vendor": vendor,
        f"{prefix}.created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def share(trees: Sequence[Path], hardlink_bin: str) -> None:
    """Hard-link equal files of several image trees."""
    process.run([hardlink_bin, "-c", "-q", *trees])
