"""Argument lists of the Python tools that keep this project in order.

Programs: ``pip``, ``pip-compile``, ``pytest``, ``ruff``, ``mypy``, all of one environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def argv_for_installation(python: Path, lock: Path) -> list[str | Path]:
    """Install exactly what a hashed requirements file names."""
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
            "--require-hashes", "--requirement", lock]  # fmt: skip


def argv_for_environment(python: Path, interpreter: Path, folder: Path) -> list[str | Path]:
    """Make an empty virtual environment for another interpreter.

    Copies, not links: it is also used on machines that have the same Python at the same place.
    """
    return [python, "-m", "virtualenv", "--quiet", "--clear", "--copies", "--no-download",
            "--python", interpreter, folder]  # fmt: skip


def argv_for_lock(python: Path, source: Path, lock: Path) -> list[str | Path]:
    """Resolve requirements to exact versions and hashes; no index's address gets into the file."""
    return [python, "-m", "piptools", "compile", "--quiet", "--upgrade", "--generate-hashes",
            "--allow-unsafe", "--strip-extras", "--no-header", "--no-emit-index-url",
            "--no-emit-find-links", "--no-emit-trusted-host", "--output-file", lock,
            source]  # fmt: skip


def argv_for_tests(python: Path, paths: Sequence[str], *options: str) -> list[str | Path]:
    """Run tests."""
    return [python, "-m", "pytest", "-q", "--color=no", *options, *paths]
