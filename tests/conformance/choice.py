"""Which of Kubernetes' own tests a cluster has to pass, and which it need not, and why.

``chosen.toml`` is data for runs, for the page in the manual, and for the tests of both.
``tests.txt`` has the names of all tests about networks that ``e2e.test`` knows, a line each.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).parent
CHOSEN, KNOWN = FOLDER / "chosen.toml", FOLDER / "tests.txt"
DOZEN = 12
# What cannot run beside other tests.
ALONE = re.compile(r"\[(Serial|Disruptive)\]")
# As in the regular expressions of Go (RE2), where a space is no special character.
SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


@dataclass(frozen=True)
class Choice:
    """What is run, and what is not.

    :param subjects: name of a group of tests to the pattern of their names.
    :param dozen: names of the tests that every run of CI has.
    :param excluded: name of each test that fits a pattern and is not run, to the reason.
    """

    subjects: Mapping[str, str]
    dozen: tuple[str, ...]
    excluded: Mapping[str, str]

    def covered(self, names: Iterable[str]) -> list[str]:
        """Return the tests that are about one of the subjects."""
        patterns = [re.compile(pattern) for pattern in self.subjects.values()]
        return [name for name in names if any(one.search(name) for one in patterns)]

    def whole(self, names: Iterable[str]) -> list[str]:
        """Return all tests that are to be run."""
        return [name for name in self.covered(names) if name not in self.excluded]

    def problems(self, names: Collection[str]) -> list[str]:
        """Tell where this does not fit the tests that there are."""
        covered, whole = self.covered(names), self.whole(names)
        found = [f"excluded, but of no subject: {n}" for n in self.excluded if n not in covered]
        found += [f"excluded without a reason: {n}" for n, why in self.excluded.items() if not why]
        found += [f"of the dozen, but not of the whole: {n}" for n in self.dozen if n not in whole]
        found += [f"cannot run beside others: {n}" for n in whole if ALONE.search(n)]
        if len(set(self.dozen)) != DOZEN:
            found.append(f"the dozen has {len(set(self.dozen))} tests")
        unused = [name for name, pattern in self.subjects.items() if not _fits(pattern, names)]
        return [*found, *(f"no test is about {name}" for name in unused)]


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(re.search(pattern, name) for name in names)


def read(path: pathlib.Path = CHOSEN) -> Choice:
    """Read what is chosen.

    :raises KeyError: a key is missing.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return Choice(
        {one["name"]: one["pattern"] for one in document["subjects"]},
        tuple(document["dozen"]),
        {name: one["reason"] for one in document.get("excluded", ()) for name in one["tests"]},
    )


def known(path: pathlib.Path = KNOWN) -> list[str]:
    """Return the names of all tests about networks."""
    return path.read_text(encoding="utf-8").splitlines()


def focus(names: Sequence[str]) -> str:
    """Return the pattern by which ginkgo runs exactly these tests."""
    escaped = [SPECIAL.sub(r"\\\1", name) for name in names]
    # ginkgo puts the name of the suite before that of the test.
    return f"({'|'.join(escaped)})$"
