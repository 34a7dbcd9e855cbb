"""Images of a medium: whole, referred to, named by the versions, and served."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from buildchain.images.registry import CONFIG
from buildchain.proof.medium_check import Check, Versions, some
from buildchain.proof.states import VERSIONS
from buildchain.store.manifest import INDEXES, digest_of

# What an image's folder has, either of them.
MARKS = {"manifest.json", "version", "index.json", "oci-layout"}


def trees_of(check: Check) -> dict[str, str]:
    """Return the images there are, ``name:version`` to folder, and want what they consist of."""
    found = {}
    for path in sorted(check.paths):
        folder, _, file = path.rpartition("/")
        if not path.startswith("images/") or file not in MARKS:
            continue
        name, _, version = folder.removeprefix("images/").rpartition("/")
        found[f"{name}:{version}"] = folder
    for image, folder in found.items():
        if f"{folder}/oci-layout" in check.paths or f"{folder}/index.json" in check.paths:
            check.want(f"{folder}/oci-layout", f"image {image}")
            _descend(check, f"{folder}/index.json", f"{folder}/blobs/sha256", f"image {image}")
        else:
            check.want(f"{folder}/version", f"image {image}")
            _descend(check, f"{folder}/manifest.json", folder, f"image {image}")
    return found


def _descend(check: Check, path: str, blobs: str, who: str) -> None:
    """Want a manifest or an index, and what it lists, all the way down."""
    check.want(path, who)
    try:
        document = json.loads(check.text(path) or "{}")
        entries = [document.get("config"), *document.get("layers", ())]
        for entry in (*(e for e in entries if e), *document.get("manifests", ())):
            below = f"{blobs}/{entry['digest'].removeprefix('sha256:')}"
            if entry.get("mediaType") in INDEXES or entry in document.get("manifests", ()):
                _descend(check, below, blobs, path)
            else:
                check.want(below, path)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        check.problem(f"{path} is no manifest: {error!r}")


def compare_served(check: Check, versions: Versions, trees: Mapping[str, str]) -> None:
    """Compare the registry's configuration with the images."""
    import static_container_registry as registry

    text = check.text(CONFIG) or ""
    root = f"{versions.mount}/images"
    roots = set(re.findall(r'alias "([^"$]+)/\$', text))
    if roots - {root}:
        check.problem(f"{CONFIG} serves {', '.join(sorted(roots - {root}))}, not {root}")
    served = {f"images/{path}" for path in registry.served(text)}
    for path in served:
        check.want(path, CONFIG)
    for image, folder in trees.items():
        if text and not any(path.startswith(f"{folder}/") for path in served):
            check.problem(f"image {image} is on the medium, {CONFIG} does not serve it")


def _by_tag(check: Check, image: str, trees: Mapping[str, str]) -> str:
    """Return ``name:version`` of an image that is referred to by tag or by digest."""
    name, _, digest = image.partition("@")
    for tagged, folder in trees.items() if digest else ():
        manifest = f"{folder}/manifest.json"
        is_same = tagged.rpartition(":")[0] == name and manifest in check.paths
        if is_same and digest_of(check.contents.read(manifest)) == digest:
            return tagged
    return image


def compare_references(check: Check, versions: Versions, trees: Mapping[str, str]) -> None:
    """Compare references with images, both ways."""
    prefix = f"/metalk8s-{versions.metalk8s}/"
    referred = set()
    for reference, origins in check.wanted.images.items():
        image = _by_tag(check, reference.partition(prefix)[2], trees)
        referred.add(image)
        if image not in trees:
            origin = some(origins)
            check.problem(f"{origin} refers to the image {reference}, which is not on the medium")
    known = {f"{name}:{version}" for name, version in versions.images.items()}
    for image in sorted(known - trees.keys()):
        check.problem(f"{VERSIONS} names the image {image}, which is not on the medium")
    for image in sorted(trees.keys() - known - check.declared.keys()):
        check.problem(f"image {image} is on the medium, {VERSIONS} does not name it")
    for image in sorted(trees.keys() - referred - check.declared.keys()):
        check.problem(f"image {image} is on the medium, nothing refers to it")
    for image in sorted(check.declared.keys() & referred):
        check.problem(f"image {image} is declared unused, but something refers to it")
