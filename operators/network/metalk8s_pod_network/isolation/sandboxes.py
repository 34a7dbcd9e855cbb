"""Which pod of this machine has which address, as soon as there is a packet that could have it.

The API tells of a pod's address when its containers run. The container engine's library for CNI
writes down what a plugin gave to whom before they are started: one file for each sandbox. It is
there also while the API server is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMESPACE, NAME = "K8S_POD_NAMESPACE", "K8S_POD_NAME"


def read(folder: Path, network: str) -> dict[str, str]:
    """Return the pod, ``namespace/name``, by address; of two that say so, the newer counts.

    :param network: name in the CNI configuration.
    """
    found: list[tuple[float, str, str]] = []
    for path in folder.glob(f"{network}-*"):
        try:
            changed = path.stat().st_mtime
            document = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            continue  # gone, or not written to its end: its last word is still to come
        found += [(changed, address, pod) for address, pod in _addresses(document, network)]
    return {address: pod for _, address, pod in sorted(found)}


def _addresses(document: Mapping[str, Any], network: str) -> list[tuple[str, str]]:
    if not isinstance(document, dict) or document.get("networkName") != network:
        return []
    told = dict(document.get("cniArgs") or [])
    ips = (document.get("result") or {}).get("ips") or []
    pod = f"{told.get(NAMESPACE)}/{told.get(NAME)}"
    return [(str(one["address"]).partition("/")[0], pod) for one in ips]
