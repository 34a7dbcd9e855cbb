"""The static registry: nginx configuration that serves the ISO's images.

On disk: ``registry-config.inc``, included by the server block of whoever mounts the ISO at
``/srv/scality/<project>-<version>``.
"""

from __future__ import annotations

from pathlib import Path

from buildchain.errors import ContentError
from buildchain.layout import Layout
from buildchain.receipt import Made, files, write_whole

CONFIG = "registry-config.inc"
MOUNTS = "/srv/scality"  # where installed systems mount archives


def generator_files() -> tuple[Path, ...]:
    """Return the generator's own files: its output depends on them."""
    import importlib.util

    spec = importlib.util.find_spec("static_container_registry")
    assert spec is not None
    assert spec.origin is not None
    return tuple(path for path in files([Path(spec.origin).parent]) if path.suffix == ".py")


def generate(layout: Layout, project: str, version: str) -> Made:
    """Write the configuration of all images.

    :raises ContentError: an image cannot be served; every reason is named.
    """
    import static_container_registry as registry

    place = f"{project}-{version}"
    options = registry.Options(
        name_prefix=place,
        server_root=f"{MOUNTS}/{place}/images",
    )
    try:
        text = registry.render(registry.read_tree(layout.images), options)
    except registry.RegistryError as error:
        raise ContentError(error.reason, solution=error.solution) from error
    output = layout.registry_config / CONFIG
    write_whole(output, text)
    return Made((output,))
