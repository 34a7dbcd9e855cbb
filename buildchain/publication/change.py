"""A change of a place's index: signed, put there in one move, read back.

::

    index there ──> change ──> sign ──> signatures/… ──> releases.json ──> what is old goes

The signature is there first, under the digest of what it signs: a reader finds one that fits,
whichever index he gets. Whoever is interrupted leaves the index before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
import time
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import ChecksumError, ConfigError, PlaceError
from buildchain.publication import index, trust
from buildchain.publication.index import Index
from buildchain.publication.place import Absent, Target
from buildchain.publication.trust import SIGNATURES, Trust
from buildchain.signatures.signing import Signer


@dataclasses.dataclass(frozen=True)
class State:
    """What a place had when this run looked.

    :param content: bytes of its index, empty for none.
    """

    index: Index
    content: bytes = b""


def look(target: Target, belief: Trust, project: str) -> State:
    """Return the state of a place, an empty index for a new one.

    :raises SigningError: its index is not to be trusted.
    :raises ConfigError: it belongs to another product.
    """
    found = belief.read(target)
    if found is None:
        return State(Index(project))
    if found[0].name != project:
        raise ConfigError(
            f"{target.name} has releases of {found[0].name}, these are of {project}",
            solution="Name another place: each product has its own.",
        )
    belief.remember(target, *found)
    return State(*found)


def switch(target: Target, belief: Trust, signer: Signer, before: State, after: Index) -> Index:
    """Put a changed index in the place of the one before; return it.

    :raises PlaceError: somebody else has put one there meanwhile.
    :raises ChecksumError: the place does not give back what it was given.
    """
    # A clock that went back does not make a list look older than the one before.
    date = max(int(time.time()), before.index.date)
    new = dataclasses.replace(after, serial=before.index.serial + 1, date=date)
    content = new.text()
    # What nobody could read is not to be published.
    index.parse(content)
    digest = hashlib.sha256(content).hexdigest()
    name = trust.signature_name(digest)
    _put(target, name, trust.sign(signer, content, date))
    _prove_unchanged(target, before)
    _put(target, index.NAME, content)
    belief.remember(target, new, content)
    _clear_signatures(target, (digest, hashlib.sha256(before.content).hexdigest()))
    events.note(f"{target.name}: {index.NAME} has serial {new.serial} now")
    return new


def clear(target: Target, found: Index) -> None:
    """Remove the files of what was withdrawn, also after somebody who was interrupted."""
    for version in found.withdrawn:
        if target.clear(version):
            events.note(f"{target.name}: {version} is gone")


def describe(before: Index, after: Index) -> list[str]:
    """Return what a change does, in words."""
    lines = []
    for entry in after.releases:
        known = before.find(entry.version)
        new = {*entry.channels} - {*(known.channels if known else ())}
        lines += [f"{entry.version} comes into channel {channel}" for channel in sorted(new)]
    gone = [entry for entry in before.releases if after.find(entry.version) is None]
    return [*lines, *(f"{entry.version} goes: {entry.size >> 20} MiB" for entry in gone)]


def put_bytes(target: Target, name: str, content: bytes) -> None:
    """Put a small file there whole."""
    with tempfile.TemporaryDirectory(prefix="mk8s-index-") as folder:
        file = Path(folder) / "file"
        file.write_bytes(content)
        target.send(file, name)


def _put(target: Target, name: str, content: bytes) -> None:
    put_bytes(target, name, content)
    if _read(target, name) != content:
        raise ChecksumError(
            f"{target.name} has another {name} than was sent",
            solution="Somebody else publishes there at the same time, or the place is damaged: "
            "look after it, then run the same again.",
        )


def _prove_unchanged(target: Target, before: State) -> None:
    if _read(target, index.NAME) != before.content:
        raise PlaceError(
            f"somebody else has changed {index.NAME} of {target.name} meanwhile",
            solution="Run the same again: it goes on from what is there now.",
        )


def _read(target: Target, name: str) -> bytes:
    try:
        return target.read(name, index.LARGEST)
    except Absent:
        return b""


def _clear_signatures(target: Target, digests: tuple[str, ...]) -> None:
    """Keep those of this index and the one before, which somebody may be reading."""
    wanted = {trust.signature_name(digest).partition("/")[2] for digest in digests}
    if old := {*target.sizes(SIGNATURES)} - wanted:
        target.remove(SIGNATURES, sorted(name for name in old if index.is_file_name(name)))
