"""Node objects: what their labels and conditions say."""

from __future__ import annotations

from typing import Any

import pytest

from .loader import load

NODES = load("_utils/metalk8s_nodes")
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
LABELS = {
    "node-role.kubernetes.io/master": "",
    "node-role.kubernetes.io/etcd": "",
    "node-role.kubernetes.io/control-plane": "",
    "metalk8s.scality.com/version": "2.4.0",
    "zone": "a",
}


@pytest.mark.parametrize(
    ("labels", "conditions", "spec", "expected"),
    [
        (LABELS, [READY], {}, (["etcd", "master"], "2.4.0", True, True, True)),
        (
            {},
            [{"type": "MemoryPressure", "status": "True"}, {**READY, "status": "False"}],
            {"unschedulable": True},
            (["node"], "", True, False, False),
        ),
        (
            None,
            [{**READY, "status": "Unknown", "reason": "NodeStatusNeverUpdated"}],
            None,
            (["node"], "", False, False, True),
        ),
        (
            {"node-role.kubernetes.io/control-plane": ""},
            None,
            {},
            (["node"], "", False, False, True),
        ),
    ],
)
def test_described(labels: Any, conditions: Any, spec: Any, expected: Any) -> None:
    """A manifest that was only applied is a Node without conditions, or with a controller's."""
    node = {
        "metadata": {"name": "n", "labels": labels},
        "spec": spec,
        "status": {"conditions": conditions},
    }
    found = NODES.described(node)
    fields = ("roles", "version", "is_deployed", "is_ready", "is_schedulable")
    assert tuple(found[field] for field in fields) == expected
    assert found["name"] == "n"
