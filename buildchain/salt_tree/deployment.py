"""The Salt tree of the ISO: states, pillar, and the versions they install.

On disk: ``salt/`` (file roots), ``pillar/`` (pillar roots, never inside them) and
``salt/metalk8s/versions.json``; files of ``salt/scripts`` stand at the root of the ISO.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive
from buildchain.project.catalog import Catalog

# Folder of the checkout's salt/ to its place on the ISO.
PLACES = {"states": "salt", "pillar": "pillar", "scripts": "."}
VERSIONS = "salt/metalk8s/versions.json"


def folders(layout: Layout) -> tuple[Path, ...]:
    """Return the folders of the checkout that are deployed."""
    return tuple(layout.salt_sources / name for name in PLACES)


def pinned(catalog: Catalog) -> dict[str, Any]:
    """Return what of :func:`versions` stands in the pins."""
    ours_deb = {
        name: {"version": f"{package.version}-{package.release}"}
        for package in catalog.packages
        for name in package.debs
    }
    ours_rpm = {
        name: {"version": package.version, "release": package.release}
        for package in catalog.packages
        for name in package.rpms
    }
    return {
        "metalk8s": {"version": catalog.version.full},
        **{package.name: {"version": package.version} for package in catalog.packages},
        "packages": {"debian": ours_deb, "redhat": ours_rpm},
        "signing_keys": {
            "redhat": {
                release: [
                    f"keys/redhat/{release}/{repository.name}.asc"
                    for repository in catalog.redhat_repositories
                ]
                for release in catalog.redhat_releases
            }
        },
        "images": {
            **{image.name: {"version": image.version} for image in catalog.images},
            **{image.name: {"version": image.tag} for image in catalog.pulled_images},
        },
    }


def versions(layout: Layout, catalog: Catalog) -> dict[str, object]:
    """Return what the states install, at which version."""
    downloaded = {
        file.name: {"version": file.version}
        for file in archive.read_closure(layout.closure("node"))
    }
    found = pinned(catalog)
    packages = {**found["packages"], "debian": {**downloaded, **found["packages"]["debian"]}}
    return {**found, "packages": packages}


def deploy(layout: Layout, catalog: Catalog, deployed: Iterable[Path]) -> Made:
    """Copy the tree and write the versions."""
    with replaced(layout.salt_tree) as fresh:
        for file in deployed:
            relative = file.relative_to(layout.salt_sources)
            target = fresh / PLACES[relative.parts[0]] / Path(*relative.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        document = json.dumps(versions(layout, catalog), indent=1, sort_keys=True)
        write_whole(fresh / VERSIONS, document + "\n")
    return Made((layout.salt_tree,))
