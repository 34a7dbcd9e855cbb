"""What a checkout must be to become a release: every reason against it at once, before a build."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from buildchain.core.errors import ReleaseError
from buildchain.medium import versions
from buildchain.medium.versions import Commit
from buildchain.project import source
from buildchain.project.config import STRICT
from buildchain.project.model import Version
from buildchain.project.vulnerabilities import Table
from buildchain.release import changelog

SHOWN = 10  # changed files that are named
FORM = "X.Y.Z, or X.Y.Z-rc.N for a candidate"


@dataclass(frozen=True)
class Reason:
    """Why there is no release.

    :param where: file, setting or part of the checkout.
    :param remedy: what to do, a sentence.
    """

    where: str
    found: str
    expected: str
    remedy: str

    @property
    def line(self) -> str:
        return f"{self.where}: {self.found}; expected {self.expected}. {self.remedy}"


@dataclass(frozen=True)
class Previous:
    """The release before, as it was named.

    :param product: name that it says of itself.
    :param problem: why it cannot be read; empty: it can.
    """

    path: str
    product: str = ""
    version: str = ""
    problem: str = ""


@dataclass(frozen=True)
class State:
    """All that decides.

    :param product: name of what is released.
    :param version: what ``VERSION`` says.
    :param changes: as ``git status --porcelain`` tells them.
    :param signing_key: fingerprints, or empty.
    :param key_problem: why these keys cannot sign; empty: they can.
    :param lock_policy: the one that the build would have.
    :param lock_problems: in what the locks are not as the pins want them.
    :param base_image: reference of a foreign one, or empty.
    :param changes_text: ``CHANGELOG.md``.
    :param bases: releases that update packs are to start from.
    """

    product: str
    version: Version
    commit: Commit
    changes: tuple[str, ...]
    signing_key: str
    key_problem: str
    lock_policy: str
    lock_problems: tuple[str, ...]
    base_image: str
    table: Table
    changes_text: str
    previous: Previous | None = None
    bases: tuple[Previous, ...] = ()

    @property
    def target(self) -> str:
        """The version of the release: what ``VERSION`` says, or would say without ``dev``."""
        if versions.SUFFIX.fullmatch(self.version.suffix):
            return self.version.full
        return f"{self.version.short}.{self.version.patch}"


def prove(state: State) -> None:
    """Stop what would be no release.

    :raises ReleaseError: naming every reason.
    """
    found = reasons(state)
    if found:
        raise ReleaseError(
            f"{len(found)} reasons against a release {state.target}",
            details="\n".join(reason.line for reason in found),
        )


def reasons(state: State) -> list[Reason]:
    """Return every reason against a release."""
    return [reason for check in CHECKS for reason in check(state)]


def _version(state: State) -> Iterator[Reason]:
    if state.version.full != state.target:
        yield Reason(
            "VERSION",
            f"{state.version.full} is no version of a release",
            FORM,
            "Set VERSION_SUFFIX to nothing or rc.N and commit it.",
        )


def _checkout(state: State) -> Iterator[Reason]:
    if state.commit.digest == source.UNKNOWN:
        yield Reason("checkout", "git knows no commit here", "a clone", "Clone the repository.")
    if state.changes:
        names = ", ".join(line[3:] for line in state.changes[:SHOWN])
        more = ", …" if len(state.changes) > SHOWN else ""
        yield Reason(
            "checkout",
            f"{len(state.changes)} files are changed or not tracked ({names}{more})",
            "what the commit has",
            "Commit, remove or stash them.",
        )


def _tag(state: State) -> Iterator[Reason]:
    tags = state.commit.tags
    others = [tag for tag in tags if _names_another(tag, state.target)]
    if state.target not in tags or others:
        named = [tag for tag in tags if versions.parse(tag.removeprefix("v"))]
        found = f"the tags {', '.join(named)}" if named else "no tag of a version"
        yield Reason(
            "tag",
            f"the commit has {found}",
            f"{state.target}, as in VERSION and without a v, and no other version",
            f"Run git tag --sign {state.target}"
            + (f" and git tag --delete {' '.join(others)}." if others else "."),
        )


def _names_another(tag: str, target: str) -> bool:
    version = versions.parse(tag.removeprefix("v"))
    return version is not None and version.full != target


def _changelog(state: State) -> Iterator[Reason]:
    section = changelog.find(state.changes_text, state.target)
    if section is None:
        yield Reason(
            changelog.NAME,
            f"nothing is said of {state.target}",
            f"## {state.target} (YYYY-MM-DD)",
            "Write what changes for users.",
        )
        return
    if not section.is_released:
        yield Reason(
            changelog.NAME,
            f"{state.target} has no date of release but ({section.state})",
            f"## {state.target} (YYYY-MM-DD)",
            "Set the date.",
        )
    if not section.text:
        yield Reason(
            changelog.NAME,
            f"the section {state.target} is empty",
            "a line for each change",
            "Write what changes for users.",
        )


def _key(state: State) -> Iterator[Reason]:
    if not state.signing_key:
        yield Reason(
            "SIGNING_KEY",
            "not set, a development key would sign",
            "fingerprints of release keys",
            "Set it in .env.",
        )
    elif state.key_problem:
        yield Reason(
            "SIGNING_KEY",
            state.key_problem,
            "keys that can sign here",
            "Import their secret parts or plug in the card.",
        )


def _locks(state: State) -> Iterator[Reason]:
    if state.lock_policy != STRICT:
        yield Reason(
            "LOCK_POLICY",
            f"{state.lock_policy}: packages that are not locked would be taken",
            STRICT,
            f"Set LOCK_POLICY={STRICT} or SIGNING_KEY, which implies it.",
        )
    for problem in state.lock_problems:
        yield Reason(
            "locks", problem, "what the pins want", "Run ./doit.sh lock, review and commit it."
        )
    if state.base_image:
        yield Reason(
            "BASE_IMAGE",
            f"{state.base_image}, whose packages are not locked",
            "our own base",
            "Unset it.",
        )


def _vulnerabilities(state: State) -> Iterator[Reason]:
    for record in state.table.refused:
        yield Reason(
            f"buildchain/pins/vulnerabilities.toml: {record.id} of {record.component}",
            f"open, level {record.level}, without a reason",
            f"nothing open above {state.table.accepts}",
            "Close it, or say in accepted why a release may have it.",
        )


def _previous(state: State) -> Iterator[Reason]:
    if state.previous is not None:
        yield from _older(state, "--previous", state.previous)


def _bases(state: State) -> Iterator[Reason]:
    versions_seen: dict[str, str] = {}
    for base in state.bases:
        yield from _older(state, "--update-from", base)
        other = versions_seen.setdefault(base.version, base.path) if base.version else base.path
        if other != base.path:
            what = f"it is {base.version}, as {other}"
            yield Reason(f"--update-from {base.path}", what, "each version once", "Name it once.")


def _older(state: State, option: str, previous: Previous) -> Iterator[Reason]:
    where = f"{option} {previous.path}"
    if previous.problem:
        yield Reason(where, previous.problem, "the ISO of an older release", "Name that.")
    elif previous.product != state.product:
        what = f"it is of {previous.product}"
        yield Reason(where, what, f"an ISO of {state.product}", "Name that.")
    elif versions.order(previous.version) >= versions.order(state.target):
        what = f"its version is {previous.version}"
        yield Reason(where, what, f"one older than {state.target}", "Name an older release.")


CHECKS: tuple[Callable[[State], Iterator[Reason]], ...] = (
    *(_version, _checkout, _tag, _changelog, _key, _locks, _vulnerabilities, _previous, _bases),
)
