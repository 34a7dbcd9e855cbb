"""What an orchestration is about: the machine that its caller names, and the plan for it."""

from __future__ import annotations

from typing import Any

USAGE = """pillar='{"orchestrate": {"node_name": "…"}}'"""


def planned(action: str) -> dict[str, Any]:
    """Plan an action for the machine that the pillar of the call names.

    :param action: ``deploy`` or ``remove``; a machine that is dead is removed as one when the
        pillar says so (``dead: true``).
    :return: ``node``, ``action``, and ``steps`` (``id``, ``title``, ``done``); without steps when
        there are problems, which beginning it tells.
    :raises ValueError: nobody is named.
    """
    asked = __pillar__.get("orchestrate") or {}
    node = str(asked.get("node_name") or "")
    if not node:
        raise ValueError(f"The orchestration is for no machine: name it with {USAGE}")
    if action == "remove" and asked.get("dead") is True:
        action = "remove_dead"
    found = __salt__["saltutil.runner"](
        "metalk8s_deploy.plan", kwarg={"node": node, "action": action}
    )
    return {"node": node, "action": action, "steps": found["steps"]}
