"""Publish a release: its files first, read back, and then the index that names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import events
from buildchain.core.errors import ChecksumError, ConfigError, ContentError
from buildchain.publication import change, index
from buildchain.publication.change import State
from buildchain.publication.index import CHANNELS, Artefact, Entry, Index
from buildchain.publication.place import Target
from buildchain.publication.release import Release
from buildchain.publication.trust import Trust
from buildchain.signatures.signing import Signer


@dataclass(frozen=True)
class Publisher:
    """Who publishes where.

    :param keep: releases of each channel that stay; 0: all.
    :param is_dry: tell what would happen, and change nothing.
    """

    target: Target
    trust: Trust
    signer: Signer
    project: str
    keep: int = 0
    is_dry: bool = False

    def publish(self, folder: Path, release: Release, channel: str) -> None:
        """Put a release there and into a channel.

        :param folder: where its files are; it was checked.
        :raises ConfigError: it is of another product, or there is no such channel.
        :raises ContentError: the same version is there with other bytes.
        :raises ChecksumError: what arrived is not what was sent.
        """
        if release.name != self.project:
            raise ConfigError(
                f"{folder} has a release of {release.name}, this project is {self.project}",
                solution="Build it anew with ./doit.sh release, or set PROJECT_NAME.",
            )
        before = change.look(self.target, self.trust, self.project)
        entry = Entry(
            release.version, (_checked(channel),), release.date, release.artefacts, release.bases
        )
        self._prove_same(before.index, entry)
        wanted = self._wanted(folder, entry)
        if self.is_dry:
            for artefact in wanted:
                events.echo(f"would send {entry.version}/{artefact.file}: {artefact.size} bytes")
        else:
            self._send(folder, entry, wanted)
        self._apply(before, before.index.with_release(entry))

    def promote(self, version: str, channel: str) -> None:
        """Put a release that is there into another channel.

        :raises ConfigError: it is not there.
        """
        before = change.look(self.target, self.trust, self.project)
        entry = index.resolve(before.index, version)
        new = dataclasses.replace(entry, channels=(_checked(channel),))
        self._apply(before, before.index.with_release(new))

    def renew(self) -> None:
        """Sign the index again: readers see that it is what the place has today."""
        before = change.look(self.target, self.trust, self.project)
        self._apply(before, before.index, is_wanted=True)

    def _apply(self, before: State, after: Index, *, is_wanted: bool = False) -> None:
        if self.keep:
            after = after.keeping(self.keep)
        lines = change.describe(before.index, after)
        for line in lines:
            events.echo(f"would: {line}") if self.is_dry else events.note(line)
        if self.is_dry:
            return
        if after != before.index or is_wanted:
            after = change.switch(self.target, self.trust, self.signer, before, after)
        else:
            events.note(f"{self.target.name} has it all already")
        change.clear(self.target, after)

    def _prove_same(self, there: Index, entry: Entry) -> None:
        known = there.find(entry.version)
        if known is None or known.artefacts == entry.artefacts:
            return
        pairs = {artefact.file: artefact for artefact in known.artefacts}
        other = [a.file for a in entry.artefacts if pairs.pop(a.file, None) != a]
        raise ContentError(
            f"{self.target.name} has another {entry.version}: {', '.join([*other, *pairs])}",
            solution="A version that was published stays as it is: give this one another number.",
        )

    def _wanted(self, folder: Path, entry: Entry) -> list[Artefact]:
        """Return what is not there yet, or not as it should be."""
        there = self.target.sizes(entry.version)
        wanted = []
        for number, artefact in enumerate(entry.artefacts, 1):
            events.progress("comparing", number, len(entry.artefacts), "files")
            same_size = there.get(artefact.file) == artefact.size
            if not (same_size and self._holds(folder, entry, artefact)):
                wanted.append(artefact)
        return wanted

    def _holds(self, folder: Path, entry: Entry, artefact: Artefact) -> bool:
        name = f"{entry.version}/{artefact.file}"
        return self.target.holds(name, folder / artefact.file, artefact.sha256)

    def _send(self, folder: Path, entry: Entry, wanted: Sequence[Artefact]) -> None:
        self.target.prepare(sum(artefact.size for artefact in wanted))
        for number, artefact in enumerate(wanted, 1):
            events.progress(f"sending {artefact.file}", number, len(wanted), "files")
            self.target.send(folder / artefact.file, f"{entry.version}/{artefact.file}")
        self._prove_arrived(folder, entry, wanted)
        strange = {*self.target.sizes(entry.version)} - {a.file for a in entry.artefacts}
        if strange:
            self.target.remove(entry.version, sorted(filter(index.is_file_name, strange)))

    def _prove_arrived(self, folder: Path, entry: Entry, sent: Sequence[Artefact]) -> None:
        changed = []
        for number, artefact in enumerate(sent, 1):
            events.progress("reading back", number, len(sent), "files")
            if not self._holds(folder, entry, artefact):
                changed.append(artefact.file)
        if changed:
            raise ChecksumError(
                f"{self.target.name} has not what was sent: {', '.join(changed)}",
                solution="Run the same again; what arrived well is not sent again. The index "
                "still is the one before.",
            )


def _checked(channel: str) -> str:
    if channel not in CHANNELS:
        raise ConfigError(
            f"--channel {channel[:80]}: there is no such channel",
            solution=f"Name one of {', '.join(CHANNELS)}.",
        )
    return channel
