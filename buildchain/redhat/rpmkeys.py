"""Argument lists for checking signatures of RPMs, and what the check says.

Programs: ``rpmkeys`` with a database of its own, so that one key decides and not the machine's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# "    Header V4 RSA/SHA256 Signature, key ID 6b3c770a: NOKEY"
SIGNATURE = re.compile(r"Signature, key ID (?P<key>[0-9a-f]+): (?P<result>\w+)")
CHANGED = re.compile(r": BAD\b")


def argv_for_import(database: Path, key: Path) -> list[str | Path]:
    """Trust a public key (ASCII armour) in a database, which is made when it is not there."""
    return ["rpmkeys", "--dbpath", database, "--import", key]


def argv_for_check(database: Path, packages: Sequence[Path]) -> list[str | Path]:
    """Check digests and signatures."""
    # By default a package without a signature passes.
    strict = ["--define", "_pkgverify_level all"]
    return ["rpmkeys", "--dbpath", database, *strict, "--checksig", "--verbose", *packages]


def parse_check(text: str, packages: Sequence[Path]) -> dict[Path, str]:
    """Return what is wrong with each package: nothing when it is good."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("error: "):
            # Comes on the other stream, at any place.
            continue
        if line.endswith(":") and not line.startswith(" "):
            current = sections.setdefault(line[:-1], [])
        else:
            current.append(line)
    return {package: _judge(sections.get(str(package), [])) for package in packages}


def _judge(lines: Sequence[str]) -> str:
    signatures = [match for line in lines if (match := SIGNATURE.search(line))]
    if not lines:
        return "it is no RPM package"
    if any(CHANGED.search(line) for line in lines):
        return "it was changed after it was signed"
    if not signatures:
        return "it is not signed"
    for match in signatures:
        if match["result"] != "OK":
            return f"it is signed with another key ({match['key']}, {match['result']})"
    return ""
