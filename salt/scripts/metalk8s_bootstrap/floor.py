"""The newest version that was installed here: bootstrap.sh refuses older ones."""

from __future__ import annotations

import re

from metalk8s_bootstrap.system import System

# Beside the keys; bootstrap.sh reads it.
FLOOR = "/etc/metalk8s/keys/at-least"


def order(version: str) -> tuple[object, ...]:
    """Return what versions compare by: as verify.sh does, 2.4.0-dev comes before 2.4.0."""
    numbers, dash, suffix = version.partition("-")
    parts = re.split(r"(\d+)", suffix)
    natural = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts if part)
    return tuple(int(part) for part in re.findall(r"\d+", numbers)), not dash, natural


def remember(system: System, version: str) -> None:
    """Note that a version is installed, unless a newer one was."""
    path = system.path(FLOOR)
    before = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    if not before or order(version) > order(before):
        system.write(FLOOR, f"{version}\n")
