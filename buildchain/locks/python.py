"""The locks of the project's own Python packages.

Programs: ``pip-compile``.
"""

from __future__ import annotations

from pathlib import Path

from buildchain.core import events, process
from buildchain.machine import python
from buildchain.machine.python import interpreter

CONTINUED = " \\"  # how pip-compile goes on to the hashes


def lock(root: Path, source: str) -> None:
    """Write ``<source>.txt`` from ``<source>.in`` with the newest versions that fit."""
    target = root / f"{source}.txt"
    before = set(target.read_text(encoding="utf-8").splitlines()) if target.exists() else set()
    argv = python.argv_for_lock(interpreter(), root / f"{source}.in", target)
    process.run(argv, cwd=root)
    after = set(target.read_text(encoding="utf-8").splitlines())
    for line in sorted(line for line in before ^ after if "==" in line):
        events.note(f"{'+' if line in after else '-'} {line.removesuffix(CONTINUED)}")
