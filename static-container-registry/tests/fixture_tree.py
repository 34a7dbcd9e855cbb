"""Tiny image trees made of nothing but Python, the same bytes on every run."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
import zlib
from pathlib import Path

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
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
    directory.mkdir(parents=True)
    (directory / "version").write_text("Directory Transport Version: 1.1\n")
    for content in (config, layer):
        (directory / sha256(content)).write_bytes(content)
    write_manifest(directory, manifest)
    return manifest


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
