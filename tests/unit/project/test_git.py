"""Argument lists of git."""

from pathlib import Path

import pytest

from buildchain.project import git


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            git.argv_for_describe("git", Path("/r")),
            ["git", "-C", Path("/r"), "describe", "--always", "--long", "--tags", "--dirty"],
        ),
        (
            git.argv_for_date("git", Path("/r")),
            ["git", "-C", Path("/r"), "log", "-1", "--format=%ct"],
        ),
        (
            git.argv_for_files("git", Path("/r"), "*.sh"),
            ["git", "-C", Path("/r"), "ls-files", "--cached", "--others", "--exclude-standard",
             "--", "*.sh"],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected
