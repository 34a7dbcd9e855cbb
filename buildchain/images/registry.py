"""The static registry: nginx configuration that serves the ISO's images.

On disk: ``registry-config.inc``, included by the server block of whoever mounts the ISO at
``/srv/scality/metalk8s-<version>``, which is its place whatever the product is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.errors import ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, files, write_whole
from buildchain.store.blobs import link

CONFIG = "registry-config.inc"
MOUNTS = "/srv/scality"  # where installed systems mount archives


def generator_files() -> tuple[Path, ...]:
    """Return the generator's own files: its output depends on them."""
    import importlib.util

    spec = importlib.util.find_spec("static_container_registry")
    assert spec is not None
    assert spec.origin is not None
    return tuple(path for path in files([Path(spec.origin).parent]) if path.suffix == ".py")


def place(version: str) -> str:
    """Return the name that a medium is mounted by, and its images are served below."""
    return f"metalk8s-{version}"


def generate(layout: Layout, version: str, images: Iterable[Path]) -> Made:
    """Write the configuration of the images.

    :param images: receipts of the steps that made them: what else lies beside is not shipped.
    :raises ContentError: an image cannot be served; every reason is named.
    """
    import static_container_registry as registry

    options = registry.Options(
        name_prefix=place(version),
        server_root=f"{MOUNTS}/{place(version)}/images",
    )
    with layout.scratch("registry-") as scratch:
        for path in images:
            for made in receipt.read(path).outputs:
                source = layout.build / made.path
                link(source, Path(scratch) / source.relative_to(layout.images))
        try:
            text = registry.render(registry.read_tree(Path(scratch)), options)
        except registry.RegistryError as error:
            reason = error.reason.replace(scratch, str(layout.images))
            raise ContentError(reason, solution=error.solution) from error
    output = layout.registry_config / CONFIG
    write_whole(output, text)
    return Made((output,))
