"""What the program is told, on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

# Of our routes and rules, in the kernel: nobody else uses the number (iproute2's rt_protos).
PROTOCOL = 107
# Of the routes for packets from this machine's pods only, and the place of the rule that says so.
TABLE, PREFERENCE = 107, 10700
DEVICE = "metalk8s.vxlan"
OVERHEAD = 50  # bytes of VXLAN around a packet: Ethernet 14, IPv4 20, UDP 8, VXLAN 8


@dataclass(frozen=True)
class Settings:
    """Everything that is not read of the cluster or of the machine.

    :param node: name of this machine's Node.
    :param pods: network that all pods are in.
    :param machines: networks that machines of the cluster may be in.
    :param cni: file to write for the container engine.
    :param network: its name there.
    :param header: sentence that opens it.
    :param sandboxes: folder in which the container engine notes who has which address.
    """

    api: str
    node: str
    pods: IPv4Network
    machines: tuple[IPv4Network, ...]
    vxlan_id: int
    vxlan_port: int
    health_port: int
    cni: Path
    network: str
    header: str
    sandboxes: Path


def read(arguments: Sequence[str]) -> Settings:
    """Read a command line.

    :raises SystemExit: it is not understood; says so.
    """
    parser = argparse.ArgumentParser(prog="metalk8s-pod-network", description=__doc__)
    parser.add_argument("--api", required=True, help="https://host:port of the API server")
    parser.add_argument("--node", required=True, help="name of this machine's Node")
    parser.add_argument("--pods", required=True, type=IPv4Network, help="network of all pods")
    parser.add_argument("--machines", required=True, action="append", type=IPv4Network,
                        help="network that machines may be in; may be repeated")  # fmt: skip
    parser.add_argument("--vxlan-id", required=True, type=int)
    parser.add_argument("--vxlan-port", required=True, type=int)
    parser.add_argument("--health-port", required=True, type=int)
    parser.add_argument("--cni", required=True, type=Path, help="CNI configuration to write")
    parser.add_argument("--network", required=True, help="name of the network in it")
    parser.add_argument("--sandboxes", required=True, type=Path,
                        help="folder of what CNI plugins have given to whom")  # fmt: skip
    parser.add_argument("--header", default="", help="first line of it")
    found = vars(parser.parse_args(arguments))
    return Settings(**{**found, "machines": tuple(found["machines"])})
