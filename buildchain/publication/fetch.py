"""Fetch a release: what the index names, each file checked, the folder there at once.

On disk, beside the folder: ``.<folder>.part`` with what has come so far; the next run goes on from
there, at the byte where this one ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events, receipt
from buildchain.core.errors import ChecksumError, ConfigError, ContentError, PlaceError, SpaceError
from buildchain.publication import index, release, trust
from buildchain.publication.folder import sync
from buildchain.publication.index import LIST, SIGNATURE, Artefact, Entry, Index
from buildchain.publication.place import CHUNK, Absent, Place, on_disk
from buildchain.publication.trust import Trust

SUFFIX = ".update"
DAY = 86400  # seconds


@dataclass(frozen=True)
class Wish:
    """What somebody wants.

    :param what: version or channel.
    :param at_least: lowest version that will do, or empty.
    :param days: how old the index may be, or 0 for any age.
    :param base: version whose ISO is at hand: of the release, only the update pack from it is
        wanted; empty: all of it is.
    """

    what: str
    at_least: str = ""
    days: int = 0
    base: str = ""


def fetch(place: Place, belief: Trust, wish: Wish, output: Path) -> str:
    """Bring a release into a folder; return its version.

    :raises SigningError: the index or the release is not signed by a key that we know.
    :raises ChecksumError: a file is not what the index says.
    :raises ConfigError: there is no such release, or the folder is something else.
    :raises SpaceError: it will not fit.
    """
    found = belief.read(place)
    if found is None:
        raise PlaceError(
            f"{place.name} has no {index.NAME}",
            solution="Name the address that ./doit.sh publish --to was given.",
        )
    belief.remember(place, *found)
    entry = _choose(found[0], wish)
    if _is_there(entry, output, belief, wish):
        events.note(f"{output} is {entry.version} already")
        return entry.version
    part = output.with_name(f".{output.name}.part")
    with on_disk(str(output)), _alone(part):
        _take_all(place, belief, entry, part)
        _prove(place, belief, entry, part, wish)
        part.rename(output)
        sync(output.parent)
    day = datetime.datetime.fromtimestamp(found[0].date, datetime.UTC).date()
    events.note(f"{output}: {entry.version}, as {place.name} said on {day}")
    return entry.version


def _choose(found: Index, wish: Wish) -> Entry:
    age = int(time.time()) - found.date
    if wish.days and age > wish.days * DAY:
        raise ConfigError(
            f"{index.NAME} is {age // DAY} days old, --max-age allows {wish.days}",
            solution="Somebody may be hiding a newer one: ask who publishes there, or fetch it "
            "from another place.",
        )
    entry = index.resolve(found, wish.what)
    if wish.at_least:
        _check_floor(entry.version, wish.at_least)
    return _update(entry, wish.base) if wish.base else entry


def _update(entry: Entry, base: str) -> Entry:
    """Return of a release the update pack from a version, and the signed list."""
    packs = [a for a in entry.artefacts if a.file.endswith(f"-from-{base}{SUFFIX}")]
    if base not in entry.bases or not packs:
        known = ", ".join(entry.bases) or "none"
        raise ConfigError(
            f"{entry.version} has no update pack from {base[:80]!r}",
            solution=f"Name a version that it has one from ({known}), or fetch all of it.",
        )
    lists = [a for a in entry.artefacts if a.file in (LIST, SIGNATURE)]
    return dataclasses.replace(entry, artefacts=(*lists, *packs))


def _check_floor(version: str, floor: str) -> None:
    try:
        is_older = index.order(version) < index.order(floor)
    except ValueError as error:
        raise ConfigError(
            f"--at-least: {error}", solution="Give a version as releases have it: 2.4.0."
        ) from error
    if is_older:
        raise ConfigError(
            f"{version} is older than {floor}, the least that will do",
            solution="Name a newer version or another channel, or lower --at-least.",
        )


def _is_there(entry: Entry, output: Path, belief: Trust, wish: Wish) -> bool:
    if not os.path.lexists(output):
        return False
    if wish.base:
        if output.is_dir() and {path.name for path in output.iterdir()} == {
            a.file for a in entry.artefacts if _is_same(output / a.file, a)
        }:
            return True
    else:
        with contextlib.suppress(ContentError):
            if release.read(output, belief.keyrings).artefacts == entry.artefacts:
                return True
    raise ConfigError(
        f"{output} is there, and it is not {entry.version}",
        solution="Name another folder (-o FOLDER), or remove that one.",
    )


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Keep others out of a folder while it is being filled."""
    part.mkdir(parents=True, exist_ok=True)
    handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(
            f"somebody else is fetching into {part}", solution="Wait for its end, then look."
        ) from error
    finally:
        os.close(handle)


def _take_all(place: Place, belief: Trust, entry: Entry, part: Path) -> None:
    names = {artefact.file for artefact in entry.artefacts}
    for path in part.iterdir():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    _check_room(entry, part)
    lists = [artefact for artefact in entry.artefacts if artefact.file in (LIST, SIGNATURE)]
    others = [artefact for artefact in entry.artefacts if artefact not in lists]
    done = _take_some(place, entry, lists, part, 0)
    # Of a stranger's release no more than that is fetched.
    trust.verify(part / LIST, part / SIGNATURE, belief.keyrings)
    _take_some(place, entry, others, part, done)


def _prove(place: Place, belief: Trust, entry: Entry, part: Path, wish: Wish) -> None:
    """Stop when what came is not the release that the index names."""
    if wish.base:
        listed = {*(part / LIST).read_text("utf-8", "replace").splitlines()}
        others = [a for a in entry.artefacts if a.file not in (LIST, SIGNATURE)]
        if not {f"{a.sha256}  {a.file}" for a in others} <= listed:
            raise ContentError(
                f"{LIST} of {entry.version} at {place.name} does not have {others[0].file}",
                solution="Ask who publishes there.",
            )
        return
    found = release.read(part, belief.keyrings)
    if (found.version, found.artefacts) != (entry.version, entry.artefacts):
        raise ContentError(
            f"{place.name} has {found.version} where its index says {entry.version}",
            solution="Ask who publishes there.",
        )


def _is_same(file: Path, artefact: Artefact) -> bool:
    if file.is_symlink() or not file.is_file() or file.stat().st_size != artefact.size:
        return False
    return receipt.sha256(file) == artefact.sha256


def _take_some(
    place: Place, entry: Entry, artefacts: Sequence[Artefact], part: Path, done: int
) -> int:
    for artefact in artefacts:
        _take(place, entry, artefact, part / artefact.file, done)
        done += artefact.size
    return done


def _check_room(entry: Entry, part: Path) -> None:
    there = sum(path.stat().st_size for path in part.iterdir() if path.is_file())
    free = shutil.disk_usage(part).free
    if entry.size - there > free:
        raise SpaceError(
            f"{entry.version} has {entry.size >> 20} MiB and {part.parent} room for "
            f"{free >> 20} MiB",
            solution="Free some room, or name a folder on a larger file system (-o FOLDER).",
        )


def _take(place: Place, entry: Entry, artefact: Artefact, file: Path, before: int) -> None:
    """Bring one file; what is left of an earlier run is gone on with, once."""
    start = file.stat().st_size if file.is_file() and not file.is_symlink() else 0
    if start and _is_same(file, artefact):
        return
    if start >= artefact.size:
        start = 0
    for begin in dict.fromkeys((start, 0)):
        if _append(place, entry, artefact, file, begin, before) == artefact.sha256:
            return
    file.unlink()
    raise ChecksumError(
        f"{entry.version}/{artefact.file} of {place.name} is not what the index says",
        solution="It is damaged there, or on its way: run the same again; if that does not help, "
        "ask who publishes there.",
    )


def _append(
    place: Place, entry: Entry, artefact: Artefact, file: Path, start: int, before: int
) -> str:
    """Fetch a file from a byte on; return the digest of all of it."""
    digest, count = hashlib.sha256(), start
    name = f"{entry.version}/{artefact.file}"
    if not start:
        file.unlink(missing_ok=True)
    with file.open("ab+") as stream:
        stream.seek(0)
        while piece := stream.read(CHUNK):
            digest.update(piece)
        try:
            for piece in place.pieces(name, start):
                count += len(piece)
                if count > artefact.size:
                    return ""
                digest.update(piece)
                stream.write(piece)
                events.progress(entry.version, (before + count) >> 20, entry.size >> 20, "MiB")
        except Absent as error:
            raise PlaceError(
                f"{place.name} has no {name}",
                solution="It may have been withdrawn just now: run the same again.",
            ) from error
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()
