"""Argument lists of the Python tools that keep this project in order.

Programs: ``pip``, ``pip-compile``, ``pytest``, ``ruff``, ``mypy``, all of one environment.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.errors import PinError

# The system's Python of every supported OS, whatever runs the build; newest glibc: EL 8's.
TARGET_PYTHON = "3.11"
TARGET_GLIBC = 28
WHEELS_ONLY = (
    "--only-binary=:all:",
    f"--python-version={TARGET_PYTHON}",
    "--implementation=cp",
    *(f"--abi={abi}" for abi in (f"cp{TARGET_PYTHON.replace('.', '')}", "abi3", "none")),
    *(f"--platform=manylinux_2_{minor}_x86_64" for minor in range(TARGET_GLIBC, 4, -1)),
    *(f"--platform=manylinux{old}_x86_64" for old in ("2014", "2010", "1")),
)
SOURCES_ONLY = ("--no-binary=:all:", "--no-build-isolation")


OUTCOME = "(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
# <test> <outcome> [ <done>/<total>]
RESULT = re.compile(rf".*\b{OUTCOME}(?: \(.*)? +\[ *(\d+)/(\d+)\]")
# Of several processes: [gw<number>] [ <done>/<total>] <outcome> <test>
RESULT_OF_MANY = re.compile(rf"\[gw\d+\] +\[ *(\d+)/(\d+)\] {OUTCOME} .*")
# Several processes also tell what they begin with.
BEGUN = re.compile(r"\S+\.py::.* ")


@dataclass(frozen=True)
class Result:
    """A test that ended, how many have, and how many there are."""

    outcome: str
    done: int
    total: int


def argv_for_installation(python: Path, lock: Path) -> list[str | Path]:
    """Install exactly what a hashed requirements file names.

    It names everything, so pip looks for no dependencies. For one with extras, it would take the
    newest version of the index before it saw the pinned one, and refuse it for want of a hash.
    """
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps",
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
    """Run tests, one line each, which :func:`parse_result` reads."""
    return [python, "-m", "pytest", "-v", "--no-header", "--color=no",
            "-o", "console_output_style=count", *options, *paths]  # fmt: skip


def parse_result(line: str) -> Result | None:
    """Return what a line of pytest says of a test, ``None`` when it says something else."""
    if match := RESULT_OF_MANY.fullmatch(line):
        return Result(match[3], int(match[1]), int(match[2]))
    match = RESULT.fullmatch(line)
    return Result(match[1], int(match[2]), int(match[3])) if match else None


def is_begun(line: str) -> bool:
    """Tell whether a line of pytest says only that a test begins."""
    return bool(BEGUN.fullmatch(f"{line.rstrip()} ")) and parse_result(line) is None


def requirements(files: Mapping[str, str]) -> str:
    """Return a hashed requirements file for distributions.

    :param files: file name to SHA-256.
    :raises PinError: a name is none of a distribution.
    """
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    lines = []
    for file, digest in sorted(files.items()):
        try:
            parse = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
            name, version, *_ = parse(file)
        except (InvalidSdistFilename, InvalidWheelFilename) as error:
            raise PinError(f"{file}: {error}", solution="Correct the list.") from error
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    return "".join(lines)


def argv_for_download(
    python: Path, lock: Path, folder: Path, options: Sequence[str]
) -> list[str | Path]:
    """Download exactly what a hashed requirements file names."""
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps",
            "--require-hashes", *options, "--dest", folder, "--requirement", lock]  # fmt: skip


def interpreter() -> Path:
    """Return the Python this build runs in."""
    return Path(sys.executable)
