"""What the states take from a machine is what the agent has put there."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).parents[3]
AGENT = ROOT / "operators/network/metalk8s_pod_network"


def constants(module: str) -> dict[str, Any]:
    """Return what a module of the agent names, without running it."""
    found: dict[str, Any] = {}
    for node in ast.parse((AGENT / f"{module}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            pairs = zip(names, values, strict=True)
            found |= {n: v.value for n, v in pairs if isinstance(v, ast.Constant)}
    return found


def test_states_and_agent_mean_the_same() -> None:
    parameters = ROOT / "salt/states/metalk8s/parameters/defaults.yaml"
    network = yaml.safe_load(parameters.read_text(encoding="utf-8"))["pod_network"]
    settings, packets = constants("settings"), constants("packets")
    assert network["protocol"] == settings["PROTOCOL"]
    assert network["device"] == settings["DEVICE"]
    assert (packets["FAMILY"], network["table"]) == ("ip", packets["TABLE"])
    filters = constants("isolation/filters")
    assert (filters["FAMILY"], network["policies"]) == ("ip", filters["TABLE"])
    assert network["cni_file"].endswith(".conflist")
