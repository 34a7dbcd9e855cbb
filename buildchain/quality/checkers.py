"""Checks of the project itself: linters, formatters, tests and the locks of its own tools.

Programs: ``ruff``, ``mypy``, ``yamllint``, ``pytest`` of the environment in ``.venv``;
``shellcheck``, ``gofmt``, ``operator-sdk`` of the machine; ``git`` names the files.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import BuildError, CommandError
from buildchain.machine import python
from buildchain.machine.python import interpreter
from buildchain.project import git

DEV_LOCK = "requirements-dev.txt"
SYSTEM_PYTHON = Path("/usr/bin/python3")
FOUND = "Correct what is listed above."
# What tests read of the caller's environment.
HANDED = re.compile(r"CI$|NO_COLOR$|METALK8S_")


def has_installed(environment: Path, lock: Path) -> bool:
    """Tell whether an environment holds what a lock names (a copy of the lock is its stamp)."""
    stamp = environment / lock.name
    return stamp.is_file() and filecmp.cmp(stamp, lock, shallow=False)


def install(environment: Path, lock: Path) -> None:
    """Install a lock into an existing environment and stamp it."""
    events.note(f"installing {lock.name} into {environment}")
    try:
        process.run(python.argv_for_installation(environment / "bin" / "python", lock))
    except CommandError as error:
        raise BuildError(
            f"the Python packages of {lock} cannot be installed",
            details=error.details,
            solution="Check the network and pip's configuration, then run it again.",
        ) from error
    shutil.copyfile(lock, environment / lock.name)


def make_environment(environment: Path, lock: Path) -> None:
    """Make an environment of the system's Python: what target machines have is what is tested."""
    process.run(python.argv_for_environment(interpreter(), SYSTEM_PYTHON, environment))
    install(environment, lock)


def files(git_binary: str, root: Path, *patterns: str) -> list[Path]:
    """Return the repository's files that match (tracked or new, ignored ones not)."""
    listed = process.run(git.argv_for_files(git_binary, root, *patterns)).splitlines()
    return [path for name in sorted(listed) if (path := root / name).is_file()]


def run_on(argv: Sequence[str], paths: Sequence[Path], *, root: Path) -> None:
    """Run a linter on files, its findings on the terminal; nothing to do without files."""
    if paths:
        relative = [path.relative_to(root) for path in paths]
        process.run([*argv, *relative], cwd=root, echo=True, solution=FOUND)


def lint_python(root: Path) -> None:
    """Run ruff (rules and format) and mypy."""
    module = [str(interpreter()), "-m"]
    for tool in (["ruff", "check", "--no-cache"], ["ruff", "format", "--check", "--no-cache"]):
        process.run([*module, *tool, "."], cwd=root, echo=True, solution=FOUND)
    process.run([*module, "mypy"], cwd=root, echo=True, solution=FOUND)
    for folder in (root / "static-container-registry", *programs(root)):
        process.run([*module, "mypy"], cwd=folder, echo=True, solution=FOUND)


def programs(root: Path) -> list[Path]:
    """Return the folders of our programs that run in the cluster, each a project of its own."""
    return sorted(path.parent for path in root.glob("operators/*/pyproject.toml"))


def format_python(root: Path) -> None:
    """Let ruff correct and lay out the Python code."""
    module = [str(interpreter()), "-m", "ruff"]
    process.run([*module, "check", "--fix", "--quiet", "."], cwd=root, echo=True)
    process.run([*module, "format", "."], cwd=root, echo=True)


def is_shell(path: Path) -> bool:
    """Tell whether a file is a POSIX shell or bash script, by name or first line."""
    if path.suffix == ".sh":
        return True
    with path.open("rb") as stream:
        first = stream.readline(64)
    return first.startswith(b"#!") and first.split(b"/")[-1].strip() in (
        b"sh",
        b"bash",
        b"env bash",
    )


def lint_go(gofmt: str, paths: Sequence[Path], *, root: Path) -> None:
    """Check that Go code is laid out as gofmt does.

    :raises BuildError: naming the files that are not.
    """
    if not paths:
        return
    relative = [path.relative_to(root) for path in paths]
    wrong = process.run([gofmt, "-l", *relative], cwd=root).split()
    if wrong:
        raise BuildError(f"not formatted: {', '.join(wrong)}", solution="Run ./doit.sh format:go.")


def operators(root: Path) -> list[Path]:
    """Return the folders of operators written in Go with the Operator SDK."""
    return sorted(path.parent.parent for path in root.glob("images/*/deploy/operator.yaml"))


def generate_operators(operator_sdk: str, root: Path) -> None:
    """Generate the code and manifests of Go operators."""
    for folder in operators(root):
        events.note(f"generating code of {folder.relative_to(root)}")
        for what in ("k8s", "crds"):
            process.run([operator_sdk, "generate", what], cwd=folder)


def run_tests(folder: Path, paths: Sequence[str], *options: str, env: dict[str, str]) -> None:
    """Run tests of a project folder, and tell how many of how many are done.

    Of the tests themselves those that fail are on the terminal as they do; the transcript has all.

    :raises CommandError: a test failed (or was skipped where ``CI`` forbids that).
    """
    argv = python.argv_for_tests(interpreter(), paths, *options)
    handed = {name: value for name, value in os.environ.items() if HANDED.match(name)}
    process.run(
        argv,
        cwd=folder,
        env={**handed, **env},
        echo=_is_worth_reading,
        on_line=_Tests(),
        solution=FOUND,
    )


def _is_worth_reading(line: str) -> bool:
    result = python.parse_result(line)
    if result is None:
        return not python.is_begun(line)
    return result.outcome in {"FAILED", "ERROR"}


class _Tests:
    """Counts the tests that ended, and those that failed."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, line: str) -> None:
        result = python.parse_result(line)
        if result is not None:
            self.failed += result.outcome in {"FAILED", "ERROR"}
            unit = f"tests, {self.failed} failed" if self.failed else "tests"
            events.progress("done", result.done, result.total, unit)


def interact(root: Path, module: str, words: Sequence[str], *, env: dict[str, str]) -> None:
    """Run a module of the project that has the terminal.

    :raises CommandError: it ended with a status other than 0.
    """
    process.hand_over([interpreter(), "-m", module, *words], cwd=root, env=env)


def run_module(root: Path, module: str, *, env: dict[str, str]) -> None:
    """Run a module of the project with its output on the terminal.

    :raises CommandError: it ended with a status other than 0.
    """
    process.run([interpreter(), "-m", module], cwd=root, env=env, echo=True, solution=FOUND)
