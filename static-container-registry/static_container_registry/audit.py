"""Proof that a tree is complete and undamaged."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .errors import Problem
from .tree import scan

_CHUNK = 1024 * 1024  # bytes read at once, so memory does not depend on the size of layers


def check(root: Path) -> list[Problem]:
    """Return everything wrong with a tree, sorted; an empty list proves it complete.

    Beyond what ``read_tree`` refuses, every config, layer and other file named by a
    digest is hashed again, also when no manifest refers to it. Hard links to the same
    content are read once.
    """
    _, problems = scan(root)
    paths = [path for path in _walk_files(root) if len(path.name) == 64]
    return sorted({*problems, *_hash_problems(paths)})


def _walk_files(root: Path) -> list[Path]:
    return sorted(Path(folder, name) for folder, _, names in os.walk(root) for name in names)


def _hash_problems(paths: list[Path]) -> list[Problem]:
    links: dict[tuple[int, int], list[Path]] = {}
    for path in paths:
        if path.is_file():
            status = path.stat()
            links.setdefault((status.st_dev, status.st_ino), []).append(path)
    groups = list(links.values())
    with ThreadPoolExecutor() as pool:  # hashlib lets other threads run
        outcomes = list(pool.map(lambda group: _hash(group[0]), groups))
    return [
        Problem(path, outcome if outcome.startswith("cannot") else f"has SHA-256 {outcome}")
        for group, outcome in zip(groups, outcomes)
        for path in group
        if outcome != path.name
    ]


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file, or why it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return digest.hexdigest()
