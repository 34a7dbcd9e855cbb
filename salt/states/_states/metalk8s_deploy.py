"""Runs of the Salt master's runner ``metalk8s_deploy`` as states of an orchestration."""

from __future__ import annotations

from typing import Any


def begun(name: str, node: str, action: str) -> dict[str, Any]:
    """Have a run for a machine begun, or the one before gone on with.

    :param name: what it is, as people say it.
    """
    if __opts__["test"]:
        found = _run("plan", node=node, action=action)
    else:
        found = _run("begin", node=node, action=action)
    if found["problems"]:
        return _result(name, False, {}, ". ".join(found["problems"]))
    left = [one["title"] for one in found["steps"] if not one["done"]]
    comment = " ".join(
        [f"{len(left)} of {len(found['steps'])} steps are to be done", *found["warnings"]]
    )
    return _result(name, True, {}, comment)


def done(name: str, node: str, step: str) -> dict[str, Any]:
    """Have one step of the run done.

    :param name: what it does, as people say it.
    """
    if __opts__["test"]:
        return _result(name, None, {}, "It would be done")
    found = _run("step", node=node, id=step)
    if "failed" in found:
        return _result(name, False, {}, found["failed"])
    changes = {"changed": found["changed"]} if found["changed"] else {}
    return _result(name, True, changes, found["comment"])


def ended(name: str, node: str) -> dict[str, Any]:
    """Have nobody kept from beginning another run."""
    if __opts__["test"]:
        return _result(name, True, {}, "Nothing has begun")
    found = _run("end", node=node)
    return _result(name, found["left"] == 0, {}, found["comment"])


def _run(function: str, **options: Any) -> dict[str, Any]:
    said = __salt__["saltutil.runner"](
        f"metalk8s_deploy.{function}", kwarg=options, full_return=True
    )
    if not said.get("success", True):
        reason = str(said.get("return")).strip().splitlines()[-1]
        empty = {"steps": [], "warnings": [], "left": -1, "comment": reason}
        return {"problems": [reason], "failed": reason, **empty}
    found: dict[str, Any] = said["return"]
    return found


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
