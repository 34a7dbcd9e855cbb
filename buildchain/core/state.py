"""What doit remembers between runs, written whole after every task.

doit saves its database when a run ends; a killed run would forget hours of work. The reporter asks
for a ``dump`` after each task, and this backend replaces the file in one rename.
"""

from __future__ import annotations

import os
from pathlib import Path

from doit.dependency import JsonDB

from buildchain.core import events


class WholeJsonDB(JsonDB):  # type: ignore[misc]
    """doit's JSON database, never seen half-written."""

    _changed = False
    _is_frozen = False

    def freeze(self) -> None:
        """Leave the file as it is from now on: it is another process's."""
        self._is_frozen = True

    def set(self, task_id: str, dependency: str, value: object) -> None:
        """Remember a value."""
        self._changed = True
        super().set(task_id, dependency, value)

    def remove(self, task_id: str) -> None:
        """Forget a task."""
        self._changed = True
        super().remove(task_id)

    def remove_all(self) -> None:
        """Forget everything."""
        self._changed = True
        super().remove_all()

    def dump(self) -> None:
        """Write everything beside the file and rename, if anything changed since the last time."""
        if self._is_frozen or not self._changed:
            # Whoever changed nothing must not write over what another process did change.
            return
        path = Path(self.name)
        beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(self.codec.encode(self._db), encoding="utf-8")
            beside.replace(path)
            self._changed = False
        except OSError as error:
            # A full disk has failed the build already; what was saved before still holds.
            events.note(f"cannot save {path}: {error.strerror}")
            beside.unlink(missing_ok=True)
