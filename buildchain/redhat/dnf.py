"""dnf with a private state: the given repositories, an empty root, nothing of the machine.

Programs: the Python of ``dnf`` with :mod:`buildchain.redhat.dnf_solver`. Requests and answers are
JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildchain.core.errors import BuildError, FetchError, SigningError
from buildchain.project.model import RedhatFile, RedhatRepository

SOLVER = Path(__file__).with_name("dnf_solver.py")
OURS, THEIRS = 1, 99  # dnf's default; the lowest wins
ARCHITECTURE = "x86_64"
FAILED_REPOSITORY = re.compile(
    r"Failed to download metadata for repo '(?P<name>[^']+)': (?P<why>.+)"
)
FAILED_SIGNATURE = re.compile(r"GPG signature verification error|repomd\.xml\.asc")
PROBLEM = re.compile(r"^ *Problem(?: \d+)?: +")
# What libsolv says first, and what every install request says; neither tells a reason.
SAID_ANYWAY = ("conflicting requests", "cannot install the best candidate for the job")


@dataclass(frozen=True)
class Answer:
    """What the solver says on one line.

    :param progress: packages downloaded, and how many there are.
    """

    progress: tuple[int, int] | None = None
    packages: tuple[RedhatFile, ...] = ()
    problem: Mapping[str, Any] | None = None


def parse_interpreter(script: str) -> list[str]:
    """Return the interpreter of a script, words apart; empty when it has none."""
    first = script.partition("\n")[0]
    return first[2:].split() if first.startswith("#!") else []


def argv_for_solver(interpreter: Sequence[str], request: Path) -> list[str | Path]:
    """Answer a request. The interpreter is dnf's: the project's own has no dnf to import."""
    return [*interpreter, "-I", "-B", SOLVER, request]


def request(
    state: Path,
    release: str,
    repositories: Iterable[RedhatRepository],
    ours: RedhatRepository | None,
    **more: object,
) -> str:
    """Return a request as JSON.

    :param state: folder for metadata and an empty root.
    :param release: major version of EL.
    :param ours: repository whose packages go before those of the same name elsewhere.
    :param more: ``minimal`` and ``wanted`` (names) to solve, or ``exactly`` (packages) and
        ``folder`` to download.
    """
    entries = [(repository, THEIRS) for repository in repositories]
    entries += [(ours, OURS)] if ours else []
    document = {
        "state": str(state),
        "release": release,
        "architecture": ARCHITECTURE,
        "repositories": [
            {
                "name": repository.name,
                "url": repository.url,
                "key": str(repository.key.absolute()),
                "is_signed": repository.is_signed,
                "priority": priority,
            }
            for repository, priority in entries
        ],
        **more,
    }
    return json.dumps(document, indent=1, default=dataclasses.asdict)


def parse_answer(line: str) -> Answer | None:
    """Read a line of the solver; ``None`` for what libraries print."""
    try:
        document = json.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    if "progress" in document:
        done, total = document["progress"]
        return Answer(progress=(done, total))
    if "packages" in document:
        files = (RedhatFile(**package) for package in document["packages"])
        return Answer(packages=tuple(sorted(files, key=lambda f: (f.name, f.revision))))
    return Answer(problem=document["problem"])


def error(
    problem: Mapping[str, Any], purpose: str, repositories: Iterable[RedhatRepository]
) -> BuildError:
    """Put what the solver refused into words.

    :param purpose: what the packages are for.
    """
    known = {repository.name: repository for repository in repositories}
    searched = ", ".join(known)
    match problem["kind"]:
        case "repository":
            return _repository_error(problem["text"], known)
        case "missing":
            return FetchError(
                f"no package {', '.join(problem['names'])} in the repositories {searched} "
                f"(for {purpose})",
                solution="Correct the name in the profile's pins, or add the repository that has "
                "it.",
            )
        case "architecture":
            listed = ", ".join(f"{n} ({', '.join(a)})" for n, a in problem["packages"].items())
            return FetchError(
                f"packages for {purpose} are not for {ARCHITECTURE}: {listed}",
                solution=f"Add a repository for {ARCHITECTURE} that has them to the profile's "
                "pins.",
            )
        case "unsolvable":
            return FetchError(
                f"packages for {purpose} cannot be installed: {solver_reasons(problem['text'])}",
                solution="Add the repository that has what is missing, or correct the names, in "
                "the profile's pins.",
            )
        case "download":
            reason = one_line(problem["text"])
            return FetchError(
                f"packages for {purpose} cannot be downloaded from the repository "
                f"{problem['repository']}: {reason} (of {', '.join(problem['names'])})",
                solution="Check the network and the repositories in the profile's pins, then run "
                "the same again.",
            )
        case "checksum":
            return FetchError(
                f"repository {problem['repository']} gives no SHA-256 for {problem['package']}",
                solution="Use a mirror with SHA-256 metadata.",
            )
        case "elsewhere":
            return FetchError(
                f"repository {problem['repository']} redirects package downloads to "
                f"{problem['url']}",
                solution="Add that place as a repository of its own to the profile's pins.",
            )
        case _:
            raise ValueError(problem)


def _repository_error(text: str, known: Mapping[str, RedhatRepository]) -> BuildError:
    match = FAILED_REPOSITORY.search(one_line(text))
    name, why = (match["name"], match["why"]) if match else (", ".join(known), one_line(text))
    repository = known.get(name)
    place = f"{name} ({repository.url})" if repository else name
    if repository and FAILED_SIGNATURE.search(why):
        return SigningError(
            f"metadata of the repository {place} are not signed with {repository.key}: {why}",
            solution="Check that this is the repository you mean and that its key in the pins is "
            "current.",
        )
    return FetchError(
        f"repository {place} cannot be read: {why}",
        solution="Check the network and the address of the repository in the profile's pins, then "
        "run the same again.",
    )


def solver_reasons(text: str) -> str:
    """Return the reasons in dnf's list of problems as one sentence, without repetitions."""
    reasons = []
    for line in text.splitlines():
        reason = PROBLEM.sub("", line).strip().removeprefix("- ")
        if reason and reason not in SAID_ANYWAY:
            reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons)) or one_line(text)


def one_line(text: str) -> str:
    """Return a message without line breaks."""
    return " ".join(text.split())
