"""How long the planner and the pillar take for a cluster of a thousand machines.

Usage: ``python -m tests.bench.plan [--machines 1000] [--rounds 9]``. Nobody else plans this, so the
limits are seconds: whoever calls a plan waits for it, and so does every minion for its pillar.
Facts come as the runner reads them, Node objects as JSON, and the plan leaves as it goes into the
journal.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from typing import Any

from tests.bench.verdict import at_most, seconds
from tests.unit.salt.loader import load

TARGET = 1.0  # second, for one plan from text to text
PILLAR_TARGET = 2.0  # seconds, for the pillar of one minion out of the text
IMAGES = 50  # that a kubelet names in its Node, as many as it does at most
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
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": f"10.0.{number >> 8}.{number & 255}"}],
            "images": [{"names": [f"registry/image@sha256:{n:064}"]} for n in range(IMAGES)],
        },
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
            for one in machines:
                del one["address"]
            found = plan.planned({"machines": machines, "members": members}, action, name)
            assert found["problems"] == []
            steps = len(json.loads(json.dumps(found))["steps"])

        taken = [seconds(once) for _ in range(options.rounds)]
        print(f"{action:8}{statistics.median(taken):8.3f} s, {steps} steps")
        slowest = max(slowest, statistics.median(taken))
    pillar = _pillar(text, options.rounds)
    print(f"pillar  {pillar:8.3f} s")
    met = [
        at_most("seconds for a plan", slowest, TARGET),
        at_most("seconds for a pillar", pillar, PILLAR_TARGET),
    ]
    return 0 if all(met) else 1


def _pillar(text: str, rounds: int) -> float:
    """Return the median of seconds that the pillar of a minion takes."""
    salt = {"metalk8s_kubernetes.list_objects": lambda *_, **__: json.loads(text)}
    module = load("_pillar/metalk8s_nodes", salt=salt)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = pathlib.Path(folder, "kubeconfig")
        kubeconfig.touch()
        kept = f"{folder}/nodes.json"
        taken = [
            seconds(lambda: module.ext_pillar("m", {}, str(kubeconfig), kept))
            for _ in range(rounds)
        ]
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit(main())
