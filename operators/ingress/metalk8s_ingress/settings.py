"""What the program is told, on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Everything that is not read of the cluster.

    :param action: ``configure``: write a first configuration; ``watch``: keep it up to date.
    :param controller: which IngressClasses are ours.
    :param service: ``namespace/name`` of the Service whose endpoints are these pods.
    :param plane: ``workload`` or ``control``: at which address of its machine HAProxy listens.
    :param node: the machine of this pod.
    :param folder: with the files of HAProxy, and its sockets.
    :param http: port without TLS; 0: none.
    :param https: port with TLS.
    :param metrics: port of loopback for health and metrics of HAProxy.
    :param health: port of loopback for those of this program.
    :param closed: ports of machines that are for machines only.
    :param namespaces: whose Ingresses are taken; without any, all.
    :param fallback: ``namespace/name`` of the Secret for hosts without a certificate.
    :param connections: that HAProxy has at a time.
    :param pause: seconds between two reloads.
    :param poll: seconds after which a Secret is read again.
    """

    action: str
    api: str
    controller: str
    service: str
    plane: str
    node: str
    folder: Path
    http: int
    https: int
    metrics: int
    health: int
    closed: tuple[int, ...]
    namespaces: tuple[str, ...]
    fallback: str
    connections: int
    pause: float
    poll: float
    header: str

    @property
    def worker(self) -> Path:
        """Where the HAProxy that takes requests is told what to do."""
        return self.folder / "worker.sock"

    @property
    def master(self) -> Path:
        """Where the one that starts it is."""
        return self.folder / "master.sock"

    @property
    def versions(self) -> Path:
        """Where versions of the files are."""
        return self.folder / "files"

    @property
    def current(self) -> Path:
        """Link to the files that hold."""
        return self.versions / "current"

    @property
    def own_certificate(self) -> Path:
        """A certificate and key of this pod's own, for hosts without one."""
        return self.folder / "own.pem"


def read(arguments: Sequence[str]) -> Settings:
    """Read a command line.

    :raises SystemExit: it is not understood; says so.
    """
    parser = argparse.ArgumentParser(prog="metalk8s-ingress", description=__doc__)
    parser.add_argument("action", choices=("configure", "watch"))
    parser.add_argument("--api", default="", help="https://host:port of the API server")
    parser.add_argument("--controller", required=True, help="of the IngressClasses that are ours")
    parser.add_argument("--service", required=True, help="namespace/name of our own Service")
    parser.add_argument("--plane", choices=("workload", "control"), required=True)
    parser.add_argument("--node", default="", help="the machine of this pod")
    parser.add_argument("--folder", type=Path, default=Path("/run/metalk8s-ingress"))
    parser.add_argument("--http", type=int, default=0, help="port without TLS")
    parser.add_argument("--https", type=int, required=True, help="port with TLS")
    parser.add_argument("--metrics", type=int, required=True, help="port, health of HAProxy")
    parser.add_argument("--health", type=int, required=True, help="port, health of this program")
    parser.add_argument("--closed", type=int, action="append", default=[],
                        help="port that is for machines only; may be repeated")  # fmt: skip
    parser.add_argument("--namespace", action="append", default=[], dest="namespaces",
                        help="whose Ingresses are taken; may be repeated")  # fmt: skip
    parser.add_argument("--fallback", required=True, help="namespace/name of a Secret")
    parser.add_argument("--connections", type=int, default=8000)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between reloads")
    parser.add_argument("--poll", type=float, default=30.0, help="seconds between looks at Secrets")
    parser.add_argument("--header", default="", help="first line of what is written")
    found = vars(parser.parse_args(arguments))
    lists = {key: tuple(found[key]) for key in ("closed", "namespaces")}
    return Settings(**{**found, **lists})
