"""Whom chrony asks, told to it while it runs: a restart would forget what it has measured."""

from __future__ import annotations

import subprocess
from typing import Any


def sources_loaded(name: str, addresses: list[str]) -> dict[str, Any]:
    """Let chrony read its sources anew when it asks others than these.

    What it asks decides, not what has just changed: a run that is killed in between is made up for.

    :param name: of the file that they are in.
    :param addresses: in it.
    """
    there = set(__salt__["metalk8s_clock.sources"]())
    if there == set(addresses):
        return _result(name, True, {}, "chrony asks whom it is to ask")
    changes = {"old": sorted(there), "new": sorted(addresses)}
    if __opts__["test"]:
        return _result(name, None, changes, "chrony would be told whom to ask")
    argv = ["chronyc", "reload", "sources"]
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    left = set(__salt__["metalk8s_clock.sources"]())
    if run.returncode or left != set(addresses):
        said = (run.stderr or run.stdout).strip()
        return _result(name, False, {}, f"chrony asks {sorted(left)}. It said: {said}")
    return _result(name, True, changes, "chrony was told whom to ask")


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
