"""Argument lists of git: which commit is built."""

from __future__ import annotations

from pathlib import Path


def argv_for_describe(binary: str, root: Path) -> list[str | Path]:
    """Name the commit, and whether the tree differs from it."""
    return [binary, "-C", root, "describe", "--always", "--long", "--tags", "--dirty"]


def argv_for_changes(binary: str, root: Path) -> list[str | Path]:
    """List what differs from the commit, and files that are neither tracked nor ignored.

    Whatever the user has set for ``git status``; describing a commit passes over new files.
    """
    return [binary, "-C", root, "status", "--porcelain", "--untracked-files=all"]


def argv_for_tracked(binary: str, root: Path) -> list[str | Path]:
    """List the files of the repository, each ended by NUL."""
    return [binary, "-C", root, "ls-files", "--cached", "-z"]


def argv_for_commit(binary: str, root: Path) -> list[str | Path]:
    """Print the commit's digest, in full."""
    return [binary, "-C", root, "rev-parse", "HEAD"]


def argv_for_tags(binary: str, root: Path, which: str) -> list[str | Path]:
    """List tags: of the last commit (``--points-at``), or of all it contains (``--merged``)."""
    return [binary, "-C", root, "tag", which, "HEAD"]


def argv_for_count(binary: str, root: Path, since: str) -> list[str | Path]:
    """Count the commits since a tag; all of them when it is empty."""
    commits = f"refs/tags/{since}..HEAD" if since else "HEAD"
    return [binary, "-C", root, "rev-list", "--count", commits]


def argv_for_date(binary: str, root: Path) -> list[str | Path]:
    """Print when the last commit was made, seconds since 1970."""
    return [binary, "-C", root, "log", "-1", "--format=%ct"]


def argv_for_files(binary: str, root: Path, *patterns: str) -> list[str | Path]:
    """List the files of the repository, tracked or new, that match."""
    return [binary, "-C", root, "ls-files", "--cached", "--others", "--exclude-standard",
            "--", *patterns]  # fmt: skip


def argv_for_clone(binary: str, root: Path, target: Path) -> list[str | Path]:
    """Clone a repository of this machine, with nothing shared."""
    return [binary, "clone", "--quiet", "--no-hardlinks", root, target]
