"""From one table to another: texts for ``nft -f``, each of which does all of it or nothing.

The first makes chains and sets that nothing uses yet; the second is the change; the next ones empty
chains that are no longer used, and remove them with their sets. In one step, a packet on its way
could be judged by old rules and new entries, which lead to a chain that is still empty, or to a set
that already is: it would be dropped although it is allowed both before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from metalk8s_pod_network.isolation.filters import FAMILY, TABLE, Collection, Table

NAME = f"{FAMILY} {TABLE}"
EMPTY = Table({}, {})
MANY = 500  # entries of one line
OURS = {"metainfo", "table", "chain", "rule", "set", "map"}  # what nft lists of our tables


@dataclass(frozen=True)
class Names:
    """What a table has, whoever made it.

    :param collections: kind of each, as ``Collection`` has it; empty when it has flags.
    """

    chains: frozenset[str] = frozenset()
    collections: Mapping[str, str] = field(default_factory=dict)
    maps: frozenset[str] = frozenset()


def read(listing: Mapping[str, Any]) -> Names | None:
    """Read ``nft -j -t list table``; ``None``: it has more than a table of ours ever has."""
    items = [next(iter(item.items())) for item in listing.get("nftables", ())]
    if not {what for what, _ in items} <= OURS:
        return None
    collections = {}
    for what, value in items:
        if what in ("set", "map"):
            kind = _kind(value["type"]) + (f" : {value['map']}" if what == "map" else "")
            collections[value["name"]] = "" if value.get("flags") else kind
    return Names(
        frozenset(value["name"] for what, value in items if what == "chain"),
        collections,
        frozenset(value["name"] for what, value in items if what == "map"),
    )


def anew(table: Table) -> tuple[str, ...]:
    """Put a table in the place of whatever is there."""
    # `add` first: what is not there cannot be deleted
    start = [f"add table {NAME}", f"delete table {NAME}", f"add table {NAME}"]
    return _texts([*start, *_changes(EMPTY, table)])


def whole(table: Table, found: Names | None) -> tuple[str, ...]:
    """Put a table in the place of one of which no more is known than names.

    A chain that hooks stays, since the kernel takes one away only after what it asks.

    :param found: what is there; ``None``: what cannot become ours.
    """
    if found is None:
        return anew(table)
    same = {
        name
        for name, collection in table.collections.items()
        if not collection.flags and found.collections.get(name) == collection.kind
    }
    replaced = (found.collections.keys() & table.collections.keys()) - same
    # Rules that name what is to be replaced would keep it from going.
    fresh = {
        name: () if replaced.intersection(re.findall(r"@(\w+)", " ".join(rules))) else rules
        for name, rules in table.chains.items()
        if name not in found.chains and not _hook(rules)
    }
    new = {
        name: collection
        for name, collection in table.collections.items()
        if name not in found.collections
    }
    lines = [f"add table {NAME}", *_chains(table, table.chains)]
    lines += [f"flush chain {NAME} {name}" for name in sorted(found.chains)]
    lines += [f"flush {_what(found, name)} {NAME} {name}" for name in sorted(same)]
    lines += [f"delete {_what(found, name)} {NAME} {name}" for name in sorted(replaced)]
    empty = {name: Collection(table.collections[name].kind) for name in same}
    known = Table({**dict.fromkeys(table.chains, ()), **fresh}, {**empty, **new})
    lines += _changes(known, table)
    gone = found.collections.keys() - table.collections.keys()
    maps = {name: name in found.maps for name in gone}
    prepared = [f"add table {NAME}", *_changes(EMPTY, Table(fresh, new))]
    return _texts(prepared, lines, *_removals(found.chains - table.chains.keys(), maps))


def change(before: Table, after: Table) -> tuple[str, ...]:
    """Change what differs; nothing when nothing does."""
    gone = before.collections.keys() - after.collections.keys()
    maps = {name: before.collections[name].is_map for name in gone}
    removals = _removals(before.chains.keys() - after.chains.keys(), maps)
    fresh = {name: rules for name, rules in after.chains.items() if not _hook(rules)}
    prepared = Table({**fresh, **before.chains}, {**after.collections, **before.collections})
    return _texts(_changes(before, prepared), _changes(prepared, after), *removals)


def _texts(*steps: Iterable[str]) -> tuple[str, ...]:
    texts = ("".join(f"{line}\n" for line in lines) for lines in steps)
    return tuple(text for text in texts if text)


def _kind(words: object) -> str:
    return " . ".join(map(str, words)) if isinstance(words, list) else str(words)


def _what(found: Names, name: str) -> str:
    return "map" if name in found.maps else "set"


def _changes(before: Table, after: Table) -> Iterator[str]:
    # What is named has to be there before.
    yield from _chains(after, after.chains.keys() - before.chains.keys())
    for name in after.collections.keys() - before.collections.keys():
        yield _declare(name, after.collections[name])
    yield from _rules(before, after)
    for name, collection in after.collections.items():
        if not collection.flags:
            old = before.collections.get(name, Collection(collection.kind))
            yield from _entries(name, old.entries, collection.entries, is_map=collection.is_map)


def _removals(
    chains: Iterable[str], collections: Mapping[str, bool]
) -> tuple[list[str], list[str]]:
    """Empty chains that nothing names any more; then take them away, with sets and maps.

    :param collections: whether it is a map, by name.
    """
    gone = sorted(chains)
    sets = [
        f"delete {'map' if is_map else 'set'} {NAME} {name}"
        for name, is_map in sorted(collections.items())
    ]
    return (
        [f"flush chain {NAME} {name}" for name in gone],
        [*sets, *(f"delete chain {NAME} {name}" for name in gone)],
    )


def _chains(table: Table, names: Iterable[str]) -> Iterator[str]:
    return (f"add chain {NAME} {name}{_hook(table.chains[name])}" for name in names)


def _rules(before: Table, after: Table) -> Iterator[str]:
    for name, rules in after.chains.items():
        if before.chains.get(name) == rules:
            continue
        if name in before.chains:
            yield f"flush chain {NAME} {name}"
        yield from (
            f"add rule {NAME} {name} {rule}" for rule in rules if not rule.startswith("type ")
        )


def _declare(name: str, collection: Collection) -> str:
    kind = "map" if collection.is_map else "set"
    words = f"type {collection.kind};"
    if collection.flags:
        # With its entries: nft 1.0.6 adds no intervals to a map whose chains are as new as it is.
        entries = ", ".join(_entry(*one, is_map=collection.is_map)
                            for one in collection.entries.items())  # fmt: skip
        words += f" flags {collection.flags}; elements = {{ {entries} }};"
    return f"add {kind} {NAME} {name} {{ {words} }}"


def _hook(rules: Iterable[str]) -> str:
    return "".join(f" {{ {rule} }}" for rule in rules if rule.startswith("type "))


def _entries(
    name: str, before: Mapping[str, str], after: Mapping[str, str], *, is_map: bool
) -> Iterator[str]:
    gone = [
        _entry(key, verdict, is_map=is_map)
        for key, verdict in before.items()
        if after.get(key) != verdict
    ]
    new = [
        _entry(key, verdict, is_map=is_map)
        for key, verdict in after.items()
        if before.get(key) != verdict
    ]
    for verb, entries in (("delete", gone), ("add", new)):
        for start in range(0, len(entries), MANY):
            yield f"{verb} element {NAME} {name} {{ {', '.join(entries[start : start + MANY])} }}"


def _entry(key: str, verdict: str, *, is_map: bool) -> str:
    return f"{key} : {verdict}" if is_map else key
