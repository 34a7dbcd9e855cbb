"""A directory tree as `skopeo copy … dir:` leaves it, read into records.

On disk, for every image: ``ROOT/<name>/<version>/manifest.json``, ``version`` (of the
layout) and one file per config and layer, named by 64 hexadecimal digits. Names may be
nested; a directory is an image exactly if it has a ``manifest.json``.
"""

from __future__ import annotations

import re
from pathlib import Path

from .errors import Problem, TreeError
from .grammar import is_name, is_tag
from .image import Blob, Image
from .manifest import ManifestError, parse

_EXPECTED_FILE = re.compile(r"manifest\.json|version|signature-[0-9]+|[a-f0-9]{64}")


def read_tree(root: Path) -> tuple[Image, ...]:
    """Return every image of the tree, sorted by name and tag.

    Sizes are compared, contents are not hashed (``check`` does that).

    :raises TreeError: with everything that cannot be served, not only the first.
    """
    images, problems = scan(root)
    if problems:
        raise TreeError(problems)
    return images


def scan(root: Path) -> tuple[tuple[Image, ...], tuple[Problem, ...]]:
    """Return the images that can be served and all reasons why others cannot, both sorted."""
    found: list[Image | Problem] = []
    if not root.is_dir():
        return (), (Problem(root, "not a directory"),)
    _walk(root, root, found)
    if not found:
        found.append(Problem(root, "holds no image"))
    images = sorted(item for item in found if isinstance(item, Image))
    problems = sorted(item for item in found if isinstance(item, Problem))
    return tuple(images), tuple(problems)


def _walk(root: Path, directory: Path, found: list[Image | Problem]) -> None:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        found.append(Problem(directory, f"cannot be listed: {error.strerror}"))
        return
    is_image = directory / "manifest.json" in entries
    folders = [entry for entry in entries if entry.is_dir()]
    if is_image:
        found += _read_image(root, directory)
    elif not folders and directory != root:
        found.append(Problem(directory, "has neither manifest.json nor folders"))
    for entry in entries:
        if entry in folders:
            _enter(root, entry, found)
        elif not is_image or not _EXPECTED_FILE.fullmatch(entry.name):
            found.append(Problem(entry, "does not belong into a tree of images"))


def _enter(root: Path, folder: Path, found: list[Image | Problem]) -> None:
    """Follow a symbolic link only to an image, as an alias: links to others may loop."""
    if not folder.is_symlink():
        _walk(root, folder, found)
    elif not folder.resolve().is_relative_to(root.resolve()):
        found.append(Problem(folder, "links to outside of the tree"))
    elif (folder / "manifest.json").is_file():
        found += _read_image(root, folder)
    else:
        found.append(Problem(folder, "links to something that is not an image"))


def _read_image(root: Path, directory: Path) -> list[Image | Problem]:
    name, tag = directory.parent.relative_to(root).as_posix(), directory.name
    problems = [
        Problem(directory, f"{text!r} is not a valid {what} of an image")
        for text, what, valid in ((name, "name", is_name(name)), (tag, "tag", is_tag(tag)))
        if not valid
    ]
    path = directory / "manifest.json"
    try:
        manifest = parse(path.read_bytes())
    except OSError as error:
        return [*problems, Problem(path, f"cannot be read: {error.strerror}")]
    except ManifestError as error:
        return [*problems, Problem(path, str(error))]
    for blob in manifest.blobs:
        problems += _blob_problems(directory / blob.hex, blob)
    if problems:
        return list(problems)
    return [Image(name, tag, manifest.media_type, manifest.hex, manifest.blobs)]


def _blob_problems(path: Path, blob: Blob) -> list[Problem]:
    if not path.is_file():
        return [Problem(path, "missing, though the manifest refers to it")]
    size = path.stat().st_size
    if size != blob.size:
        return [Problem(path, f"has {size} bytes, the manifest says {blob.size}")]
    return []
