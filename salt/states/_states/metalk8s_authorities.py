"""Keys and certificates of authorities: made once, and missed ever after."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

REMEDY = (
    "Everything that they signed counts on them: restore them from a backup, with their owners and "
    "modes. To begin anew with others, apply metalk8s.authorities.absent first."
)


def intact(name: str, pairs: list[dict[str, str]]) -> dict[str, Any]:
    """Refuse to go on when something that was made here before is gone.

    :param name: the record of what was made, JSON: a list of paths.
    :param pairs: ``key``, and ``public``, what only that key can have made: a certificate, or the
        public half. A public one without its key is as good as a record.
    """
    made = set(_record(name))
    for pair in pairs:
        if pathlib.Path(pair["public"]).exists():
            made.add(pair["key"])
    lost = sorted(path for path in made if not pathlib.Path(path).exists())
    if lost:
        return _result(name, False, {}, f"Lost: {', '.join(lost)}. {REMEDY}")
    return _result(name, True, {}, "Nothing that was made before is lost")


def recorded(name: str, files: list[str]) -> dict[str, Any]:
    """Remember what was made.

    :param name: the record.
    :param files: what is there by now, and has to be from now on.
    """
    before = _record(name)
    new = sorted({*before, *files} - set(before))
    if not new:
        return _result(name, True, {}, "All of them were made before")
    if __opts__["test"]:
        return _result(name, None, {"made": new}, f"{', '.join(new)} would be recorded")
    path = pathlib.Path(name)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as stream:
        os.fchmod(stream.fileno(), 0o644)  # whatever the umask
        json.dump(sorted({*before, *files}), stream, indent=1)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    return _result(name, True, {"made": new}, f"{', '.join(new)} were made")


def _record(name: str) -> list[str]:
    path = pathlib.Path(name)
    paths: list[str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return paths


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
