"""Argument lists of skopeo, the bridge for image sources that only it speaks.

Programs: ``skopeo``. On disk: its ``dir:`` layout (manifest.json, version, blobs by hash).
"""

from __future__ import annotations

from pathlib import Path


def argv_for_export(
    binary: str, reference: str, folder: Path, *, engine: str = ""
) -> list[str | Path]:
    """Copy an image out of the Docker engine, layers as they are.

    :param engine: address of the engine when it is not skopeo's default.
    """
    host = [f"--src-daemon-host={engine}"] if engine else []
    # The image comes from our own engine, there is nothing to verify a signature against.
    return [binary, "--insecure-policy", "copy", "--quiet", "--format", "v2s2", *host,
            f"docker-daemon:{reference}", f"dir:{folder}"]  # fmt: skip
