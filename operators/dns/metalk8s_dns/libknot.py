"""Knot's control protocol, spoken by Knot's own library, which is of the same version.

Library: ``libknot.so.13`` (Knot 3.2; its ``control.h`` has the numbers here). Debian's
``python3-libknot`` does as much, for Debian's Python alone.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

LIBRARY = "libknot.so.13"
END, DATA, EXTRA, BLOCK = range(4)  # what a unit is
# The words of a unit, by their place in it.
PLACES = {"command": 0, "error": 2, "zone": 6, "owner": 7, "ttl": 8, "kind": 9, "data": 10}
_Unit = ctypes.c_char_p * 12
# Units of one block: what Knot says of them has to fit into the socket's buffers.
TOGETHER = 64


class Said(NamedTuple):
    """What Knot said of one record."""

    error: str
    owner: str
    kind: str
    data: str


class KnotError(Exception):
    """Knot did not listen, or not answer."""


class Connection:
    """A connection to a Knot. It has to be closed: meanwhile, Knot talks to nobody else.

    :param seconds: to wait for one word.
    :raises KnotError: there is no Knot.
    """

    def __init__(self, socket: Path, seconds: int) -> None:
        self._library = _library()
        self._control = ctypes.c_void_p(self._library.knot_ctl_alloc())
        self._library.knot_ctl_set_timeout(self._control, seconds * 1000)
        try:
            self._check(self._library.knot_ctl_connect(self._control, bytes(socket)))
        except KnotError:
            self._library.knot_ctl_free(self._control)
            raise

    def ask(self, commands: Iterable[Mapping[str, str]]) -> Iterator[Said]:
        """Say things, and give all that it says of them, in their order.

        What has the same verb goes in blocks, which Knot answers as one (``zones_apply`` in its
        ``commands.c``): most of the time would be waiting for each other.

        :param commands: words by their names in ``PLACES``.
        :raises KnotError: the connection is cut, or Knot is silent for too long.
        """
        for _, same in itertools.groupby(commands, operator.itemgetter("command")):
            while some := list(itertools.islice(same, TOGETHER)):
                for words in some:
                    self._send(DATA, _unit(words))
                self._send(BLOCK, None)
                yield from self._hear()

    def _hear(self) -> Iterator[Said]:
        said, kind = _Unit(), ctypes.c_uint()
        while True:
            self._check(self._library.knot_ctl_receive(self._control, ctypes.byref(kind), said))
            if kind.value not in (DATA, EXTRA):
                return
            # Copied: the next unit comes in the same place.
            yield Said(*(_text(said[PLACES[name]]) for name in Said._fields))

    def close(self) -> None:
        """Say that this was all; may be called again."""
        if self._control:
            self._library.knot_ctl_send(self._control, END, None)
            self._library.knot_ctl_close(self._control)
            self._library.knot_ctl_free(self._control)
            self._control = ctypes.c_void_p()

    def _send(self, kind: int, unit: ctypes.Array[ctypes.c_char_p] | None) -> None:
        self._check(self._library.knot_ctl_send(self._control, kind, unit))

    def _check(self, status: int) -> None:
        if status:
            words: bytes = self._library.knot_strerror(status)
            raise KnotError(words.decode("ascii", "replace"))


@functools.cache
def _library() -> ctypes.CDLL:
    found = ctypes.CDLL(LIBRARY)
    pointer = ctypes.c_void_p
    functions: tuple[tuple[str, Any, list[Any]], ...] = (
        ("alloc", pointer, []),
        ("free", None, [pointer]),
        ("set_timeout", None, [pointer, ctypes.c_int]),
        ("connect", ctypes.c_int, [pointer, ctypes.c_char_p]),
        ("close", None, [pointer]),
        ("send", ctypes.c_int, [pointer, ctypes.c_uint, pointer]),
        ("receive", ctypes.c_int, [pointer, pointer, pointer]),
    )
    for name, result, arguments in functions:
        function = getattr(found, f"knot_ctl_{name}")
        function.restype, function.argtypes = result, arguments
    found.knot_strerror.restype, found.knot_strerror.argtypes = ctypes.c_char_p, [ctypes.c_int]
    return found


def _unit(words: Mapping[str, str]) -> ctypes.Array[ctypes.c_char_p]:
    unit = _Unit()
    for name, word in words.items():
        unit[PLACES[name]] = word.encode("ascii") if word else None
    return unit


def _text(word: bytes | None) -> str:
    return (word or b"").decode("ascii", "replace")
