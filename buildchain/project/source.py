"""The checkout that is built: its commit and date.

Programs: ``git``. Outside a git checkout (an unpacked archive) the commit is ``unknown`` and the
date has to be given, and every file that lies there is taken for one of the product.
"""

from __future__ import annotations

from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import CommandError, ConfigError, ToolError
from buildchain.project import git

UNKNOWN = "unknown"
DIRTY = "-dirty"
SHOWN = 20  # changed files that are named


def describe(binary: str, root: Path) -> str:
    """Return the name of the commit, ``-dirty`` when files differ from it or are new."""
    try:
        name = process.run(git.argv_for_describe(binary, root)).strip()
    except (CommandError, ToolError):
        return UNKNOWN
    return name if name.endswith(DIRTY) or not changes(binary, root) else f"{name}{DIRTY}"


def changes(binary: str, root: Path) -> tuple[str, ...]:
    """Return what differs from the commit, as ``git status --porcelain`` says it."""
    try:
        return tuple(process.run(git.argv_for_changes(binary, root)).splitlines())
    except (CommandError, ToolError):
        return ()


def tracked(binary: str, root: Path) -> frozenset[Path] | None:
    """Return the files that git knows, or ``None`` where it knows none: there is no checkout."""
    try:
        names = process.run(git.argv_for_tracked(binary, root)).split("\0")
    except (CommandError, ToolError):
        return None
    return frozenset(root / name for name in names if name.strip()) or None


def prove_clean(binary: str, root: Path) -> None:
    """Stop a release that is not what its commit says.

    :raises ConfigError: files differ from the commit, or do not belong to it.
    """
    found = changes(binary, root)
    if found:
        raise ConfigError(
            f"SIGNING_KEY is set, and {len(found)} files in {root} are not as in the commit",
            details="\n".join(found[:SHOWN] + (("…",) if len(found) > SHOWN else ())),
            solution="Commit, remove or stash them; unset SIGNING_KEY for a development build.",
        )


def commit(binary: str, root: Path) -> str:
    """Return the digest of the commit, in full."""
    try:
        return process.run(git.argv_for_commit(binary, root)).strip()
    except (CommandError, ToolError):
        return UNKNOWN


def tags(binary: str, root: Path, which: str) -> tuple[str, ...]:
    """Return tags, see :func:`git.argv_for_tags`."""
    try:
        return tuple(process.run(git.argv_for_tags(binary, root, which)).splitlines())
    except (CommandError, ToolError):
        return ()


def count(binary: str, root: Path, since: str) -> int:
    """Return how many commits there are since a tag, or in all when it is empty."""
    return int(process.run(git.argv_for_count(binary, root, since)).strip())


def epoch(binary: str, root: Path, configured: int | None) -> int:
    """Return the date of the ISO: the configured one, else the last commit's.

    :raises ConfigError: there is neither.
    """
    if configured is not None:
        return configured
    try:
        return int(process.run(git.argv_for_date(binary, root)).strip())
    except (CommandError, ToolError, ValueError) as error:
        raise ConfigError(
            f"{root} is not a git checkout, so the date of the ISO is unknown",
            solution="Set SOURCE_DATE_EPOCH in .env (seconds since 1970).",
        ) from error
