"""What every ring of tests shares: outside programs, real or faked, and where things are."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Runs before the script of a fake: keeps what it was called with, one Python literal a line. Fakes
# are started by the thousand; to import json would take as long again as to start.
RECORDER = """\
#!{python} -{flags}
import os, sys
argv = sys.argv[1:]
with open({calls!r}, "a") as stream:
    call = {{"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}}
    stream.write(ascii(call) + "\\n")
"""


def _require(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        message = f"{tool} is not installed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def require() -> Callable[[str], str]:
    """Return the path of a real program; without it the test is skipped, in CI it fails."""
    return _require


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the checkout."""
    return ROOT


class Programs:
    """Executables in a folder that comes first on PATH.

    Calling it adds one: ``script`` is Python and finds its arguments in ``argv``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def __call__(
        self, name: str, script: str = "", *, output: str = "", status: int = 0, site: bool = False
    ) -> Path:
        # An absolute name would lead out of the folder, onto the machine's own program.
        assert PurePath(name).name == name, f"{name} is no name of a program"
        path = self.folder / name
        calls = str(self.folder / f".{name}.calls")
        flags = "I" if site else "IS"
        text = RECORDER.format(python=sys.executable, flags=flags, calls=calls) + script
        text += f"\nsys.stdout.write({output!r})\nsys.exit({status})\n"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def records(self, name: str) -> list[dict]:
        """Return the calls of a program: ``argv``, ``cwd`` and ``env``."""
        path = self.folder / f".{name}.calls"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [ast.literal_eval(line) for line in text.splitlines()]

    def calls(self, name: str) -> list[list[str]]:
        """Return the arguments of each call of a program."""
        return [record["argv"] for record in self.records(name)]

    def forget(self) -> None:
        """Forget every call."""
        for path in self.folder.glob(".*.calls"):
            path.unlink()


@pytest.fixture(scope="session")
def programs_class() -> type[Programs]:
    """Return the class of ``fake_program``, for fixtures that live longer than a test."""
    return Programs


@pytest.fixture
def fake_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Provide fakes of outside programs, first on PATH."""
    programs = Programs(tmp_path / "fake-bin")
    monkeypatch.setenv("PATH", f"{programs.folder}{os.pathsep}{os.environ['PATH']}")
    return programs
