"""The base of all images and the builder on top of it, both identified by content.

Programs: ``mmdebstrap``. On disk: ``_build/base/base.tar`` (one layer), its compressed form that
every image shares, and dpkg's status file. In the engine: ``metalk8s-base:<12 digits>`` and
``metalk8s-builder:<12 digits>``, made again from files when the engine lost them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from buildchain.core import events, process, receipt
from buildchain.core.errors import EngineError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive, layers, mmdebstrap
from buildchain.debian.deb_repository import make_deb_repository
from buildchain.machine import engine
from buildchain.project.model import Content
from buildchain.signatures.signing import Signer
from buildchain.store.blobs import Store

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

TAG_DIGITS = 12
STATUS_IN_ROOT = "var/lib/dpkg/status"


def make_base(layout: Layout, packages: Sequence[str], content: Content, signer: Signer) -> Made:
    """Make the base layer from the packages of the closure ``base``, without a network."""
    layout.base.mkdir(parents=True, exist_ok=True)
    store = Store(layout.store)
    # A user namespace of mmdebstrap's is a stranger to the build root, and to private homes.
    as_root = os.geteuid() == 0
    place = (
        layout.scratch("base-") if as_root else tempfile.TemporaryDirectory(prefix="metalk8s-base-")
    )
    with place as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        debs = [
            store.link(file.sha256, folder / "debs" / file.pool_name)
            for file in archive.read_closure(layout.closure("base"))
        ]
        local = make_deb_repository(
            folder / "repository",
            debs,
            signer,
            suite=content.suite,
            architecture=content.architecture,
            epoch=content.epoch,
        )
        keyring, _ = signer.export(folder, "local")
        tar = folder / "base.tar"
        argv = mmdebstrap.argv_for_root(
            local, keyring, content.suite, packages, tar, as_root=as_root
        )
        # mmdebstrap sends SIGHUP to its whole process group when it cannot write its output.
        process.run(argv, env={"SOURCE_DATE_EPOCH": str(content.epoch)}, own_group=True)
        return _finish_base(layout, tar)


def _finish_base(layout: Layout, tar: Path) -> Made:
    with tarfile.open(tar) as archive:
        status = archive.extractfile(f"./{STATUS_IN_ROOT}")
        assert status is not None
        write_whole(layout.base_status, status.read())
    # Not a rename: the scratch folder may be on another file system.
    shutil.move(tar, layout.base_tar)
    diff_id = receipt.sha256(layout.base_tar)
    blob = layers.compress(layout.base_tar, layout.base)
    return Made(
        (layout.base_tar, layout.base_status, blob.path),
        {
            "reference": f"metalk8s-base:{diff_id[:TAG_DIGITS]}",
            "diff_ids": [f"sha256:{diff_id}"],
            "blobs": [blob.path.name],
        },
        {layout.base_tar: diff_id, blob.path: blob.sha256},
    )


def pull_base(layout: Layout, client: docker.DockerClient, reference: str) -> Made:
    """Take a base from a registry by digest, in place of our own (``BASE_IMAGE``).

    :raises EngineError: it cannot be pulled, or is no Debian system.
    """
    layout.base.mkdir(parents=True, exist_ok=True)
    events.note(f"pulling {reference}")
    client.images.pull(reference)
    container = client.containers.create(reference, ["true"], network_mode="none")
    try:
        write_whole(layout.base_status, _file_in(container, f"/{STATUS_IN_ROOT}"))
    finally:
        container.remove(force=True, v=True)
    facts = {
        "reference": reference,
        "diff_ids": list(engine.layers(client, reference)),
        "blobs": [],
    }
    return Made((layout.base_status,), facts)


def _file_in(container: Container, path: str) -> bytes:
    import docker

    try:
        stream, _ = container.get_archive(path)
    except docker.errors.NotFound as error:
        raise EngineError(
            f"BASE_IMAGE has no {path}", solution="Name an image of Debian 12 in BASE_IMAGE."
        ) from error
    with tempfile.TemporaryFile() as buffer:
        for chunk in stream:
            buffer.write(chunk)
        buffer.seek(0)
        with tarfile.open(fileobj=buffer) as archive:
            content = archive.extractfile(archive.next() or Path(path).name)
            assert content is not None
            return content.read()


def ensure_base(layout: Layout, client: docker.DockerClient, reference: str) -> str:
    """Return the base's reference, imported again when the engine does not have it."""
    if not engine.has_image(client, reference):
        if "@" in reference:
            client.images.pull(reference)
        else:
            engine.import_root(client, layout.base_tar, reference)
    return reference


def content_name(repository: str, parts: Iterable[bytes]) -> str:
    """Name an image by what goes into it: ``<repository>:<digits>``."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return f"{repository}:{digest.hexdigest()[:TAG_DIGITS]}"


def ensure_image(
    layout: Layout,
    client: docker.DockerClient,
    reference: str,
    closure: str,
    files: Mapping[str, Path],
    below: str,
) -> str:
    """Return ``reference``, built (again) on the base when the engine does not have it.

    :param closure: set of Debian packages it is made with, ``debs/`` of its build context.
    :param files: the rest of the build context, ``Dockerfile`` among them.
    """
    if engine.has_image(client, reference):
        return reference
    ensure_base(layout, client, below)
    with layout.scratch(f"{closure}-") as scratch:
        debs = archive.link_closure(layout, closure, Path(scratch))
        events.note(f"building {reference} with {len(debs)} packages")
        context = {**files, **{f"debs/{deb.name}": deb for deb in debs}}
        engine.build(client, reference, context, {"BASE_IMAGE": below})
    return reference


def ensure_builder(
    layout: Layout, client: docker.DockerClient, below: str, dockerfile: Path
) -> str:
    """Return the builder's reference, built (again) when the engine does not have it."""
    parts = (below.encode(), layout.closure("builder").read_bytes(), dockerfile.read_bytes())
    reference = content_name("metalk8s-builder", parts)
    files = {"Dockerfile": dockerfile}
    return ensure_image(layout, client, reference, "builder", files, below)
