"""Places for servers: HAProxy can be told of another server in one, but not of another place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metalk8s_ingress.model import Backend, Server

FEWEST = 4
Places = tuple[Server | None, ...]


def assign(before: Mapping[str, Places], backends: Mapping[str, Backend]) -> dict[str, Places]:
    """Give every server a place; who has one keeps it."""
    return {
        name: _fill(before.get(name, ()), backend.servers) for name, backend in backends.items()
    }


def _fill(before: Places, wanted: Iterable[Server]) -> Places:
    servers = dict.fromkeys(wanted)
    places = [one if one in servers else None for one in before]
    placed = frozenset(places)
    missing = iter([one for one in servers if one not in placed])
    places = [next(missing, None) if one is None else one for one in places]
    places += missing
    size = max(FEWEST, len(before))
    while size < len(servers):
        size *= 2
    return tuple(places + [None] * (size - len(places)))
