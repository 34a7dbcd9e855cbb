"""What can go wrong that the user can put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Problem:
    """One thing in a tree that keeps an image from being served."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class RegistryError(Exception):
    """Base of all errors raised on purpose: what happened, and what to do next."""

    def __init__(self, reason: str, solution: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.solution = solution


class OptionError(RegistryError):
    """An option has a value that cannot be written into nginx configuration."""


class ToolError(RegistryError):
    """A program this one relies on is missing or refused to work."""


class TreeError(RegistryError):
    """A tree holds something that cannot be served; ``problems`` has every instance."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(str(problem) for problem in self.problems),
            "save the images named above again with `skopeo copy … dir:ROOT/<name>/<version>`, "
            "or remove them",
        )
