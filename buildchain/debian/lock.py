"""The lock: which packages, by version and SHA-256, every set of a build is made of.

On disk: ``buildchain/pins/<profile>/debian.lock`` and ``redhat.lock`` (JSON, sorted)::

    {"<set>": {"wanted": [names], "on": "<what it stands on>", "packages": [files]}}

A locked file comes from the store or, at exactly that version, from the archive. What the archive
dropped (it keeps the newest only) is replaced by what it has now, or stops the build:
``LOCK_POLICY``. Without the archive, and with a release key, what is not locked always stops it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from buildchain.core import events
from buildchain.core.errors import LockError, PinError
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.debian import archive, floor
from buildchain.project.config import STRICT
from buildchain.project.model import DebianFile, File, package_file

DIGITS = 12  # of a SHA-256, where it is shown


@dataclass(frozen=True)
class Entry(Generic[File]):
    """One locked set.

    :param wanted: names it was resolved for.
    :param on: identity of the base it was resolved on, empty for the base itself.
    """

    wanted: tuple[str, ...]
    on: str
    packages: tuple[File, ...]


def read(path: Path, kind: type[File]) -> dict[str, Entry[File]]:
    """Read a lock; there may be none yet.

    :param kind: record of its packages.

    :raises PinError: it is no lock.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Entry(
                tuple(entry["wanted"]),
                entry["on"],
                tuple(package_file(kind, file) for file in entry["packages"]),
            )
            for name, entry in document.items()
        }
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PinError(
            f"{path} is not a lock: {error}", solution="Restore it from git or run ./doit.sh lock."
        ) from error


def write(path: Path, entries: Mapping[str, Entry[File]]) -> None:
    """Write a lock, sorted; a profile may share the one of another."""
    document = {name: dataclasses.asdict(entry) for name, entry in sorted(entries.items())}
    write_whole(path.resolve(), json.dumps(document, indent=1, sort_keys=True) + "\n")


def foundation(layout: Layout, status: Path | None, base_image: str) -> str:
    """Return what a set stands on: nothing, a foreign image, floor or base by their packages."""
    if status is None:
        return ""
    if status == layout.floor_status:
        return hashlib.sha256(layout.closure(floor.NAME).read_bytes()).hexdigest()
    return base_image or hashlib.sha256(layout.closure("base").read_bytes()).hexdigest()


def records(path: Path, kind: type[File]) -> frozenset[File]:
    """Return every package of a lock, of whatever set.

    :raises PinError: it is no lock.
    """
    return frozenset(file for entry in read(path, kind).values() for file in entry.packages)


def changes(before: Sequence[File], after: Sequence[File]) -> list[str]:
    """Return the difference of two lists in words, sorted by name.

    A version may be built twice, by whoever: another SHA-256 is a difference, too.
    """
    old = {(file.name, file.architecture): file for file in before}
    new = {(file.name, file.architecture): file for file in after}
    lines = []
    for key in sorted(old.keys() | new.keys()):
        one, other, name = old.get(key), new.get(key), key[0]
        if other is None:
            lines.append(f"{name} {old[key].revision} is gone")
        elif one is None:
            lines.append(f"{name} {other.revision} is new")
        elif one.revision != other.revision:
            lines.append(f"{name} {one.revision} -> {other.revision}")
        elif one.sha256 != other.sha256:
            digests = f"{one.sha256[:DIGITS]}… -> {other.sha256[:DIGITS]}…"
            lines.append(f"{name} {one.revision} is another file, SHA-256 {digests}")
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
    base_image: str = ""


@dataclass(frozen=True)
class Origin(Generic[File]):
    """Where the packages of one set come from.

    :param words: what they are, in the plural.
    :param on: identity of what the set stands on.
    :param fetch_exactly: fetches given versions, tells whether they could all be had.
    :param resolve: finds and fetches what names need now.
    :param list_closure: writes the list of a set, and what of the lock was replaced.
    """

    words: str
    on: str
    fetch_exactly: Callable[[Sequence[File]], bool]
    resolve: Callable[[Sequence[str]], tuple[File, ...]]
    list_closure: Callable[[Sequence[File], Sequence[str]], Made]


def close(
    layout: Layout, locked: Locked, name: str, packages: Sequence[str], status: Path | None
) -> Made:
    """Fetch a set of Debian packages, locked or as LOCK_POLICY allows, and write its list.

    :raises LockError: the policy is strict and the set is not locked, or cannot be had as locked.
    """
    entry = read(locked.path, DebianFile).get(name)
    on = foundation(layout, status, locked.base_image)
    if entry is not None and locked.base_image and entry.on != on:
        # On a foreign base other packages are needed; the lock of our own says nothing about it.
        entry = None
    # What a set is locked as needs no memory. One that is not locked, on a foreign base for one, is
    # made of packages of other sets, or not at all when there is nobody to ask.
    is_locked = entry is not None and (entry.wanted, entry.on) == (tuple(packages), on)
    believed = frozenset() if is_locked else records(locked.path, DebianFile)
    origin = Origin[DebianFile](
        "Debian packages",
        on,
        lambda files: archive.fetch_exactly(layout, name, files, status),
        lambda names: archive.resolve(layout, name, names, status, believed),
        lambda files, replaced: archive.list_closure(layout, name, files, replaced),
    )
    return settle(locked, name, packages, entry, origin)


def settle(
    locked: Locked,
    name: str,
    packages: Sequence[str],
    entry: Entry[File] | None,
    origin: Origin[File],
) -> Made:
    """Fetch a set, locked or as LOCK_POLICY allows, and write its list.

    :raises LockError: the policy is strict and the set is not locked, or cannot be had as locked.
    """
    if (
        entry is not None
        and (entry.wanted, entry.on) == (tuple(packages), origin.on)
        and origin.fetch_exactly(entry.packages)
    ):
        return origin.list_closure(entry.packages, ())
    files = origin.resolve(packages)
    replaced = changes(entry.packages if entry else (), files)
    if locked.policy == STRICT:
        what = replaced if entry else None
        raise _refused(locked.path, f"{origin.words} for {name}", what)
    for line in replaced if entry is not None else ():
        events.closing(f"not as locked, {name}: {line}")
    return origin.list_closure(files, replaced if entry else ())


def _refused(path: Path, packages: str, replaced: Sequence[str] | None) -> LockError:
    if replaced is None:
        return LockError(f"{packages} are not in {path}")
    what = "; ".join(replaced) or "it was made for other packages or another base"
    return LockError(f"{packages} cannot be had as locked in {path.name}: {what}")


def refresh(locked: Locked, entries: Mapping[str, Entry[File]], kind: type[File]) -> None:
    """Write a new lock and show what changed."""
    before = read(locked.path, kind)
    for name in sorted(before.keys() | entries.keys()):
        old = before[name].packages if name in before else ()
        new = entries[name].packages if name in entries else ()
        for line in changes(old, new):
            events.note(f"{name}: {line}")
    if before == entries:
        events.note("nothing changed")
    write(locked.path, entries)
