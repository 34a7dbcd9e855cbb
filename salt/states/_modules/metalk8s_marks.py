"""Labels, annotations and taints that a node has from us, beside those of others.

What a node got is recorded in an annotation of its own, so that it can be taken back.
"""

from __future__ import annotations

import json
from typing import Any

RECORD = "metalk8s.scality.com/marks"


def plan(
    node: dict[str, Any],
    labels: dict[str, str],
    annotations: dict[str, str],
    taints: list[dict[str, str]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare a node with what it shall be.

    :param node: as the API describes it.
    :return: what changes (``labels``, ``annotations`` and ``taints`` that are missing, and as
        ``removed`` the names of those that are too much), and the JSON merge patch that does it;
        both empty when nothing changes. The patch is for this state of the node alone.
    """
    ours = {
        "labels": sorted(labels),
        "annotations": sorted(annotations),
        "taints": sorted(map(_name, taints)),
    }
    metadata = node["metadata"]
    there = {part: metadata.get(part) or {} for part in ("labels", "annotations")}
    recorded = json.loads(there["annotations"].get(RECORD, "{}"))
    record = {part: recorded.get(part, []) for part in ours}
    notes = annotations if record == ours else {**annotations, RECORD: json.dumps(ours)}
    present = node.get("spec", {}).get("taints") or []
    missing = {
        "labels": _other(labels, there["labels"]),
        "annotations": _other(notes, there["annotations"]),
        "taints": [taint for taint in taints if taint not in map(_wanted, present)],
    }
    names = {**there, "taints": [_name(taint) for taint in present]}
    removed = {
        part: sorted(set(record[part]).difference(ours[part]).intersection(names[part]))
        for part in ours
    }
    changes: dict[str, Any] = {part: values for part, values in missing.items() if values}
    if gone := {part: values for part, values in removed.items() if values}:
        changes["removed"] = gone
    if not changes:
        return {}, {}
    # Who changed the node since it was read gets no answer from this patch but a conflict.
    patch: dict[str, Any] = {"metadata": {"resourceVersion": metadata["resourceVersion"]}}
    for part in there:
        patch["metadata"][part] = {**missing[part], **dict.fromkeys(removed[part])}
    if missing["taints"] or removed["taints"]:
        # The API has them as one list and merges nothing: the patch says all of them.
        known = {*ours["taints"], *removed["taints"]}
        patch["spec"] = {"taints": [t for t in present if _name(t) not in known] + taints}
    return changes, patch


def _other(wanted: dict[str, str], there: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}


def _wanted(taint: dict[str, str]) -> dict[str, str]:
    """Leave out when the API server saw a taint first, which nobody asks for."""
    return {key: value for key, value in taint.items() if key != "timeAdded"}


def _name(taint: dict[str, str]) -> str:
    """Name a taint as kubectl does: a node has one of a key and an effect, whatever its value."""
    return f"{taint['key']}:{taint['effect']}"
