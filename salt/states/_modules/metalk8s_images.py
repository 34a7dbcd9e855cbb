"""Images of the container engine, taken from the tree of an ISO without a registry.

Runs ``ctr``. An image on an ISO is a folder ``images/<name>/<version>`` with ``manifest.json`` and
one file a blob, named by the SHA-256 of what it holds. The engine reads archives in the OCI image
layout, so the folder is streamed to it as one.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
from typing import Any, BinaryIO

NAME = "io.containerd.image.name"
SCHEMA2 = "application/vnd.docker.distribution.manifest.v2+json"


def present(reference: str) -> str:
    """Give the digest of the image that the engine has under a name, or nothing."""
    argv = [*_images(), "list", f"name=={reference}"]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()[1:]]
    return next((row[2] for row in rows if row[0] == reference), "")


def digest(tree: str) -> str:
    """Give the digest of the image in a folder."""
    manifest = (pathlib.Path(tree) / "manifest.json").read_bytes()
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def write_archive(reference: str, tree: str, stream: BinaryIO) -> None:
    """Write the image in a folder as an archive that calls it by ``reference``.

    :raises ValueError: the folder lacks a blob that the manifest names, or its size is another.
        (The engine itself recomputes every digest.)
    """
    folder = pathlib.Path(tree)
    manifest = (folder / "manifest.json").read_bytes()
    document: dict[str, Any] = json.loads(manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [
            {
                "mediaType": document.get("mediaType", SCHEMA2),
                "digest": digest(tree),
                "size": len(manifest),
                "annotations": {NAME: reference},
            }
        ],
    }
    blobs = {blob["digest"]: blob for blob in (document["config"], *document["layers"])}
    for name, blob in blobs.items():
        file = folder / name.partition(":")[2]
        if not file.is_file() or file.stat().st_size != blob["size"]:
            raise ValueError(f"{tree}: blob {name} of {blob['size']} bytes is not whole")
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        _add(archive, _place(digest(tree)), manifest)
        for name in blobs:
            archive.add(folder / name.partition(":")[2], _place(name))


def load(reference: str, tree: str) -> None:
    """Hand the image in a folder to the engine.

    :raises RuntimeError: the engine does not take it; with what it said.
    """
    pipe = subprocess.PIPE
    argv = [*_images(), "import", "-"]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as engine:
        assert engine.stdin is not None
        try:
            write_archive(reference, tree, engine.stdin)
        except BrokenPipeError:
            pass  # the engine's own words say more
        except BaseException:
            engine.kill()
            raise
        _, said = engine.communicate()
    if engine.returncode:
        raise RuntimeError(f"ctr images import of {reference}: {said.decode().strip()}")


def _place(name: str) -> str:
    algorithm, _, value = name.partition(":")
    return f"blobs/{algorithm}/{value}"


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _images() -> list[str]:
    return [*__salt__["metalk8s_engine.command"](), "images"]
