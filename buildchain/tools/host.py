"""Versions of programs, and argument lists of the machine's package manager.

Programs: ``apt-get``, ``dpkg-query``, ``sudo``, ``dockerd``, ``systemctl``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

VERSION = re.compile(r"(\d+(?:\.\d+)+)")


def parse_version(text: str) -> tuple[int, ...]:
    """Return the first dotted number of a text, empty when there is none."""
    match = VERSION.search(text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def is_older(actual: str, minimum: str) -> bool:
    """Tell whether the version in ``actual`` is below ``minimum``; unknown is not older."""
    found = parse_version(actual)
    return bool(found) and found < tuple(int(part) for part in minimum.split("."))


def argv_for_refresh(prefix: Sequence[str]) -> list[str]:
    """Read the package indexes again."""
    return [*prefix, "apt-get", "-q", "update"]


def argv_for_installation(prefix: Sequence[str], packages: Sequence[str]) -> list[str]:
    """Install packages, nothing beyond what they need."""
    # env, because sudo drops the environment. A new machine may be updating itself: wait for it.
    options = ["-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
    return [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *options,
            "--no-install-recommends", "install", *packages]  # fmt: skip
