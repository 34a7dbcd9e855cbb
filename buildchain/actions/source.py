"""The checkout that is built: its commit and date.

Programs: ``git``. Outside a git checkout (an unpacked archive) the commit is ``unknown`` and the
date has to be given.
"""

from __future__ import annotations

from pathlib import Path

from buildchain import process
from buildchain.errors import CommandError, ConfigError, ToolError
from buildchain.tools import git

UNKNOWN = "unknown"


def describe(binary: str, root: Path) -> str:
    """Return the name of the commit, ``-dirty`` when files differ from it."""
    try:
        return process.run(git.argv_for_describe(binary, root)).strip()
    except (CommandError, ToolError):
        return UNKNOWN


def commit(binary: str, root: Path) -> str:
    """Return the digest of the commit, in full."""
    try:
        return process.run(git.argv_for_commit(binary, root)).strip()
    except (CommandError, ToolError):
        return UNKNOWN


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
            f"{root} is no git checkout, so the date of the ISO is not known",
            solution="Set SOURCE_DATE_EPOCH in .env (seconds since 1970).",
        ) from error
