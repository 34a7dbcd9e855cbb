"""Compile the pillar of machines with Salt itself; run in the Python that has it.

Request (JSON on stdin): ``pillar`` (folder), ``saltenv``, ``scratch``, ``machines``: name → the id
that the machine claims in its grains. Answer: name → its pillar.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import salt.config

import salt.pillar


def compiled(request: dict[str, Any], name: str, claimed: str) -> dict[str, Any]:
    """Return what the master gives to a minion whose key it knows by a name."""
    options: dict[str, Any] = salt.config.master_config(None)
    grains = {"id": claimed, "path": "/usr/bin"}
    options.update(
        pillar_roots={request["saltenv"]: [request["pillar"]]},
        file_roots={request["saltenv"]: []},
        cachedir=request["scratch"],
        root_dir=request["scratch"],
        grains=grains,
        file_client="local",
        saltenv=request["saltenv"],
        pillarenv=request["saltenv"],
    )
    pillar = salt.pillar.Pillar(
        options, grains, name, request["saltenv"], pillarenv=request["saltenv"]
    )
    found: dict[str, Any] = pillar.compile_pillar()
    return found


def main() -> None:
    """Answer the request."""
    request = json.load(sys.stdin)
    answer = {
        name: compiled(request, name, claimed) for name, claimed in request["machines"].items()
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
