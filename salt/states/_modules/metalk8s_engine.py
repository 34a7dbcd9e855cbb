"""How to reach the container engine of this machine, by its own configuration."""

from __future__ import annotations

import pathlib
import tomllib

CONFIGURATION = pathlib.Path("/etc/containerd/config.toml")
SOCKET = "/run/containerd/containerd.sock"  # containerd's own
NAMESPACE = "k8s.io"  # of what the kubelet runs


def command() -> list[str]:
    """Give the start of every call of ``ctr``: whom it asks, and about which containers."""
    return ["ctr", "--address", socket(), "--namespace", NAMESPACE]


def socket() -> str:
    """Give the socket that the engine listens on."""
    try:
        configured = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
    except OSError:
        return SOCKET
    return str(configured.get("grpc", {}).get("address") or SOCKET)
