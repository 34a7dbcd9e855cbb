"""From one table to another: a text for ``nft -f``, which does all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from metalk8s_pod_network.filters import FAMILY, TABLE, Collection, Table

NAME = f"{FAMILY} {TABLE}"
EMPTY = Table({}, {})
MANY = 500  # entries of one line


def whole(table: Table) -> str:
    """Put a table in the place of whatever is there."""
    # `add` first: what is not there cannot be deleted
    return "\n".join([f"add table {NAME}", f"delete table {NAME}", f"add table {NAME}",
                      *_lines(EMPTY, table)]) + "\n"  # fmt: skip


def change(before: Table, after: Table) -> str:
    """Change what differs; empty when nothing does."""
    return "".join(f"{line}\n" for line in _lines(before, after))


def _lines(before: Table, after: Table) -> Iterator[str]:
    # What is named has to be there before, and may go after.
    gone = sorted(before.chains.keys() - after.chains.keys())
    for name in after.chains.keys() - before.chains.keys():
        yield f"add chain {NAME} {name}{_hook(after.chains[name])}"
    for name in after.collections.keys() - before.collections.keys():
        yield _declare(name, after.collections[name])
    yield from _rules(before, after)
    for name, collection in after.collections.items():
        if not collection.flags:
            old = before.collections.get(name, Collection(collection.kind))
            yield from _entries(name, old.entries, collection.entries, is_map=collection.is_map)
    yield from (f"flush chain {NAME} {name}" for name in gone)
    for name in before.collections.keys() - after.collections.keys():
        yield f"delete {'map' if before.collections[name].is_map else 'set'} {NAME} {name}"
    yield from (f"delete chain {NAME} {name}" for name in gone)


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
