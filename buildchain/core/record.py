"""What a step is told: one frozen record, and the text that stands for it.

A record is a frozen dataclass of what decides the bytes that come out: text, numbers, truth values,
enumerations, paths, other records, and tuples, sets and mappings of these. Its text names paths by
where they are from the build root, the cache or the checkout, so that each of them may move.

Files that a record names are inputs: those of the checkout and of the machine, by content and by
whether they can be executed, and receipts. Of what else lies in the build root and in the cache the
names alone count: receipts of other steps stand for that, and digests for what is fetched.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from buildchain.core.layout import Layout

Value = TypeVar("Value")
MADE = ("build", "cache")  # places of what is made or fetched, not given


@dataclass(frozen=True)
class Later(Generic[Value]):
    """A value that is costly to know (git): asked for once, when the step is considered."""

    compute: Callable[[], Value]

    @functools.cached_property
    def value(self) -> Value:
        return self.compute()


@dataclass(frozen=True)
class Nothing:
    """The record of a step that is told nothing: what it makes follows from its needs alone."""


def text(record: object, layout: Layout) -> str:
    """Return the text of a record (JSON): other texts are of records that say something else."""
    return json.dumps(_plain(record, _places(layout)))


def files(record: object, layout: Layout) -> tuple[Path, ...]:
    """Return the files whose content a record stands for; nothing is computed for it.

    :raises TypeError: naming what of the record has no text, or a folder of the checkout, which
        says nothing of the files in it.
    """
    receipts, *made = (f"{folder}/" for folder in (layout.receipts, layout.build, layout.cache))
    found = {}  # by name, which is cheaper than by path
    for where, path in _paths(record, type(record).__name__):
        name = str(path)
        if name.startswith(tuple(made)):
            if name.startswith(receipts):
                found[name] = path
        elif name in found or path.is_file():
            found[name] = path
        elif path.is_dir():
            raise TypeError(f"{where} is the folder {path}: name its files")
    return tuple(found.values())


def _is_record(value: object) -> bool:
    parameters: Any = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))


def _paths(value: Any, where: str) -> Iterator[tuple[str, Path]]:
    if value is None or isinstance(value, str | int | enum.Enum | Later):
        return
    if isinstance(value, Path):
        yield where, value
    elif isinstance(value, tuple | AbstractSet):
        for item in value:
            yield from _paths(item, where)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths(key, f"a key of {where}")
            yield from _paths(item, f"{where}[{key!r}]")
    elif _is_record(value):
        for name, item in _fields(value):
            yield from _paths(item, f"{where}.{name}")
    else:
        raise TypeError(f"{where} is a {type(value).__name__}, which no step can be told")


def _plain(value: Any, places: tuple[tuple[str, str], ...]) -> object:
    """Return a value as JSON has it; what is of another type is another value."""
    if isinstance(value, Later):
        value = value.value
    if isinstance(value, enum.Enum):
        return {type(value).__name__: value.name}
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Path):
        place, name = _placed(str(value), places)
        # Where it is copied the mode comes along, and doit looks at contents only.
        runs = place not in MADE and value.is_file() and bool(value.stat().st_mode & 0o100)
        return {"program" if runs else "path": [place, name]}
    if isinstance(value, tuple):
        return [_plain(item, places) for item in value]
    if isinstance(value, AbstractSet):
        return {"set": sorted(json.dumps(_plain(item, places)) for item in value)}
    if isinstance(value, Mapping):
        # Pairs: actions may count on their order.
        pairs = value.items()
        return {"mapping": [[_plain(key, places), _plain(item, places)] for key, item in pairs]}
    if _is_record(value):
        return {type(value).__name__: {n: _plain(item, places) for n, item in _fields(value)}}
    raise TypeError(f"a {type(value).__name__} cannot be told to a step: {value!r:.80}")


def _places(layout: Layout) -> tuple[tuple[str, str], ...]:
    """Return the folders that paths are told from, the innermost first."""
    folders = {"build": layout.build, "cache": layout.cache, "checkout": layout.root}
    named = ((f"{folder}/", name) for name, folder in folders.items())
    return tuple(sorted(named, key=lambda pair: -len(pair[0])))


def _placed(path: str, places: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    for prefix, name in places:
        if f"{path}/".startswith(prefix):
            return name, path[len(prefix) :]
    return "machine", path
