"""How the cluster is: one look at everything, by the Salt master. Changes nothing.

An API server that does not answer is a finding, and then only the minions that the Salt master
knows are asked.
"""

from __future__ import annotations

from typing import Any

import salt.key
from salt.exceptions import CommandExecutionError

STORING = {"bootstrap", "etcd"}


def report() -> dict[str, Any]:
    """Examine the cluster.

    :return: ``verdict`` (``fine``, ``warning``, ``error``), ``findings`` (``severity``,
        ``subject``, ``finding``, ``remedy``), ``facts`` that they come from.
    """
    facts, found = _examined()
    verdict = __utils__["metalk8s_doctor.verdict"](found)
    return {"verdict": verdict, "findings": found, "facts": facts}


def page() -> str:
    """Examine the cluster, and say it in words; the last line is ``Verdict: <verdict>``."""
    text: str = __utils__["metalk8s_doctor.page"](*_examined())
    return text


def _examined() -> tuple[dict[str, Any], list[dict[str, str]]]:
    facts: dict[str, Any] = {"machines": [], "members": [], "minions": {}}
    found = []
    try:
        nodes = __utils__["metalk8s_apiserver.call"]("list_objects", "v1", "Node")
        facts["machines"] = [_machine(node) for node in nodes]
        names = [one["name"] for one in facts["machines"] if one["is_deployed"]]
    except CommandExecutionError as error:
        remedy = "See to the masters, and to etcd."
        what = {"severity": "error", "subject": "API", "finding": str(error), "remedy": remedy}
        found.append(what)
        names = list(salt.key.get_key(__opts__).list_keys()["minions"])
    asked = __utils__["metalk8s_minions.ask_all"](sorted(names), "metalk8s_health.facts")
    facts["minions"] = {name: _known(said) for name, said in asked.items()}
    facts |= _members(facts["machines"] or [{"name": n, "roles": ["etcd"]} for n in names])
    return facts, found + __utils__["metalk8s_doctor.findings"](facts)


def _machine(node: dict[str, Any]) -> dict[str, Any]:
    conditions = (node.get("status") or {}).get("conditions") or []
    kinds = {one["type"]: one["status"] for one in conditions}
    return {**__utils__["metalk8s_nodes.described"](node), "conditions": kinds}


def _known(said: dict[str, Any]) -> dict[str, Any]:
    """Compare the clock of a machine with this one: its answer came about in between."""
    if "problem" in said:
        return {"problem": said["problem"]}
    middle = (said["after"] + said["before"]) / 2
    doubt = (said["before"] - said["after"]) / 2
    offset = said["answer"]["time"] - middle
    return {**said["answer"], "offset": round(offset, 2), "doubt": round(doubt, 2)}


def _members(machines: list[dict[str, Any]]) -> dict[str, Any]:
    problem = "No machine has etcd."
    storing = [one for one in machines if STORING & set(one["roles"])]
    # Who does not answer costs half a minute.
    for one in sorted(storing, key=lambda one: not one.get("is_ready", True)):
        ask = __utils__["metalk8s_minions.value"]
        try:
            return {"members": ask(one["name"], "metalk8s_etcd.status")}
        except CommandExecutionError as error:
            problem = str(error)
    return {"members": [], "members_problem": problem}
