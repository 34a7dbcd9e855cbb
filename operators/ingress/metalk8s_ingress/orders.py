"""What a running HAProxy is to be told so that it is as one that began with other files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metalk8s_ingress.configuration import EXACT, PREFIX, Files
from metalk8s_ingress.model import Server
from metalk8s_ingress.slots import Places

# Backend, number of the place, and who is there.
Change = tuple[str, int, Server | None]


@dataclass(frozen=True)
class Orders:
    """In the order in which they are told: what is new comes first, what is gone last.

    :param places: that are not there yet.
    :param servers: who is where.
    :param certificates: by file, those that are others.
    :param new: by file, those that are not there yet.
    :param hosts: by file, the hosts of one whose hosts are others.
    :param maps: lines, by file.
    :param past: files of certificates whose lines of before go.
    :param gone: of these, those that nobody needs any more.
    """

    places: tuple[Change, ...]
    servers: tuple[Change, ...]
    certificates: Mapping[str, str]
    new: Mapping[str, str]
    hosts: Mapping[str, str]
    maps: Mapping[str, list[str]]
    past: tuple[str, ...]
    gone: tuple[str, ...]


def between(
    before: Files, had: Mapping[str, Places], after: Files, places: Mapping[str, Places]
) -> Orders:
    """Compare two versions of the files that have the same frame.

    :param had: who was where; a backend has as many places now, or more.
    """
    changes = list(_changes(had, places))
    is_new = [number >= len(had[name]) for name, number, _ in changes]
    pems = {
        name: text
        for name, text in after.texts.items()
        if name in after.listed and text != before.texts.get(name)
    }
    hosts = {name: text for name, text in after.listed.items() if text != before.listed.get(name)}
    return Orders(
        places=tuple(one for one, new in zip(changes, is_new, strict=True) if new),
        servers=tuple(one for one, new in zip(changes, is_new, strict=True) if not new),
        certificates={name: text for name, text in pems.items() if name in before.listed},
        new={name: text for name, text in pems.items() if name not in before.listed},
        hosts=hosts,
        maps={
            name: after.texts[name].split("\n")[:-1]
            for name in (EXACT, PREFIX)
            if after.texts[name] != before.texts[name]
        },
        past=tuple(name for name in before.listed if after.listed.get(name) != before.listed[name]),
        gone=tuple(name for name in before.listed if name not in after.listed),
    )


def _changes(had: Mapping[str, Places], places: Mapping[str, Places]) -> Iterator[Change]:
    """Give what is another server; new ones first, so that a backend is never without any."""
    changes = [
        (name, number, one)
        for name, some in places.items()
        for number, one in enumerate(some)
        if number >= len(had[name]) or had[name][number] != one
    ]
    return iter(sorted(changes, key=lambda change: change[2] is None))
