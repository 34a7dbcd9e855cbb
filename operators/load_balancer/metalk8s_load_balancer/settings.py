"""What the programs are told, on their command lines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from metalk8s_load_balancer.allocation import Reserved


@dataclass(frozen=True)
class Settings:
    """Everything that is not read of the cluster or of the machine.

    :param action: ``allocate`` or ``speak``.
    :param node: name of this machine's Node; of a copy of the allocator, its own name.
    :param reserved: what no Service gets, besides addresses of machines.
    :param networks: of the workload plane.
    :param namespace: of the Lease that says which allocator writes.
    :param folder: for keepalived's configuration; outlives the pod, not the machine's power.
    :param kube_proxy: where it says that it works, or empty: nobody is asked.
    :param passwords: folder with those of BGP, each in a file.
    :param header: first line of what is written.
    """

    action: str
    api: str
    node: str
    health_port: int
    reserved: Reserved
    networks: tuple[IPv4Network, ...]
    namespace: str
    folder: Path
    kube_proxy: str
    passwords: Path
    header: str


def read(arguments: Sequence[str]) -> Settings:
    """Read a command line.

    :raises SystemExit: it is not understood; says so.
    """
    parser = argparse.ArgumentParser(prog="metalk8s-load-balancer", description=__doc__)
    parser.add_argument("action", choices=("allocate", "speak"))
    parser.add_argument("--api", required=True, help="https://host:port of the API server")
    parser.add_argument("--node", required=True, help="name of this machine's Node, or of this pod")
    parser.add_argument("--health-port", required=True, type=int)
    parser.add_argument("--reserved-address", action="append", type=IPv4Address, default=[],
                        help="that no Service gets; may be repeated")  # fmt: skip
    parser.add_argument("--reserved-network", action="append", type=IPv4Network, default=[],
                        help="of pods, of Services; may be repeated")  # fmt: skip
    parser.add_argument("--reserved-router", action="append", type=int, default=[],
                        help="number of a virtual router of somebody else")  # fmt: skip
    parser.add_argument("--network", action="append", type=IPv4Network, default=[],
                        help="of the workload plane; may be repeated")  # fmt: skip
    parser.add_argument("--namespace", default="kube-system")
    parser.add_argument("--folder", type=Path, default=Path("/run/metalk8s-load-balancer"))
    parser.add_argument("--kube-proxy", default="", help="URL that says whether it works")
    parser.add_argument("--passwords", type=Path, default=Path("/etc/metalk8s-load-balancer/bgp"))
    parser.add_argument("--header", default="", help="first line of what is written")
    found = parser.parse_args(arguments)
    return Settings(
        action=found.action,
        api=found.api,
        node=found.node,
        health_port=found.health_port,
        reserved=Reserved(
            frozenset(found.reserved_address),
            tuple(found.reserved_network),
            frozenset(found.reserved_router),
        ),
        networks=tuple(found.network),
        namespace=found.namespace,
        folder=found.folder,
        kube_proxy=found.kube_proxy,
        passwords=found.passwords,
        header=found.header,
    )
