"""A set of container images that share layers, made up: same arguments, same bytes.

The shape is that of a real distribution's (``notes/perf-baselines.md``): static binaries on
nothing, daemons on a common base, one giant. At full size 25 images of 1.6 GB in all, 1.06 GB of
it unique. The layers hold what does not compress, as compressed layers do.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
OCI = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.oci.image.layer.v1.tar+gzip",
)
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
BASE, COMMON = 28_000_000, 5_000_000  # bytes
ON_NOTHING = (300_000, 45e6, 42e6, 40e6, 16e6, 34e6, 38e6, 30e6)
ON_BASE = (272e6, 100e6, 90e6, 66e6, 50e6, 40e6, 35e6, 30e6, 25e6, 20e6, 15e6, 12e6, 10e6, 8e6,
           5e6, 3e6, 2e6)  # fmt: skip
WITH_COMMON = 10
PIECE = 1 << 24  # bytes


@dataclass(frozen=True)
class Made:
    """One image: name, layers as (seed, size in bytes) from below."""

    name: str
    tag: str
    layers: tuple[tuple[int, int], ...]


def images(scale: float = 1.0) -> list[Made]:
    """Return what the set consists of.

    :param scale: factor on every size.
    """

    def size(value: float) -> int:
        return max(1, int(value * scale))

    base, common = (1, size(BASE)), (2, size(COMMON))
    found = [
        Made(f"static-{number}", "1.0", ((100 + number, size(value)),))
        for number, value in enumerate(ON_NOTHING)
    ]
    for number, value in enumerate(ON_BASE):
        middle = (common,) if number < WITH_COMMON else ()
        own = (200 + number, size(value))
        found.append(Made(f"org/daemon-{number}", "1.0", (base, *middle, own)))
    return found


def layer(seed: int, size: int) -> tuple[bytes, str]:
    """Return a layer (gzip, stored) and its diff id."""
    source = random.Random(seed)
    # In pieces: one call gives at most 2**31 bits.
    content = b"".join(source.randbytes(min(PIECE, size - at)) for at in range(0, size, PIECE))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo(f"bin/{seed}")
        member.size, member.mode = size, 0o755
        archive.addfile(member, io.BytesIO(content))
    tar = stream.getvalue()
    return gzip.compress(tar, 0, mtime=0), digest(tar)


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def manifest(
    config: bytes,
    layers: list[tuple[str, int]],
    *,
    kinds: tuple[str, str, str] = (
        MANIFEST,
        CONFIG,
        LAYER,
    ),
) -> bytes:
    """Return a manifest; ``layers`` are digest and size, ``kinds`` the media types."""
    document = {
        "schemaVersion": 2,
        "mediaType": kinds[0],
        "config": {"mediaType": kinds[1], "size": len(config), "digest": digest(config)},
        "layers": [{"mediaType": kinds[2], "size": size, "digest": name} for name, size in layers],
    }
    return json.dumps(document, indent=3).encode()


def configuration(name: str, diff_ids: list[str], architecture: str = "amd64") -> bytes:
    """Return an image's configuration."""
    document = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Labels": {"name": name}},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    return json.dumps(document).encode()


def content(scale: float = 1.0) -> Iterator[tuple[Made, bytes, dict[str, bytes]]]:
    """Yield each image: what it is, its manifest, its blobs that no image before it had."""
    known: dict[tuple[int, int], tuple[str, int, str]] = {}
    for image in images(scale):
        blobs: dict[str, bytes] = {}
        for key in image.layers:
            if key not in known:
                data, diff_id = layer(*key)
                known[key] = (digest(data), len(data), diff_id)
                blobs[digest(data)] = data
        parts = [known[key] for key in image.layers]
        config = configuration(image.name, [diff_id for _, _, diff_id in parts])
        blobs[digest(config)] = config
        yield image, manifest(config, [(name, size) for name, size, _ in parts]), blobs


def oci(name: str, architecture: str, *, subject: str = "", kind: str = "") -> tuple[bytes, dict]:
    layer = f"{name} for {architecture}".encode() * 100
    config = configuration(name, [digest(layer)], architecture)
    parts = [(digest(layer), len(layer))]
    document = json.loads(manifest(config, parts, kinds=OCI))
    if subject:
        document["subject"] = {"mediaType": OCI[0], "digest": subject, "size": 1}
        document["artifactType"] = kind
    return json.dumps(document).encode(), {parts[0][0]: layer, digest(config): config}


def put_index(
    put: Callable[[str, str, bytes, dict[str, bytes]], str], name: str, *architectures: str
) -> dict[str, str]:
    """Put an index in; return digests by architecture, the index's under the empty name."""
    entries, found = [], {}
    for architecture in architectures:
        document, blobs = oci(name, architecture)
        found[architecture] = put(name, "", document, blobs)
        platform = {"os": "linux", "architecture": architecture}
        entries.append({"mediaType": OCI[0], "digest": found[architecture],
                        "size": len(document), "platform": platform})  # fmt: skip
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}
    found[""] = put(name, "1.0", json.dumps(index).encode(), {})
    return found
