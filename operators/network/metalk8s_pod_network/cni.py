"""What the container engine is told of the network of pods: a CNI configuration.

``ptp`` gives each pod a cable to the machine, so that every packet of a pod is routed, also that to
a pod beside it. The engine reads the file again when it is another one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from metalk8s_pod_network.settings import Settings
from metalk8s_pod_network.wanted import Wanted

VERSION = "0.3.1"
MODE = 0o644


def render(settings: Settings, wanted: Wanted) -> str:
    """Return the configuration for this machine."""
    document = {
        "generated": settings.header,
        "cniVersion": VERSION,
        "name": settings.network,
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "mtu": wanted.mtu,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(range_)}] for range_ in wanted.ranges],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def write(path: Path, text: str) -> bool:
    """Let a file hold a text, whole or as before; tell whether that was new."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    # The engine reads what ends in .conflist.
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.chmod(MODE)
    partial.replace(path)
    return True
