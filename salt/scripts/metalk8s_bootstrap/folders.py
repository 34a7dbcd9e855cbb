"""Folders that a run makes, with the modes they should have whatever the caller's umask is."""

from __future__ import annotations

import os
from pathlib import Path

# Others may look into what we make: APT reads the medium under an account of its own.
MODE = 0o755
UMASK = 0o022


def make(path: Path) -> None:
    """Make a folder and those it is in; which are there already stay as they are.

    ``Path.mkdir(mode, parents=True)`` gives its mode to the last one only, less the umask.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=MODE, exist_ok=True)
        folder.chmod(MODE)


def open_up(path: Path) -> None:
    """Make a folder of our own as above, and give it back its mode if it has another."""
    make(path)
    if path.stat().st_mode & 0o7777 != MODE:
        path.chmod(MODE)


def synchronise(path: Path) -> None:
    """Bring the names in a folder to the disk: a power cut cannot undo a rename afterwards."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget_umask() -> None:
    """Let programs that are run make files as on a machine that nobody has hardened."""
    os.umask(UMASK)
