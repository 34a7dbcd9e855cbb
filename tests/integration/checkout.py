"""A copy of the project that a test may spoil, and its real ``./doit.sh``."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

# The first lines of a BuildError and of the remedy below it.
ERROR = re.compile(r"^(\w+Error): (.+)$", re.MULTILINE)
REMEDY = re.compile(r"^  What to do: .+$", re.MULTILINE)


class Checkout:
    """A copy of the project that a test may spoil."""

    def __init__(self, folder: pathlib.Path, cache: pathlib.Path) -> None:
        self.folder, self.cache = folder, cache
        self.environment = {"BUILD_ROOT": "_build", "CACHE_ROOT": str(cache)}

    def command(self, *arguments: str, prefix: tuple[str, ...] = ()) -> list[str]:
        return [*prefix, str(self.folder / "doit.sh"), *arguments]

    def env(self, **more: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("METALK8S")
        }
        return {**kept, **self.environment, **more}

    def doit(
        self, *arguments: str, prefix: tuple[str, ...] = (), **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``./doit.sh``; output and errors together, as on a terminal."""
        return subprocess.run(
            self.command(*arguments, prefix=prefix),
            env=self.env(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )

    def fails(self, *arguments: str, prefix: tuple[str, ...] = (), **more: str) -> str:
        """Run it, insist on one error with a remedy and no traceback, and return what it said."""
        done = self.doit(*arguments, prefix=prefix, **more)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        assert len(ERROR.findall(done.stdout)) == 1, done.stdout
        assert len(REMEDY.findall(done.stdout)) == 1, done.stdout
        return done.stdout

    def succeeds(self, *arguments: str, **more: str) -> str:
        done = self.doit(*arguments, **more)
        assert done.returncode == 0, done.stdout
        return done.stdout
