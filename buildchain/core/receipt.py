"""What a step made: one small JSON file that stands for all its outputs.

Steps depend on each other's receipts, so identity is content: an output that comes out the same
changes nothing downstream, and no large file is hashed to find that out. The file is written last,
so a step that was killed has none and runs again.

On disk: ``{"outputs": {"<path relative to the build root>": {"sha256": …, "size": …, "mode": …}},
"facts": {…}}``, sorted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildchain.core.errors import ContentError

CHUNK = 1 << 20  # bytes


@dataclass(frozen=True)
class Output:
    """One file: where (relative to the build root), what and how big (bytes)."""

    path: str
    sha256: str
    size: int
    mode: int


@dataclass(frozen=True)
class Made:
    """What an action hands to its step.

    :param paths: files or folders; folders count with every file below them.
    :param facts: small results that others read (an image's id, a version).
    :param digests: SHA-256 of files for which it is already known.
    """

    paths: tuple[Path, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    digests: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Receipt:
    """The outputs and facts of one step."""

    outputs: tuple[Output, ...]
    facts: Mapping[str, object]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every file in and below ``paths``, each once, sorted."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found.update(p for p in path.rglob("*") if p.is_symlink() or not p.is_dir())
        else:
            found.add(path)
    yield from sorted(found)


def sources(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield :func:`files` of a checkout, without what Python leaves beside modules it has read."""
    yield from (file for file in files(paths) if "__pycache__" not in file.parts)


def write_whole(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file beside its place and move it there: a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        beside.chmod(mode)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write(path: Path, build_root: Path, made: Made) -> Receipt:
    """Hash what was made and write the receipt.

    :raises ContentError: an output is no file of its own.
    """
    outputs = []
    hashed: dict[tuple[int, int], str] = {}  # by inode: what is linked is read once
    for file in files(made.paths):
        if file.is_symlink():
            raise ContentError(f"{file} is a symbolic link; an output must be a regular file")
        status = file.stat()
        inode = status.st_dev, status.st_ino
        digest = made.digests.get(file) or hashed.get(inode) or sha256(file)
        hashed[inode] = digest
        relative = file.relative_to(build_root).as_posix()
        outputs.append(Output(relative, digest, status.st_size, status.st_mode & 0o777))
    receipt = Receipt(tuple(outputs), made.facts)
    document = {
        "outputs": {
            o.path: {"sha256": o.sha256, "size": o.size, "mode": f"{o.mode:o}"} for o in outputs
        },
        "facts": dict(made.facts),
    }
    write_whole(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
    return receipt


def read(path: Path) -> Receipt:
    """Read a receipt.

    :raises FileNotFoundError: the step has not been run.
    :raises ValueError: the file is not a receipt.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        outputs = tuple(
            Output(name, value["sha256"], value["size"], int(value["mode"], 8))
            for name, value in document["outputs"].items()
        )
        return Receipt(outputs, document["facts"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a receipt") from error


def is_complete(path: Path, build_root: Path) -> bool:
    """Tell whether everything the receipt names is still there with its size (no file is read)."""
    try:
        receipt = read(path)
    except (OSError, ValueError):
        return False
    for output in receipt.outputs:
        try:
            size = (build_root / output.path).stat().st_size
        except OSError:
            return False
        if size != output.size:
            return False
    return True
