"""Where a build may write: folders that are new, empty or its own.

``clean`` removes what a build root holds, so files of anybody else must not be there. On disk: the
file ``.metalk8s`` in a build root says that it is one; those of earlier versions are known by what
lies in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

MARK = ".metalk8s"
SENTENCE = "A build root of MetalK8s: everything here can be removed and built again.\n"
# What lies at the top of a checkout and is not there to be built over; a test compares.
CHECKOUT = (
    *(".ci", ".git", ".venv", "buildchain", "docs", "images", "operators", "packages", "salt"),
    *("static-container-registry", "tests"),
)
# Of a build that stopped before it made anything.
BEGUN = frozenset((".doit.json", ".lock", "build.log", "build.log.1", "tmp"))
CACHES = frozenset(("store", "resolutions", "go-build", "compiled", "machines", "publication"))
NOBODYS = "lost+found"  # of the file system, where a root is a mount point
SHOWN = 3  # names of other people's files


def problems(checkout: Path, build: Path, cache: Path) -> list[str]:
    """Tell why a build root and a cache (both absolute) cannot be used, empty when they can."""
    found = []
    for name, path, is_ours in (
        ("BUILD_ROOT", build, _is_build),
        ("CACHE_ROOT", cache, _is_cache),
    ):
        reason = _problem(checkout, path, is_ours)
        if reason:
            found.append(f"{name}={path}: expected a new or empty folder or one of ours, {reason}")
    if found:
        return found
    return _nesting(_real(build), _real(cache))


def mark(build: Path) -> None:
    """Say in a build root that it is one."""
    path = build / MARK
    if not path.exists():
        path.write_text(SENTENCE, encoding="utf-8")


def _real(path: Path) -> Path:
    # Not Path.resolve: that raises on a circle of links.
    return Path(os.path.realpath(path))


def _nesting(build: Path, cache: Path) -> list[str]:
    """Tell which root lies in the other: cleaning one would take the other along."""
    if build == cache:
        return [f"BUILD_ROOT={build}: expected another folder than CACHE_ROOT"]
    pairs = (("BUILD_ROOT", build, "CACHE_ROOT", cache), ("CACHE_ROOT", cache, "BUILD_ROOT", build))
    return [
        f"{inner}={path}: expected a folder outside of {outer}={around}"
        for inner, path, outer, around in pairs
        if around in path.parents
    ]


def _problem(checkout: Path, path: Path, is_ours: Callable[[Path, set[str]], bool]) -> str:
    real, tree = _real(path), _real(checkout)
    if path.is_symlink() and not path.exists():
        return "but it is a symbolic link that leads nowhere"
    there = next(folder for folder in (real, *real.parents) if folder.exists())
    if not there.is_dir():
        return f"but {there} is a file"
    if real == Path("/"):
        return "but it is the root of the file system"
    if real == _real(Path("~").expanduser()):
        return "but it is your home folder"
    if real == tree or real in tree.parents:
        return f"but the checkout {tree} lies in it"
    if tree in real.parents and real.relative_to(tree).parts[0] in CHECKOUT:
        return f"but {real.relative_to(tree).parts[0]} belongs to the checkout"
    return _others(real, is_ours) if real.is_dir() else ""


def _others(folder: Path, is_ours: Callable[[Path, set[str]], bool]) -> str:
    """Tell of files that no build made."""
    try:
        names = {path.name for path in folder.iterdir()} - {NOBODYS}
    except OSError as error:
        return f"but it cannot be read ({error.strerror})"
    if not names or is_ours(folder, names):
        return ""
    shown = ", ".join(sorted(names)[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return f"but it has files of others: {shown}"


def _is_build(_folder: Path, names: set[str]) -> bool:
    made = ".doit.json" in names and bool(names & {"receipts", "build.log"})
    return MARK in names or made or names <= BEGUN


def _is_cache(folder: Path, names: set[str]) -> bool:
    return bool(names & CACHES) or (folder / "keys" / "development.key").exists()
