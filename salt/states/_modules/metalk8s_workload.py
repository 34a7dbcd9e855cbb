"""Where others reach the pods of a machine that joins: its address in the workload plane."""

from __future__ import annotations

import ipaddress
import urllib.parse
from typing import Any

ANNOTATION = "metalk8s.scality.com/workload-address"


def choose(node: dict[str, Any], facts: dict[str, Any], networks: list[str]) -> dict[str, str]:
    """Find the address.

    What the operator says counts, then the address in the control plane when it is in the workload
    plane as well, then the only one that is.

    :param facts: of the machine, as ``metalk8s_survey`` reads them.
    :param networks: of the workload plane.
    :return: ``address``, and ``problem``, a sentence; one of them is empty.
    """
    annotations = node["metadata"].get("annotations") or {}
    said = str(annotations.get(ANNOTATION, ""))
    control = str(annotations.get("metalk8s.scality.com/ssh-host", ""))
    there = [one for one in facts["address"] if _is_in(one, networks)]
    plane = f"the workload plane ({', '.join(networks)})"
    remedy = f"Set the annotation {ANNOTATION} to one of: {', '.join(there)}."
    if not there:
        problem = f"it has no address in {plane}. Give it one: others reach its pods there."
        return {"address": "", "problem": problem}
    if said and said not in there:
        problem = f"annotation {ANNOTATION} is {said}, which is none of its addresses in {plane}."
        return {"address": "", "problem": f"{problem} {remedy}"}
    found = said or (control if control in there else "")
    if not found and len(there) > 1:
        return {"address": "", "problem": f"it has several addresses in {plane}. {remedy}"}
    return {"address": found or there[0], "problem": ""}


def announce(name: str, address: str) -> list[str]:
    """Write the address into the annotation of the Node; return what changed."""
    node = __salt__["metalk8s_kubernetes.get"]("v1", "Node", name) or {"metadata": {}}
    if (node["metadata"].get("annotations") or {}).get(ANNOTATION) == address:
        return []
    path = f"/api/v1/nodes/{urllib.parse.quote(name, safe='')}"
    body = {"metadata": {"annotations": {ANNOTATION: address}}}
    __salt__["metalk8s_kubernetes.call"]("PATCH", path, body)
    return [f"workload address of Node {name}"]


def _is_in(address: str, networks: list[str]) -> bool:
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(one in ipaddress.ip_network(network) for network in networks)
