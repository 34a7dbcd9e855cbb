"""All files of HAProxy in versions, of which one holds.

On disk: ``v<number>/`` with the files, and a link to the one that holds. HAProxy reads it by the
link whenever it starts, for whatever reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

# HAProxy is another account of the pod, of the same group. The files have private keys.
MODE, FOLDER_MODE = 0o640, 0o750


class Versions:
    """The folders.

    :param folder: made if need be. It is for its owner to change alone: where everybody may, the
        kernel lets no other account follow a link (``fs.protected_symlinks``).
    :param link: to the version that holds.
    """

    def __init__(self, folder: Path, link: Path) -> None:
        self._folder, self._link = folder, link
        _make(folder)

    def write(self, texts: Mapping[str, str]) -> Path:
        """Write a version that does not hold yet.

        :raises OSError: it cannot be written; nothing of it is left.
        """
        taken = [int(path.name[1:]) for path in self._folder.glob("v[0-9]*")]
        path = self._folder / f"v{max(taken, default=0) + 1}"
        try:
            _make(path)
            for name, text in texts.items():
                _write(path / name, text)
        except OSError:
            self.drop(path)  # it has keys, and the memory would be full after some more
            raise
        return path

    def hold(self, path: Path) -> None:
        """Let a version be the one that holds, at once, and drop all others."""
        partial = self._folder / "next"
        partial.unlink(missing_ok=True)
        partial.symlink_to(path.name)
        partial.replace(self._link)
        for other in self._folder.glob("v[0-9]*"):
            if other != path:
                self.drop(other)

    def drop(self, path: Path) -> None:
        """Forget a version."""
        shutil.rmtree(path, ignore_errors=True)


def _write(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w") as to:
        to.write(text)
    file.chmod(MODE)


def _make(folder: Path) -> None:
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    folder.chmod(FOLDER_MODE | folder.stat().st_mode & 0o2000)  # whatever the umask
