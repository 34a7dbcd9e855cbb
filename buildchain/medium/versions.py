"""Versions of builds: which commit a build is, sorted by semver, RPM and DEB alike.

::

    2.4.0-dev.2+g0123456789ab < 2.4.0-dev.123+g… < 2.4.0-rc.1 < 2.4.0 < 2.4.1-dev.1+g…

A release is its tag, which is what ``VERSION`` says. Any other build counts the commits since the
newest release that it contains, and says its own commit (docs/adr/0026-release.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from buildchain.debian import version as debian_version
from buildchain.project import source
from buildchain.project.model import Version

_NUMBER = r"(0|[1-9][0-9]*)"
# Another word than rc would sort before dev.
TAG = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-(rc\.[1-9][0-9]*))?")
DEVELOPMENT = "dev"
SUFFIX = re.compile(r"(rc\.[1-9][0-9]*)?")
DIGITS = 12  # of a commit's digest: git's own abbreviation grows with the clone


@dataclass(frozen=True)
class Commit:
    """What a checkout is built from.

    :param digest: of the commit, in full; ``unknown`` outside of git.
    :param tags: all of this commit.
    :param release: newest release (no candidate) that it contains; ``None``: there is none.
    :param since: commits since that one, or in all.
    :param is_dirty: files differ from the commit, or are new.
    """

    digest: str
    tags: tuple[str, ...] = ()
    release: Version | None = None
    since: int = 0
    is_dirty: bool = False


def parse(text: str) -> Version | None:
    """Return the version that a tag says; ``None`` when it is none of a release or candidate."""
    match = TAG.fullmatch(text)
    if match is None:
        return None
    return Version(int(match[1]), int(match[2]), int(match[3]), match[4] or "")


def packaged(version: str) -> str:
    """Return a version as RPM and DEB write it: with ``~``, which sorts before nothing."""
    return version.replace("-", "~", 1)


def order(version: str) -> debian_version.Key:
    """Return what sorts as the version does."""
    return debian_version.key(packaged(version))


def of_build(version: Version, commit: Commit) -> str:
    """Return the version of what is built from a commit.

    :param version: what ``VERSION`` says.
    """
    if is_tagged(version, commit) and not commit.is_dirty:
        return version.full
    numbers = (version.major, version.minor, version.patch)
    if commit.release is not None:
        last = commit.release
        # What follows a release leads to the next one: dev of its own number would sort before it.
        numbers = max(numbers, (last.major, last.minor, last.patch + 1))
    base = ".".join(map(str, numbers))
    where = "unknown" if commit.digest == source.UNKNOWN else f"g{commit.digest[:DIGITS]}"
    return f"{base}-{DEVELOPMENT}.{commit.since}+{where}{'.dirty' if commit.is_dirty else ''}"


def is_tagged(version: Version, commit: Commit) -> bool:
    """Tell whether a commit has the tag that makes it the release of its ``VERSION``."""
    return SUFFIX.fullmatch(version.suffix) is not None and version.full in commit.tags


def commit_of(binary: str, root: Path) -> Commit:
    """Return what a checkout is built from.

    :param binary: git.
    """
    digest = source.commit(binary, root)
    if digest == source.UNKNOWN:
        return Commit(digest)
    contained = [tag for tag in source.tags(binary, root, "--merged") if _is_release(tag)]
    newest = max(contained, key=order, default="")
    return Commit(
        digest,
        source.tags(binary, root, "--points-at"),
        parse(newest),
        source.count(binary, root, newest),
        bool(source.changes(binary, root)),
    )


def _is_release(tag: str) -> bool:
    version = parse(tag)
    return version is not None and not version.suffix
