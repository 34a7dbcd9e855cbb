"""A copy of the project that a test may spoil, and its real ``./doit.sh``."""

import hashlib
import os
import shutil
import subprocess
import sys

from tests.conftest import ROOT

COPIED = ("buildchain", "images", "operators", "packages", "salt", "static-container-registry")
FILES = ("VERSION", "doit.sh", "dodo.py", "pyproject.toml", "requirements.txt", ".env.example")
LOCKS = ("requirements.in", "requirements-dev.in", "requirements-dev.txt")


class Checkout:
    """A copy of the project, its ``./doit.sh``, and a home that has a file of the user's."""

    def __init__(self, folder):
        self.folder, self.home = folder / "checkout", folder / "home"
        self.outside = folder / "outside"
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.folder / name, symlinks=True, ignore=ignored)
        for name in (*FILES, *LOCKS):
            shutil.copy2(ROOT / name, self.folder)
        (self.folder / ".venv" / "bin").mkdir(parents=True)
        shutil.copy2(ROOT / "requirements.txt", self.folder / ".venv" / "installed")
        python = self.folder / ".venv" / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        for path in (self.home, self.outside):
            path.mkdir()
            (path / "thesis.txt").write_text("years of work")
        (folder / "file").write_text("a file")
        (folder / "nowhere").symlink_to(folder / "gone")
        (folder / "circle").symlink_to(folder / "circle")
        (folder / "to-packages").symlink_to(self.folder / "packages")
        (folder / "to-home").symlink_to(self.home)
        (folder / "to-outside").symlink_to(self.outside)
        # What a build of this checkout would take for its own, so that `clean` removes it.
        (self.folder / "receipts").mkdir()
        (self.folder / "receipts" / "x.json").write_text(
            '{"outputs": {"VERSION": {"sha256": "", "size": 1, "mode": "644"}}, "facts": {}}'
        )
        self.parent = folder

    def env(self, **more):
        settings = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            # Outside the compared tree; without bytecode, each run would compile the whole project.
            "PYTHONPYCACHEPREFIX": f"{self.parent}-bytecode",
            "BUILD_ROOT": str(self.parent / "b"),
            "CACHE_ROOT": str(self.parent / "c"),
            **more,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def doit(self, *arguments, **environment):
        """Run it to its end; a variable that is ``None`` is not set."""
        return subprocess.run(
            [self.folder / "doit.sh", *arguments],
            env=self.env(**environment),
            cwd=self.parent,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def state(self):
        """Return every file and folder with its mode and digest."""
        found = {}
        for path in sorted(self.parent.rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (status.st_mode, hashlib.sha256(content).hexdigest())
        return found

    def value(self, text):
        return text.replace("{checkout}", str(self.folder)).replace("{parent}", str(self.parent))
