"""How long the planner takes for a cluster of a thousand machines.

Usage: ``python -m tests.bench.plan [--machines 1000] [--rounds 9]``. Nobody else plans this, so the
limit is seconds: whoever calls a plan waits for it. Facts come as the runner reads them, Node
objects as JSON, and the plan leaves as it goes into the journal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any

from tests.bench.verdict import at_most, seconds
from tests.unit.salt.loader import load

TARGET = 1.0  # second, for one plan from text to text
ROLES = {0: "bootstrap", 1: "master", 2: "master"}


def node(number: int) -> dict[str, Any]:
    """Make a Node as the API server gives it, most of what it says left aside."""
    labels = {
        f"node-role.kubernetes.io/{ROLES.get(number, 'node')}": "",
        "metalk8s.scality.com/version": "2.4.0",
    }
    if number < len(ROLES):
        labels["node-role.kubernetes.io/etcd"] = ""
    return {
        "metadata": {"name": f"machine-{number:05}", "labels": labels},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    nodes, plan = load("_utils/metalk8s_nodes"), load("_utils/metalk8s_plan")
    text = json.dumps([node(number) for number in range(options.machines)])
    members = [{"name": f"machine-{number:05}"} for number in ROLES]
    last, steps = f"machine-{options.machines - 1:05}", 0
    slowest = 0.0
    print(f"{options.machines} machines, medians of {options.rounds} rounds")
    for action, name in (("deploy", last), ("remove", "machine-00002")):

        def once(action: str = action, name: str = name) -> None:
            nonlocal steps
            machines = [nodes.described(one) for one in json.loads(text)]
            found = plan.planned({"machines": machines, "members": members}, action, name)
            assert found["problems"] == []
            steps = len(json.loads(json.dumps(found))["steps"])

        taken = [seconds(once) for _ in range(options.rounds)]
        print(f"{action:8}{statistics.median(taken):8.3f} s, {steps} steps")
        slowest = max(slowest, statistics.median(taken))
    return 0 if at_most("seconds for a plan", slowest, TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
