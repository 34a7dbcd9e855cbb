"""The journal of runs: what was begun for which machine, what of it is done, and how it ended.

A ConfigMap: a key for each run, ``<when>-<action>-<machine>``, and JSON. A run has ``node``,
``action``, ``begun``, ``ended`` (empty while it is open), ``outcome``, ``saltenv``, ``machine`` (as
it was planned for) and ``steps``: those of the plan, each with the ``result`` of its last try
(``at``, ``seconds``, and ``changed`` with ``comment``, or ``failed``). Pure functions: who calls
them reads and writes the object.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

RUNS = 50
SIZE = 512 * 1024  # bytes of all runs; the API server takes twice as much
FRESH = 3600  # seconds in which what was done need not be done again
FORMAT = "%Y-%m-%dT%H:%M:%SZ"
REMEMBERED = ("id", "title", "result")  # of the steps of a run that has ended

Runs = dict[str, dict[str, Any]]


def read(document: dict[str, Any]) -> Runs:
    """Return the runs of a journal, the oldest first."""
    data = document.get("data") or {}
    return {key: json.loads(data[key]) for key in sorted(data)}


def written(document: dict[str, Any], runs: Runs) -> dict[str, Any]:
    """Return a journal with these runs: of those that ended, as many as it may have."""
    texts = {key: json.dumps(run, indent=1) for key, run in sorted(runs.items())}
    for key in [key for key in texts if runs[key]["ended"]]:
        if len(texts) <= RUNS and sum(map(len, texts.values())) <= SIZE:
            break
        del texts[key]
    return {**document, "data": texts}


def unfinished(runs: Runs) -> list[tuple[str, str]]:
    """Name machines and actions of runs that did not end."""
    return [(run["node"], run["action"]) for run in runs.values() if not run["ended"]]


def current(runs: Runs, node: str) -> str:
    """Return the key of the run of a machine that did not end, empty when there is none."""
    return next((key for key, run in runs.items() if run["node"] == node and not run["ended"]), "")


def past(runs: Runs, node: str, now: str) -> dict[str, Any] | None:
    """Return what a plan has to know of the run that did not end.

    Nothing counts as done when it lies back for long, or when a run of another machine began since
    then: what was applied may be another thing by now.
    """
    key = current(runs, node)
    if not key:
        return None
    run = runs[key]
    last = max([run["begun"], *(step["result"].get("at", "") for step in run["steps"])])
    is_fresh = key == max(runs) and (_time(now) - _time(last)).total_seconds() < FRESH
    return {
        "action": run["action"],
        "machine": run["machine"],
        "planned": [step["id"] for step in run["steps"]],
        "done": [step["id"] for step in run["steps"] if is_fresh and is_done(step)],
    }


def is_done(step: dict[str, Any]) -> bool:
    """Tell whether a step of a run was done well."""
    return "changed" in (step.get("result") or {})


def begin(runs: Runs, plan: dict[str, Any], run: dict[str, Any], now: str) -> str:
    """Begin a run, or go on with the one that did not end.

    :param plan: its steps, with what is done already.
    :param run: ``node``, ``action``, ``saltenv`` and ``machine``.
    :return: its key.
    """
    key = current(runs, run["node"])
    old: dict[str, Any] = {}
    if key and runs[key]["action"] == run["action"]:
        begun = runs[key]["begun"]
        old = {step["id"]: step.get("result") for step in runs.pop(key)["steps"]}
    else:
        begun = now
        if key:
            _close(runs[key], now, "given up")
    results = ({**step, "result": old.get(step["id"]) or {}} for step in plan["steps"])
    steps = [step if step["done"] else {**step, "result": {}} for step in results]
    if not any(is_done(step) for step in steps):
        begun = now
    key = f"{now.replace(':', '.')}-{run['action']}-{run['node']}"
    runs[key] = {**run, "begun": begun, "ended": "", "outcome": "", "steps": steps}
    return key


def note(runs: Runs, key: str, identity: str, result: dict[str, Any], now: str) -> None:
    """Write down how a step went; the run ends with the last one."""
    for step in runs[key]["steps"]:
        if step["id"] == identity:
            step["result"] = result
    if all(is_done(step) for step in runs[key]["steps"]):
        _close(runs[key], now, "whole")


def _close(run: dict[str, Any], now: str, outcome: str) -> None:
    run.update(ended=now, outcome=outcome)
    run["steps"] = [
        {name: step[name] for name in REMEMBERED if step.get(name)} for step in run["steps"]
    ]


def _time(stamp: str) -> datetime.datetime:
    return datetime.datetime.strptime(stamp, FORMAT)
