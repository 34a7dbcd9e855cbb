"""Who could exchange an archive: it is mounted at each boot, and root does what is in it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject

OTHERS = stat.S_IWGRP | stat.S_IWOTH
LINKS = 40  # as many the kernel follows


def ownership(subject: Subject) -> Iterator[Problem]:
    """Nobody but root can write to an archive, or put another one in its place."""
    for index, path in enumerate(subject.configuration.archives):
        key = f"archives[{index}]"
        for place, what, remedy in exposures(subject.machine.root, path):
            where = subject.configuration.place(key)
            shown = path if place == path else f"{path} is in {place}, which"
            yield Problem(Group.ARCHIVES, where, f"{key}: {shown} {what}", remedy)


def exposures(root: Path, path: str) -> Iterator[tuple[str, str, str]]:
    """Give what of a path others can change: the place, how, and what to do about it.

    :param root: folder that ``/`` stands for; root is who owns it.
    """
    owner = root.stat().st_uid
    try:
        found = {place: place.lstat() for place in places(root, path)}
    except OSError:  # what is not there is somebody else's to tell
        return
    for place, status in found.items():
        shown = f"/{place.relative_to(root)}" if place != root else "/"
        if status.st_uid != owner:
            what = f"belongs to user {status.st_uid}, who can exchange it"
            yield shown, what, f"Run: chown root: {shown}"
        # Of a folder with the sticky bit, others can exchange only what is theirs (/tmp).
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_mode & OTHERS and not is_sticky:
            what = f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
            yield shown, what, f"Run: chmod go-w {shown}"


def places(root: Path, path: str) -> Iterator[Path]:
    """Give every folder that decides what a path means, links followed, and the file in the end.

    :raises OSError: links that lead nowhere.
    """
    here, left, links = root, list(reversed(Path(path).parts[1:])), 0
    yield here
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent if here != root else root
            continue
        entry = here / name
        if not entry.is_symlink():
            here = entry
            yield here
            continue
        links += 1
        if links > LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = entry.readlink()
        if target.is_absolute():
            here = root
        left.extend(part for part in reversed(target.parts) if part != "/")
