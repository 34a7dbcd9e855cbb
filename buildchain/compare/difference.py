"""What is different between two media, as text, JSON or a page.

JSON: ``old`` and ``new`` tell of the media; ``packages``, ``images`` and ``files`` list changes,
each with ``name``, ``old`` and ``new`` (``null`` where there is none) and, files aside, ``places``.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildchain.compare.inventory import Inventory, Item
from buildchain.core.errors import ConfigError
from buildchain.core.listing import Entry

NOTHING = "nothing"
SHOWN_FILES = 40
TEMPLATE = Path(__file__).with_name("difference.html.j2")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Change:
    """One thing that is new, gone or another.

    :param places: repositories of a package in which it changed alike; ``images``; empty: a file.
    """

    name: str
    places: tuple[str, ...]
    old: Item | Entry | None
    new: Item | Entry | None

    @property
    def growth(self) -> int:
        """Bytes more (or, negative, less) in each place."""
        return (self.new.size if self.new else 0) - (self.old.size if self.old else 0)


@dataclass(frozen=True)
class Difference:
    """What is different between two media."""

    old: Inventory
    new: Inventory
    packages: tuple[Change, ...]
    images: tuple[Change, ...]
    files: tuple[Change, ...]


def compare(old: Inventory, new: Inventory) -> Difference:
    """Compare two media."""
    return Difference(
        old,
        new,
        _merged(_changes(old.packages, new.packages)),
        _merged(_changes(old.images, new.images)),
        tuple(_files(old.files, new.files)),
    )


def _changes(old: Iterable[Item], new: Iterable[Item]) -> Iterator[Change]:
    """Pair items of the same place and name; several versions of one are paired in their order."""
    tables: list[dict[tuple[str, str], list[Item]]] = []
    for items in (old, new):
        table = defaultdict(list)
        for item in items:
            table[item.place, item.name].append(item)
        tables.append(table)
    for place, name in sorted(tables[0].keys() | tables[1].keys()):
        before, after = (table.get((place, name), []) for table in tables)
        same = {_content(item) for item in before} & {_content(item) for item in after}
        gone = [item for item in before if _content(item) not in same]
        come = [item for item in after if _content(item) not in same]
        for one, other in itertools.zip_longest(gone, come):
            yield Change(name, (place,), one, other)


def _content(item: Item) -> tuple[str, str]:
    return item.version, item.digest


def _merged(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Tell once what happened alike in several repositories."""
    merged: dict[object, Change] = {}
    for change in changes:
        key = (change.name, _bare(change.old), _bare(change.new))
        places = merged[key].places if key in merged else ()
        merged[key] = dataclasses.replace(change, places=(*places, *change.places))
    return tuple(sorted(merged.values(), key=lambda change: (change.name, change.places)))


def _bare(item: Item | Entry | None) -> object:
    return dataclasses.replace(item, place="") if isinstance(item, Item) else item


def _files(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> Iterator[Change]:
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield Change(path, (), old.get(path), new.get(path))


# -- as text ------------------------------------------------------------------------------------
def text(difference: Difference) -> str:
    """Return a difference for people, in plain text."""
    old, new = difference.old, difference.new
    lines = [
        f"{_title(old)} -> {_title(new)}",
        f"{len(old.files)} -> {len(new.files)} files, {bytes_in_words(old.size)} -> "
        f"{bytes_in_words(new.size)}",
    ]
    for what, changes in (("Packages", difference.packages), ("Images", difference.images)):
        lines += ["", f"{what}: {_count(changes)}", *map(_item_line, changes)]
    others = plain_files(difference)
    lines += ["", f"Other files: {_count(others)}", *map(_file_line, others[:SHOWN_FILES])]
    if len(others) > SHOWN_FILES:
        lines.append(f"  … and {len(others) - SHOWN_FILES} more")
    return "\n".join(lines) + "\n"


def plain_files(difference: Difference) -> Sequence[Change]:
    """Return the changed files that no changed package or image stands for."""
    return [c for c in difference.files if not c.name.startswith(("images/", "packages/"))]


def _title(inventory: Inventory) -> str:
    commit = inventory.facts["commit"]
    built = f" ({commit})" if commit else ""
    return f"{inventory.facts.get('name', '?')} {inventory.facts.get('version', '?')}{built}"


def _count(changes: Sequence[Change]) -> str:
    come, gone = (sum(not getattr(c, side) for c in changes) for side in ("old", "new"))
    return f"{come} new, {gone} gone, {len(changes) - come - gone} changed"


def _item_line(change: Change) -> str:
    places = f" [{', '.join(place.removeprefix('packages/') for place in change.places)}]"
    license_note = ""
    old, new = change.old, change.new
    if isinstance(old, Item) and isinstance(new, Item) and old.license != new.license:
        license_note = f", license {old.license or '?'} -> {new.license or '?'}"
    return f"  {change.name}{places}: {words(change)}{license_note}"


def words(change: Change) -> str:
    """Return what happened to a package, an image or a file."""
    old, new = change.old, change.new
    if isinstance(old, Entry) or isinstance(new, Entry):
        return _words_of_file(old, new)
    if old is None or new is None:
        there = new or old
        assert there is not None
        kind = "is new" if old is None else "is gone"
        return f"{there.version} {kind} ({signed(change.growth)})"
    if old.version == new.version:
        return f"{new.version}, other content ({signed(change.growth)})"
    return f"{old.version} -> {new.version} ({signed(change.growth)})"


def _words_of_file(old: object, new: object) -> str:
    if not isinstance(old, Entry):
        return "is new"
    if not isinstance(new, Entry):
        return "is gone"
    changes = []
    if old.digest != new.digest:
        changes.append(f"other content ({signed(new.size - old.size)})")
    if old.mode != new.mode:
        changes.append(f"mode {old.mode:o} -> {new.mode:o}")
    return ", ".join(changes)


def _file_line(change: Change) -> str:
    return f"  {change.name}: {words(change)}"


def bytes_in_words(size: int) -> str:
    """Return a size as people read it."""
    value, unit = float(abs(size)), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    number = f"{value:.0f}" if unit == 0 else f"{value:.1f}"
    return f"{'-' if size < 0 else ''}{number} {UNITS[unit]}"


def signed(size: int) -> str:
    """Return a growth as people read it."""
    return f"+{bytes_in_words(size)}" if size > 0 else bytes_in_words(size)


# -- for programs and browsers ------------------------------------------------------------------
def document(difference: Difference) -> str:
    """Return a difference as JSON."""
    found: dict[str, Any] = {
        side: {**inventory.facts, "size": inventory.size, "files": len(inventory.files)}
        for side, inventory in (("old", difference.old), ("new", difference.new))
    }
    for kind in ("packages", "images", "files"):
        found[kind] = [_record(change) for change in getattr(difference, kind)]
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def _record(change: Change) -> dict[str, object]:
    record: dict[str, object] = {"name": change.name}
    for side, value in (("old", change.old), ("new", change.new)):
        fields = dataclasses.asdict(value) if value else None
        for name in ("path", "name", "place", "kind"):
            (fields or {}).pop(name, None)
        if fields and "mode" in fields:
            fields["mode"] = f"{fields['mode']:04o}"
        record[side] = fields
    return {**record, "places": list(change.places)} if change.places else record


def page(difference: Difference) -> str:
    """Return a difference as a page that needs nothing else."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"words": words, "size": bytes_in_words, "signed": signed}
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        old=difference.old,
        new=difference.new,
        titles=[_title(difference.old), _title(difference.new)],
        sections=[
            ("Packages", difference.packages),
            ("Images", difference.images),
            ("Other files", plain_files(difference)),
        ],
        count=_count,
    )


FORMATS: Mapping[str, Callable[[Difference], str]] = {
    ".txt": text,
    ".json": document,
    ".html": page,
}


def format_of(output: str) -> Callable[[Difference], str]:
    """Return what writes a file of that name.

    :raises ConfigError: nothing does.
    """
    suffix = Path(output).suffix
    if suffix not in FORMATS:
        raise ConfigError(
            f"--output {output}: expected a name that ends in {', '.join(FORMATS)}",
            solution="Name another file, or none to see the difference here.",
        )
    return FORMATS[suffix]
