"""Tiny image trees made of nothing but Python, the same bytes on every run."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from static_container_registry import Repository

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_TYPES = {
    DOCKER: (
        "application/vnd.docker.container.image.v1+json",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ),
    OCI: (
        "application/vnd.oci.image.config.v1+json",
        "application/vnd.oci.image.layer.v1.tar+gzip",
    ),
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _gzip(content: bytes) -> bytes:
    """Stored, not compressed: the gzip module's header and zlib's choices vary by version."""
    stream = zlib.compressobj(0, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = stream.compress(content) + stream.flush()
    header = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return header + body + struct.pack("<LL", zlib.crc32(content), len(content))


def _layer(text: str) -> tuple[bytes, str]:
    """A gzipped tar with one file, and the digest of the tar (the diff id)."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry = tarfile.TarInfo("content.txt")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    tar = plain.getvalue()
    return _gzip(tar), sha256(tar)


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "size": len(content), "digest": f"sha256:{sha256(content)}"}


def image(
    directory: Path, text: str, media_type: str = DOCKER, declare: bool = True
) -> dict[str, object]:
    """Write one image and return its manifest; ``declare=False`` leaves out mediaType."""
    manifest, blobs = made(text, media_type, declare)
    directory.mkdir(parents=True)
    (directory / "version").write_text("Directory Transport Version: 1.1\n")
    for content in blobs:
        (directory / sha256(content)).write_bytes(content)
    write_manifest(directory, manifest)
    return manifest


def made(
    text: str, media_type: str = OCI, declare: bool = True
) -> tuple[dict[str, object], tuple[bytes, bytes]]:
    """Return the manifest of an image, and its config and layer."""
    layer, diff_id = _layer(text)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
            "history": [{"created": "1970-01-01T00:00:00Z"}],
        }
    ).encode()
    config_type, layer_type = _TYPES[media_type]
    manifest: dict[str, object] = {
        "schemaVersion": 2,
        **({"mediaType": media_type} if declare else {}),
        "config": _descriptor(config_type, config),
        "layers": [_descriptor(layer_type, layer)],
    }
    return manifest, (config, layer)


def write_manifest(directory: Path, manifest: object) -> None:
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1))


def standard(root: Path) -> Path:
    image(root / "pause" / "3.2", "pause")
    image(root / "a.b" / "1.0", "dotted")
    image(root / "a.b" / "latest", "dotted")
    image(root / "a.b" / "2.0-rc.1", "dotted again")
    image(root / "org" / "team" / "my-app" / "v1", "nested", OCI)
    image(root / "org" / "team" / "my-app" / "v2", "undeclared", OCI, declare=False)
    image(root / "org" / "1", "parent of a nested name")
    return root


class Layout:
    """An OCI image layout that is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[dict[str, object]] = []
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self._write()

    def _write(self) -> None:
        index = {"schemaVersion": 2, "manifests": self.entries}
        (self.folder / "index.json").write_text(json.dumps(index))

    def blob(self, content: bytes) -> Path:
        path = self.folder / "blobs" / "sha256" / sha256(content)
        path.write_bytes(content)
        return path

    def document(self, fields: dict[str, object]) -> dict[str, object]:
        """Put a manifest in; return its descriptor."""
        content = json.dumps(fields, indent=1).encode()
        self.blob(content)
        return _descriptor(str(fields.get("mediaType", OCI)), content)

    def image(self, text: str, media_type: str = OCI, **more: object) -> dict[str, object]:
        fields, blobs = made(text, media_type)
        for content in blobs:
            self.blob(content)
        return self.document({**fields, **more})

    def index(self, *below: dict[str, object], media_type: str = OCI_INDEX) -> dict[str, object]:
        return self.document(
            {"schemaVersion": 2, "mediaType": media_type, "manifests": list(below)}
        )

    def name(self, entry: dict[str, object], tag: str = "") -> None:
        """Make an entry of the layout's index."""
        named = {"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}
        self.entries.append({**entry, **named})
        self._write()


@dataclass(frozen=True)
class Item:
    """One tag of a tree: what a client gets for it."""

    name: str
    tag: str
    media_type: str
    hex: str
    path: Path
    blobs: tuple[Path, ...]


def items(root: Path, repositories: tuple[Repository, ...]) -> Iterator[Item]:
    """Say of every tag what a client gets, read from the files."""
    for repository in repositories:
        documents = {one.hex: one for one in repository.documents}
        folders = {one.hex: root / one.folder for one in repository.blobs}
        for tag in repository.tags:
            document = documents[tag.hex]
            path = root / document.path
            fields = json.loads(path.read_bytes())
            found = [fields["config"], *fields["layers"]] if "layers" in fields else []
            digits = [one["digest"].removeprefix("sha256:") for one in found]
            blobs = tuple(folders[one] / one for one in digits)
            yield Item(repository.name, tag.name, document.media_type, tag.hex, path, blobs)


def multiple(folder: Path) -> dict[str, dict[str, object]]:
    """Write a layout with an index, a signature of it, and an SBOM of one of its images."""
    layout = Layout(folder)
    parts = {name: layout.image(f"multiple for {name}") for name in ("amd64", "arm64")}
    platforms = [
        {**one, "platform": {"os": "linux", "architecture": name}} for name, one in parts.items()
    ]
    parts["index"] = layout.index(*platforms)
    parts["signature"] = layout.image(
        "signature", subject=parts["index"], artifactType="application/vnd.example.signature"
    )
    notes = {"note": "'$uri' \\ \"{{ x }}\" {% y %}; é"}
    parts["sbom"] = layout.image("sbom", subject=parts["amd64"], annotations=notes)
    layout.name(parts["index"], "1.0")
    layout.name(parts["index"], "latest")
    layout.name(parts["signature"])
    layout.name(parts["sbom"], f"sha256-{'0' * 64}.sbom")
    return parts
