"""The Salt tree of the ISO: states, pillar, and the versions they install.

On disk: ``salt/`` (file roots), ``pillar/`` (pillar roots, never inside them) and
``salt/metalk8s/versions.json``; files of ``salt/scripts`` stand at the root of the ISO.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive
from buildchain.project.catalog import Catalog
from buildchain.project.means import Means

# Folder of the checkout's salt/ to its place on the ISO.
PLACES = {"states": "salt", "pillar": "pillar", "scripts": "."}
VERSIONS = "salt/metalk8s/versions.json"


def folders(layout: Layout) -> tuple[Path, ...]:
    """Return the folders of the checkout that are deployed."""
    return tuple(layout.salt_sources / name for name in PLACES)


@dataclass(frozen=True)
class Ours:
    """A package of ours: its version, and what it is called in packages of both families."""

    name: str
    version: str
    release: str
    debs: tuple[str, ...]
    rpms: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """What the Salt tree is made of.

    :param files: of the checkout's salt/.
    :param version: of the product.
    :param images: name and version each.
    :param signing_keys: places on the ISO of other people's keys, by major version of EL.
    """

    files: tuple[Path, ...]
    version: str
    packages: tuple[Ours, ...]
    images: tuple[tuple[str, str], ...]
    signing_keys: Mapping[str, tuple[str, ...]]


def tree(catalog: Catalog, files: tuple[Path, ...]) -> Tree:
    """Return what the pins say of the tree.

    :param files: what is deployed of the checkout.
    """
    return Tree(
        files,
        catalog.version.full,
        tuple(Ours(p.name, p.version, p.release, p.debs, p.rpms) for p in catalog.packages),
        (
            *((image.name, image.version) for image in catalog.images),
            *((image.name, image.tag) for image in catalog.pulled_images),
        ),
        {
            release: tuple(
                f"keys/redhat/{release}/{repository.name}.asc"
                for repository in catalog.redhat_repositories
            )
            for release in catalog.redhat_releases
        },
    )


def versions(layout: Layout, wanted: Tree) -> dict[str, object]:
    """Return what the states install, at which version."""
    downloaded = {
        file.name: {"version": file.version}
        for file in archive.read_closure(layout.closure("node"))
    }
    ours_deb = {
        name: {"version": f"{package.version}-{package.release}"}
        for package in wanted.packages
        for name in package.debs
    }
    ours_rpm = {
        name: {"version": package.version, "release": package.release}
        for package in wanted.packages
        for name in package.rpms
    }
    return {
        "metalk8s": {"version": wanted.version},
        **{package.name: {"version": package.version} for package in wanted.packages},
        "packages": {"debian": {**downloaded, **ours_deb}, "redhat": ours_rpm},
        "signing_keys": {"redhat": dict(wanted.signing_keys)},
        "images": {name: {"version": version} for name, version in wanted.images},
    }


def deploy(wanted: Tree, means: Means) -> Made:
    """Copy the tree and write the versions."""
    layout = means.layout
    with replaced(layout.salt_tree) as fresh:
        for file in wanted.files:
            relative = file.relative_to(layout.salt_sources)
            target = fresh / PLACES[relative.parts[0]] / Path(*relative.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        document = json.dumps(versions(layout, wanted), indent=1, sort_keys=True)
        write_whole(fresh / VERSIONS, document + "\n")
    return Made((layout.salt_tree,))
