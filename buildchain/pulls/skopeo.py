"""Argument lists of skopeo, the bridge for image sources that only it speaks.

Programs: ``skopeo``. On disk: its ``dir:`` layout (manifest.json, version, blobs by hash).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DIR_VERSION = "Directory Transport Version: 1.1\n"  # the file `version` of a dir: layout


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


def argv_for_archive(
    binary: str, reference: str, path: Path, names: Sequence[str], *, engine: str = ""
) -> list[str | Path]:
    """Write an image of the Docker engine to an archive as ``docker save`` makes it.

    :param names: what the image is called there, at least one name.
    :param engine: address of the engine when it is not skopeo's default.
    """
    host = [f"--src-daemon-host={engine}"] if engine else []
    first, *more = names
    return [binary, "--insecure-policy", "copy", "--quiet", *host,
            *(f"--additional-tag={name}" for name in more),
            f"docker-daemon:{reference}", f"docker-archive:{path}:{first}"]  # fmt: skip


def argv_for_policy(
    binary: str,
    reference: str,
    folder: Path,
    *,
    policy: Path,
    platform: str,
    plain: bool = False,
    login: Path | None = None,
) -> list[str | Path]:
    """Copy an image within a signature policy, without the blobs that are in ``folder`` already.

    skopeo evaluates a policy only while it copies; with all blobs there it fetches the manifest,
    the configuration and the signatures.

    :param reference: by digest.
    :param platform: ``os/architecture[/variant]``, or ``all``.
    """
    system, _, rest = platform.partition("/")
    architecture, _, variant = rest.partition("/")
    chosen: list[str] = [f"--override-os={system}", f"--override-arch={architecture}"]
    if variant:
        chosen.append(f"--override-variant={variant}")
    which = [] if platform == "all" else chosen
    how = ["--multi-arch=all"] if platform == "all" else []
    # Digests stay; otherwise Docker's manifests are made over and their configuration fetched.
    return [binary, f"--policy={policy}", *which, "copy", "--quiet", "--preserve-digests",
            "--remove-signatures", *how, f"--src-tls-verify={str(not plain).lower()}",
            *([f"--src-authfile={login}"] if login else []),
            f"--dest-shared-blob-dir={folder / 'blobs'}", f"docker://{reference}",
            f"oci:{folder / 'image'}:checked"]  # fmt: skip
