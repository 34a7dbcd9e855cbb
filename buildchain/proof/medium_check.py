"""One look at one medium: what there is, what is wanted by whom, and what is wrong so far."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from buildchain.images import registry
from buildchain.medium.contents import Contents
from buildchain.proof.states import VERSIONS, Wanted


@dataclass
class Check:
    """One look at one medium.

    :param declared: images that nothing has to refer to, as ``name:version``, with the reason.
    :param given: packages that machines of a family have without us.
    """

    contents: Contents
    declared: Mapping[str, str]
    given: Mapping[str, Collection[str]]
    wanted: Wanted = field(default_factory=Wanted)
    problems: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = self.contents.paths()
        self._texts: dict[str, str | None] = {}
        self._folders = {
            path[:end] for path in self.paths for end, sign in enumerate(path) if sign == "/"
        }

    def text(self, path: str) -> str | None:
        """Return a file's text, ``None`` when there is no such file."""
        if path not in self._texts:
            is_there = path in self.paths
            found = self.contents.read(path).decode(errors="replace") if is_there else None
            self._texts[path] = found
        return self._texts[path]

    def want(self, path: str, who: str) -> None:
        """Say that something wants a file."""
        self.wanted.files[path].add(who)

    def problem(self, text: str) -> None:
        """Take note of a sentence."""
        self.problems[text] = None

    def python(self, path: str) -> ast.Module | None:
        """Return a Python file, parsed."""
        text = self.text(path)
        try:
            return None if text is None else ast.parse(text)
        except SyntaxError as error:
            self.problem(f"{path} is no Python: {error}")
            return None

    def is_folder(self, path: str) -> bool:
        """Tell whether something is below a path."""
        return path in self._folders


@dataclass(frozen=True)
class Versions:
    """What ``versions.json`` says.

    :param packages: family to name to version.
    :param has_foreign_rpms: there are RPMs of other people, and keys they are signed by.
    """

    metalk8s: str
    kubernetes: str
    images: Mapping[str, str]
    packages: Mapping[str, Mapping[str, str]]
    has_foreign_rpms: bool = False

    @property
    def mount(self) -> str:
        return f"{registry.MOUNTS}/{registry.place(self.metalk8s)}"


def versions(check: Check) -> Versions:
    """Read ``versions.json``; what is wrong with it is a problem."""
    try:
        document = json.loads(check.text(VERSIONS) or "{}")
        return Versions(
            document.get("metalk8s", {}).get("version", "unknown"),
            document.get("kubernetes", {}).get("version", ""),
            {name: entry["version"] for name, entry in document.get("images", {}).items()},
            {
                family: {
                    name: "-".join(entry[key] for key in ("version", "release") if key in entry)
                    for name, entry in entries.items()
                }
                for family, entries in document.get("packages", {}).items()
            },
            any(document.get("signing_keys", {}).get("redhat", {}).values()),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        check.problem(f"{VERSIONS} does not say what it should: {error!r}")
        return Versions("unknown", "", {}, {})


def some(origins: Collection[str]) -> str:
    """Return the first of some names, and how many more there are."""
    first, *others = sorted(origins)
    return f"{first} (and {len(others)} more)" if others else first
