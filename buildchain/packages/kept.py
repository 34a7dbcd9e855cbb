"""What steps made, kept in ``CACHE_ROOT`` by what they made it from (docs/adr/0047).

On disk, in a folder of the cache: ``<64 digits>/``: the files, and ``digests.json``: ``files``, the
SHA-256 of each, ``folders``, the mode of each, for some are empty, and ``facts``, as a receipt has
them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from buildchain.core import events, receipt
from buildchain.core.files import replaced
from buildchain.core.receipt import Made
from buildchain.store.blobs import link

DIGESTS = "digests.json"
# What is kept of earlier sources: several checkouts may share a cache.
KEPT = 3


def identity(said: object, files: Iterable[Path], known: Mapping[Path, str]) -> str:
    """Return 64 digits for what something is compiled from.

    :param said: what else decides it (builder, script), as JSON.
    :param files: by name, content and whether they can be executed.
    :param known: SHA-256 of some of them.
    """
    parts = sorted(
        [file.name, known.get(file) or receipt.sha256(file), os.access(file, os.X_OK)]
        for file in files
    )
    return hashlib.sha256(json.dumps([said, parts]).encode()).hexdigest()


def once(folder: Path, target: Path, digits: str, action: Callable[[], Made]) -> Made:
    """Make a folder, or take what was made where all that decides it was the same.

    :param folder: of the cache.
    :param target: all that the action makes.
    :param digits: :meth:`buildchain.core.step.Step.identity`.
    """
    found = take(folder / digits, target)
    return found if found is not None else keep(folder / digits, target, action().facts)


def take(folder: Path, target: Path) -> Made | None:
    """Let what is kept take the place of ``target``; nothing when it is not there, or not whole."""
    if not folder.is_dir():
        return None
    digests, folders, facts, damaged = _look(folder)
    if damaged:
        events.transcript(f"{folder} is not used: {damaged} has changed since it was kept")
        return None
    try:
        with replaced(target) as fresh:
            for name, mode in sorted(folders.items()):
                (fresh / name).mkdir(exist_ok=True)
                (fresh / name).chmod(mode)
            for name in digests:
                link(folder / name, fresh / name)
        os.utime(folder)
    except FileNotFoundError:
        # Another checkout has forgotten it just now.
        return None
    events.transcript(f"{target} is taken from {folder}: same sources, same builder")
    found = {target / name: digest for name, digest in digests.items()}
    return Made((target,), facts, found)


def _look(folder: Path) -> tuple[dict[str, str], dict[str, int], dict[str, object], str]:
    try:
        document = json.loads((folder / DIGESTS).read_text(encoding="utf-8"))
        digests: dict[str, str] = document["files"]
        folders: dict[str, int] = document["folders"]
        facts: dict[str, object] = document.get("facts", {})
        there = {file.relative_to(folder).as_posix() for file in receipt.files([folder])}
        odd = sorted(there ^ {*digests, DIGESTS})
        odd += [n for n, digest in digests.items() if receipt.sha256(folder / n) != digest]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}, {}, {}, DIGESTS
    return digests, folders, facts, next(iter(odd), "")


def keep(folder: Path, made: Path, facts: Mapping[str, object] = MappingProxyType({})) -> Made:
    """Keep what was made, and forget what was not used for longest."""
    files = [file.relative_to(made).as_posix() for file in receipt.files([made])]
    folders = {
        path.relative_to(made).as_posix(): path.stat().st_mode & 0o7777
        for path in (made, *made.rglob("*"))
        if path.is_dir()
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Checkouts that share a cache may have compiled the same at the same time.
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with replaced(folder) as fresh:
            for name in files:
                link(made / name, fresh / name)
            digests = {name: receipt.sha256(made / name) for name in files}
            document = {"files": digests, "folders": folders, "facts": dict(facts)}
            receipt.write_whole(fresh / DIGESTS, json.dumps(document, indent=1) + "\n")
        others = [path for path in folder.parent.iterdir() if not path.name.startswith(".")]
        for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    return Made((made,), facts, {made / name: digest for name, digest in digests.items()})
