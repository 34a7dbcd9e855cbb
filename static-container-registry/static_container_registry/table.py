r"""Tables that nginx looks up without a module, in constant time and little memory.

A location costs nginx about 9 KB, whatever is in it, a text just its length. So entries are
put into buckets of at most a few thousand characters, each bucket into one location whose
address is what its keys begin with. nginx finds the location in its tree of prefixes, the
location sets a variable to the bucket, and one regular expression, the same for all
buckets, picks the entry out of it.

    location ^~ "…/manifests/pa" { set $…_table '<key> ;pause/3.2 <value>;parser/1 <value>;'; … }

A bucket's size is bounded, so is the time to search it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .alternation import common_beginning
from .syntax import ROOM, SPACE, VARIABLE, block, quoted

# What looks an entry up; a value's pattern and a semicolon go after it.
FIND = r"^([^ ;]+) (?:[^;]*+;)+?\1 "
TABLE = f"{VARIABLE}_table"
KEY = f"{VARIABLE}_name/{VARIABLE}_reference"
_AGAIN = f"${{{TABLE[1:]}}}"  # what a piece goes on from
_LOCATION = re.compile(rf'location \^~ "{SPACE}/[^"]*?/(\w+)/[^"]*" \{{\n((?: +set .*\n)+)')
_PIECE = re.compile(rf"set {re.escape(TABLE)} '([^']*)';")


def render_table(address: str, entries: Mapping[str, str], follow: str) -> str:
    """Return locations below ``address`` for entries, whatever their number.

    Neither keys nor values have a semicolon or what nginx would read, keys no space.

    :param follow: where the request goes on, once the bucket of its key is in the variable.
    """
    buckets = {"": [], **_split("", sorted(entries.items()))}
    # nginx 1.22 sorts locations by insertion, a slash before all else: in its own order they
    # load at once.
    return "\n".join(
        block(
            f'location ^~ "{address}{prefix}"',
            *_assignments("".join(f"{key} {value};" for key, value in bucket)),
            f'rewrite ^ "{follow}" last;',
        )
        for prefix, bucket in sorted(buckets.items(), key=lambda pair: pair[0].replace("/", "\0"))
    )


def parse_tables(text: str) -> dict[str, dict[str, str]]:
    """Read the tables of a configuration back: last folder of the address to entries."""
    tables: dict[str, dict[str, str]] = {}
    for kind, body in _LOCATION.findall(text):
        bucket = "".join(
            piece.replace(r"\\", "\\").removeprefix(_AGAIN) for piece in _PIECE.findall(body)
        )
        for entry in bucket.removeprefix(f"{KEY} ;").split(";")[:-1]:
            key, _, value = entry.partition(" ")
            tables.setdefault(kind, {})[key] = value
    return tables


_Entries = list[tuple[str, str]]


def _split(prefix: str, entries: _Entries) -> dict[str, _Entries]:
    """Cut sorted entries into buckets by what their keys begin with.

    A bucket has all keys with its prefix but those of buckets with longer prefixes: small
    groups stay together, large ones get a bucket of their own.
    """
    if len(entries) < 2 or _size(entries) <= ROOM:
        return {prefix: entries}
    length = len(common_beginning(entries[0][0], entries[-1][0]))
    groups: dict[str, _Entries] = {}
    for entry in entries:
        groups.setdefault(entry[0][: length + 1], []).append(entry)
    kept: _Entries = []
    buckets: dict[str, _Entries] = {}
    room = ROOM
    for start, group in sorted(groups.items(), key=lambda pair: (_size(pair[1]), pair[0])):
        if len(start) == length or _size(group) <= room:
            kept += group
            room -= _size(group)
        else:
            buckets |= _split(start, group)
    return {prefix: sorted(kept), **buckets}


def _size(entries: Iterable[tuple[str, str]]) -> int:
    return sum(len(key) + len(value) + 2 for key, value in entries)


def _assignments(text: str) -> list[str]:
    """Set the variable, in pieces that are short enough."""
    pieces = [text[at : at + ROOM // 2] for at in range(ROOM // 2, len(text), ROOM // 2)]
    first = f"set {TABLE} {quoted(f'{KEY} ;' + text[: ROOM // 2])};"
    return [first, *(f"set {TABLE} {quoted(f'${{{TABLE[1:]}}}' + piece)};" for piece in pieces)]
