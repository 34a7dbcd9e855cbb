"""The lock: which Debian packages, by version and SHA-256, every set of a build is made of.

On disk: ``buildchain/pins/<profile>/debian.lock`` (JSON, sorted)::

    {"<set>": {"wanted": [names], "on": "<what it stands on>", "packages": [files]}}

A locked file comes from the store or, at exactly that version, from the archive. What the archive
dropped (it keeps the newest only) is replaced by what it has now, or stops the build:
``LOCK_POLICY``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain import events
from buildchain.actions import debian
from buildchain.errors import LockError, PinError
from buildchain.layout import Layout
from buildchain.model import DebianFile
from buildchain.receipt import Made, write_whole

STRICT = "strict"


@dataclass(frozen=True)
class Entry:
    """One locked set.

    :param wanted: names it was resolved for.
    :param on: identity of the base it was resolved on, empty for the base itself.
    """

    wanted: tuple[str, ...]
    on: str
    packages: tuple[DebianFile, ...]


def read(path: Path) -> dict[str, Entry]:
    """Read a lock; there may be none yet.

    :raises PinError: it is no lock.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Entry(
                tuple(entry["wanted"]),
                entry["on"],
                tuple(DebianFile(**file) for file in entry["packages"]),
            )
            for name, entry in document.items()
        }
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PinError(
            f"{path} is no lock: {error}", solution="Restore it from git or run ./doit.sh lock."
        ) from error


def write(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write a lock, sorted."""
    document = {name: dataclasses.asdict(entry) for name, entry in sorted(entries.items())}
    write_whole(path, json.dumps(document, indent=1, sort_keys=True) + "\n")


def foundation(layout: Layout, status: Path | None, base_image: str) -> str:
    """Return what a set stands on: nothing, a foreign image, or our base by its packages."""
    if status is None:
        return ""
    return base_image or hashlib.sha256(layout.closure("base").read_bytes()).hexdigest()


def changes(before: Sequence[DebianFile], after: Sequence[DebianFile]) -> list[str]:
    """Return the difference of two lists in words, sorted by name."""
    old = {file.name: file.version for file in before}
    new = {file.name: file.version for file in after}
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"{name} {old[name]} is gone")
        elif name not in old:
            lines.append(f"{name} {new[name]} is new")
        elif old[name] != new[name]:
            lines.append(f"{name} {old[name]} -> {new[name]}")
    return lines


@dataclass(frozen=True)
class Locked:
    """How to resolve under a lock.

    :param path: the lock file.
    :param policy: ``roll`` or ``strict``.
    :param base_image: ``BASE_IMAGE``, or empty for our base.
    """

    path: Path
    policy: str
    base_image: str


def close(
    layout: Layout, locked: Locked, name: str, packages: Sequence[str], status: Path | None
) -> Made:
    """Fetch a set as locked, or as the policy has it, and write its list.

    :raises LockError: the policy is strict and the set is not locked, or cannot be had as locked.
    """
    entry = read(locked.path).get(name)
    on = foundation(layout, status, locked.base_image)
    if entry is not None and locked.base_image and entry.on != on:
        # On a foreign base other packages are needed; the lock of our own says nothing about it.
        entry = None
    if (
        entry is not None
        and (entry.wanted, entry.on) == (tuple(packages), on)
        and debian.fetch_exactly(layout, name, entry.packages, status)
    ):
        return debian.list_closure(layout, name, entry.packages, replaced=())
    files = debian.resolve(layout, name, packages, status)
    replaced = changes(entry.packages if entry else (), files)
    if locked.policy == STRICT:
        raise _refused(locked.path, name, entry, replaced)
    for line in replaced if entry is not None else ():
        events.closing(f"not as locked, {name}: {line}")
    return debian.list_closure(layout, name, files, replaced=replaced if entry else ())


def _refused(path: Path, name: str, entry: Entry | None, replaced: Sequence[str]) -> LockError:
    if entry is None:
        reason = f"Debian packages for {name} are not in {path}"
    else:
        what = "; ".join(replaced) or "it was made for other packages or another base"
        reason = f"Debian packages for {name} cannot be had as {path.name} has them: {what}"
    return LockError(reason)


def refresh(locked: Locked, entries: Mapping[str, Entry]) -> None:
    """Write a new lock and show what changed."""
    before = read(locked.path)
    for name in sorted(before.keys() | entries.keys()):
        old = before[name].packages if name in before else ()
        new = entries[name].packages if name in entries else ()
        for line in changes(old, new):
            events.note(f"{name}: {line}")
    if before == entries:
        events.note("nothing changed")
    write(locked.path, entries)
