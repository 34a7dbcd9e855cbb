"""Versions of Debian packages, in their order (deb-version(7))."""

from __future__ import annotations

import re
from typing import TypeAlias

Part: TypeAlias = tuple[tuple[int, ...], int]
Key: TypeAlias = tuple[int, tuple[Part, ...], tuple[Part, ...]]
_RUN = re.compile(r"(\D*)(\d*)")
_END: Part = ((0,), 0)  # what comes after the last character: above a tilde, below all else
_OTHERS = 256  # letters sort before everything that is none
# What Debian appends to the upstream version when it repacks or goes back.
_REPACKED = re.compile(r"[+~](ds|dfsg|repack)[0-9.]*$")


def key(version: str) -> Key:
    """Return what sorts as the version does: ``[epoch:]upstream[-revision]``."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _parts(upstream), _parts(revision)


def upstream(version: str) -> str:
    """Return the version that its authors gave: no epoch, revision or mark of repacking."""
    rest = version.rpartition(":")[2]
    rest = rest.rpartition("-")[0] if "-" in rest else rest
    return _REPACKED.sub("", rest).rpartition("+really")[2]


def _parts(text: str) -> tuple[Part, ...]:
    """Split a text into runs of other characters and numbers, which are compared in turn."""
    parts = [
        ((*(_weight(character) for character in other), 0), int(number or "0"))
        for other, number in _RUN.findall(text)
    ]
    while len(parts) > 1 and parts[-1] == _END:
        parts.pop()
    return (*parts, _END)


def _weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + _OTHERS
