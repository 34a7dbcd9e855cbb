"""The build root of a run: made, taken by one process, with a transcript."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import IO

from buildchain.core import events, roots
from buildchain.core.errors import BuildError, SpaceError


def make_root(build_root: Path) -> None:
    """Make the build root.

    :raises BuildError: it cannot be.
    """
    try:
        build_root.mkdir(parents=True, exist_ok=True)
        roots.mark(build_root)
    except OSError as error:
        raise _unwritable(build_root, error) from error


def _unwritable(path: Path, error: OSError) -> BuildError:
    reason = f"cannot write {path}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpaceError(reason)
    return BuildError(reason, solution="Make it writable or set BUILD_ROOT in .env.")


def listen() -> None:
    """Let every event through, to whoever handles it."""
    events.LOGGER.setLevel(logging.DEBUG)
    events.LOGGER.propagate = False
    # A transcript that cannot be written any more must not hide why the build failed.
    logging.raiseExceptions = False


def open_log(path: Path) -> logging.Handler:
    """Start a new transcript; the previous one stays as ``build.log.1``.

    :raises BuildError: it cannot be written.
    """
    listen()
    try:
        if path.exists():
            path.replace(path.with_name(f"{path.name}.1"))
        handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(threadName)s %(message)s"))
    events.LOGGER.addHandler(handler)
    return handler


def take(build_root: Path) -> IO[str]:
    """Take the build root for this process, and clear away what a killed build was making.

    :returns: the lock, held until it is closed or the process ends.
    :raises BuildError: another build is at work there.
    """
    lock = (build_root / ".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        who = lock.read().strip()
        lock.close()
        raise BuildError(
            f"another build is at work in {build_root} (process {who})",
            solution="Wait for it, or set BUILD_ROOT for this one.",
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    shutil.rmtree(build_root / "tmp", ignore_errors=True)
    return lock
