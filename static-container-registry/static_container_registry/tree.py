"""A directory tree of images, read into records.

Two kinds of folders hold images, side by side as one likes:

``skopeo copy … dir:ROOT/<name>/<version>`` leaves ``manifest.json``, ``version`` (of the
layout) and one file per config and layer, named by 64 hexadecimal digits; of an index,
what is below it is in ``<64 digits>.manifest.json``.

An OCI image layout has ``oci-layout``, ``index.json`` and ``blobs/sha256/<64 digits>``.
Names of its index (``org.opencontainers.image.ref.name``) are tags. The folder is
``ROOT/<name>``, or ``ROOT/<name>/<version>`` if ``<version>`` is one of its tags or it has
none; if it is ROOT itself, its names are ``<name>:<tag>``.

Names may be nested.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import Problem, TreeError
from .grammar import is_name, is_tag
from .inventory import Inventory
from .manifest import REF_NAME, Descriptor, Manifest, ManifestError, parse, parse_layout, read
from .repository import Blob, Document, Repository

LAYOUT = "oci-layout"
INDEX = "index.json"
OUTSIDE = "links to outside of the tree"
_EXPECTED_FILE = re.compile(
    r"manifest\.json|version|signature-[0-9]+|[a-f0-9]{64}(?:\.(?:manifest\.json|signature-[0-9]+))?"
)


def read_tree(root: Path) -> tuple[Repository, ...]:
    """Return everything the tree holds, sorted by name.

    Sizes are compared, layers are not hashed (``check`` does that).

    :raises TreeError: with everything that cannot be served, not only the first.
    """
    repositories, problems = scan(root)
    if problems:
        raise TreeError(problems)
    return repositories


def scan(root: Path) -> tuple[tuple[Repository, ...], tuple[Problem, ...]]:
    """Return what can be served and all reasons why the rest cannot, both sorted."""
    if not root.is_dir():
        return (), (Problem(root, "not a directory"),)
    inventory = Inventory()
    _walk(root, root, inventory)
    repositories = inventory.repositories()
    if not repositories and not inventory.problems:
        inventory.problems.append(Problem(root, "holds no image"))
    return repositories, tuple(sorted(set(inventory.problems)))


@dataclass(frozen=True)
class _Folder:
    """A folder that holds images, and where in it what is."""

    root: Path
    path: Path
    is_layout: bool

    def blob(self, digits: str) -> Path:
        return self.path / "blobs" / "sha256" / digits if self.is_layout else self.path / digits

    def manifest(self, digits: str) -> Path:
        return self.blob(digits) if self.is_layout else self.path / f"{digits}.manifest.json"

    def place(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _walk(root: Path, directory: Path, found: Inventory) -> None:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        found.problems.append(Problem(directory, f"cannot be listed: {error.strerror}"))
        return
    is_layout, is_image = directory / LAYOUT in entries, directory / "manifest.json" in entries
    if is_layout:
        _read_layout(root, directory, found)
    elif is_image:
        _read_image(root, directory, found)
    folders = [entry for entry in entries if entry.is_dir()]
    if not (is_layout or is_image or folders or directory == root):
        reason = "has neither manifest.json nor oci-layout nor folders"
        found.problems.append(Problem(directory, reason))
    for entry in entries:
        if entry in folders:
            if not (is_layout and entry.name == "blobs"):
                _enter(root, entry, found)
        # A layout may have files of its maker's, OCI image layout specification, "Content".
        elif not (is_layout or (is_image and _EXPECTED_FILE.fullmatch(entry.name))):
            found.problems.append(Problem(entry, "does not belong into a tree of images"))


def _leads_out(root: Path, path: Path) -> bool:
    """Tell whether a symbolic link on the way to a file leaves the tree: nginx would follow it."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _enter(root: Path, folder: Path, found: Inventory) -> None:
    """Follow a symbolic link only to an image, as an alias: links to others may loop."""
    if not folder.is_symlink():
        _walk(root, folder, found)
    elif _leads_out(root, folder):
        found.problems.append(Problem(folder, OUTSIDE))
    elif (folder / LAYOUT).is_file():
        found.problems.append(Problem(folder, "links to a layout: name the tag in its index.json"))
    elif (folder / "manifest.json").is_file():
        _read_image(root, folder, found)
    else:
        found.problems.append(Problem(folder, "links to something that is not an image"))


def _read_image(root: Path, directory: Path, found: Inventory) -> None:
    """Read one version of an image as skopeo's ``dir:`` leaves it."""
    folder = _Folder(root, directory, is_layout=False)
    path = directory / "manifest.json"
    top = _read_manifest(folder, path, None, found)
    name, tag = directory.parent.relative_to(root).as_posix(), directory.name
    if _valid(directory, name, tag, found) and top is not None:
        found.add_tag(name, tag, top.hex, directory)
        _add(folder, name, [(path, top)], found)


def _read_layout(root: Path, directory: Path, found: Inventory) -> None:
    """Read an OCI image layout (OCI image layout specification)."""
    folder = _Folder(root, directory, is_layout=True)
    outside = [p for p in (directory / LAYOUT, directory / INDEX) if _leads_out(root, p)]
    if outside:
        found.problems += [Problem(path, OUTSIDE) for path in outside]
        return
    try:
        version = read((directory / LAYOUT).read_bytes()).get("imageLayoutVersion")
        if version != "1.0.0":
            raise ManifestError(f"image layout of version {version!r}, want '1.0.0'")
        entries = parse_layout((directory / INDEX).read_bytes())
        references = _references(root, directory, entries)
    except OSError as error:
        found.problems.append(Problem(directory, f"cannot be read: {error.strerror}"))
        return
    except ManifestError as error:
        found.problems.append(Problem(directory, str(error)))
        return
    for entry, name, tag in references:
        path = folder.manifest(entry.hex)
        top = _read_manifest(folder, path, entry, found)
        if _valid(directory, name, tag, found) and top is not None:
            if tag:
                found.add_tag(name, tag, top.hex, directory)
            _add(folder, name, [(path, top)], found)


def _references(
    root: Path, directory: Path, entries: tuple[Descriptor, ...]
) -> list[tuple[Descriptor, str, str]]:
    """Return every entry with the name and the tag it is served by.

    :raises ManifestError: nothing says which entry a folder's version is.
    """
    place = directory.relative_to(root)
    if directory == root:
        named = [(entry, *entry.name.rpartition(":")[::2]) for entry in entries]
        if all(name for _, name, _ in named):
            return named
        raise ManifestError(f"as a whole tree, its entries need a {REF_NAME} <name>:<tag>")
    tags = {entry.name for entry in entries} - {""}
    if tags and place.name not in tags:
        return [(entry, place.as_posix(), entry.name) for entry in entries]
    if not tags and len(entries) != 1:
        raise ManifestError(f"has {len(entries)} entries and none has a {REF_NAME}")
    only = "" if tags else place.name
    return [(entry, place.parent.as_posix(), entry.name or only) for entry in entries]


def _valid(directory: Path, name: str, tag: str, found: Inventory) -> bool:
    problems = [
        Problem(directory, f"{text!r} is not a valid {what} of an image")
        for text, what, valid in ((name, "name", is_name(name)), (tag, "tag", is_tag(tag)))
        if not valid and (text or what == "name")
    ]
    found.problems += problems
    return not problems


def _read_manifest(
    folder: _Folder, path: Path, wanted: Descriptor | None, found: Inventory
) -> Manifest | None:
    if _leads_out(folder.root, path):
        found.problems.append(Problem(path, OUTSIDE))
        return None
    try:
        manifest = parse(path.read_bytes())
    except FileNotFoundError:
        found.problems.append(Problem(path, "missing, though the manifest refers to it"))
    except OSError as error:
        found.problems.append(Problem(path, f"cannot be read: {error.strerror}"))
    except ManifestError as error:
        found.problems.append(Problem(path, str(error)))
    else:
        reason = _mismatch(manifest, wanted) if wanted else ""
        if not reason:
            return manifest
        found.problems.append(Problem(path, reason))
    return None


def _mismatch(manifest: Manifest, wanted: Descriptor) -> str:
    if manifest.hex != wanted.hex:
        return f"has SHA-256 {manifest.hex}"
    if manifest.size != wanted.size:
        return f"has {manifest.size} bytes, the manifest says {wanted.size}"
    if manifest.media_type != wanted.media_type:
        return f"is {manifest.media_type}, its descriptor says {wanted.media_type}"
    return ""


def _add(
    folder: _Folder, name: str, pending: list[tuple[Path, Manifest]], found: Inventory
) -> None:
    """Take manifests, all below them and all their blobs into a repository.

    A digest cannot be part of what it was made from, so this ends.
    """
    while pending:
        path, manifest = pending.pop()
        found.add_document(
            name, Document(manifest.hex, manifest.media_type, folder.place(path)), manifest
        )
        for problem in _blob_problems(folder, manifest):
            found.problems.append(problem)
        for blob in manifest.blobs:
            place = folder.place(folder.blob(blob.hex).parent)
            found.add_blob(name, Blob(blob.hex, place))
        for child in manifest.children:
            if not found.has_document(name, child.hex):
                below = folder.manifest(child.hex)
                read_below = _read_manifest(folder, below, child, found)
                if read_below is not None:
                    pending.append((below, read_below))


def _blob_problems(folder: _Folder, manifest: Manifest) -> Iterator[Problem]:
    for blob in manifest.blobs:
        path = folder.blob(blob.hex)
        if _leads_out(folder.root, path):
            yield Problem(path, OUTSIDE)
            continue
        try:
            size = path.stat().st_size
        except OSError:
            yield Problem(path, "missing, though the manifest refers to it")
            continue
        if not path.is_file():
            yield Problem(path, "missing, though the manifest refers to it")
        elif size != blob.size:
            yield Problem(path, f"has {size} bytes, the manifest says {blob.size}")
