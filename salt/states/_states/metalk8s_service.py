"""Services that read files only when they are started."""

from __future__ import annotations

import math
import pathlib
import subprocess
import time
from typing import Any


def renewed(name: str, files: list[str]) -> dict[str, Any]:
    """Restart a service that runs since before a file changed; one that does not is left alone.

    ``watch`` would forget the change when what applies it is killed in between.

    :param name: the unit.
    :param files: what the service reads when it starts.
    """
    since = started(name)
    newer = [file for file in files if since and _changed(file) > since]
    if not newer:
        return _result(name, True, {}, f"{name} is not older than what it reads")
    changes = {"newer": newer}
    if __opts__["test"]:
        return _result(name, None, changes, f"{name} would be restarted")
    if not __salt__["service.restart"](name):
        return _result(name, False, changes, f"{name} could not be restarted")
    return _result(name, True, changes, f"{name} was restarted")


def started(name: str) -> float:
    """Say when a service that runs was started, in seconds of the epoch; 0 when it does not run."""
    properties = ("--property=ActiveState", "--property=ExecMainStartTimestampMonotonic")
    argv = ["systemctl", "show", *properties, name]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in said.splitlines())
    if found["ActiveState"] != "active":
        return 0.0
    age = time.monotonic() - int(found["ExecMainStartTimestampMonotonic"]) / 1e6
    return time.time() - age


def _changed(file: str) -> float:
    """Say when a file changed; one that a run would only write now, later than anything."""
    path = pathlib.Path(file)
    return path.stat().st_mtime if path.exists() else math.inf


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
