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
    :param plane: ``workload`` or ``control``: at which addresses of machines we are reached.
    :param node: the machine of this pod.
    :param folder: with the files of HAProxy, and its sockets.
    :param http: address and port where HAProxy listens without TLS; empty: nowhere.
    :param https: the same with TLS.
    :param http_port: what is known outside.
    :param metrics: address and port for health and metrics of HAProxy.
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
    http: str
    https: str
    http_port: int
    https_port: int
    metrics: str
    health: str
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
    def current(self) -> Path:
        """Link to the files that hold."""
        return self.folder / "current"

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
    parser.add_argument("--http", default="", help="address:port without TLS")
    parser.add_argument("--https", required=True, help="address:port with TLS")
    parser.add_argument("--http-port", type=int, default=80, help="what is known outside")
    parser.add_argument("--https-port", type=int, default=443, help="what is known outside")
    parser.add_argument("--metrics", required=True, help="address:port, health of HAProxy")
    parser.add_argument("--health", required=True, help="address:port, health of this program")
    parser.add_argument("--fallback", required=True, help="namespace/name of a Secret")
    parser.add_argument("--connections", type=int, default=8000)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between reloads")
    parser.add_argument("--poll", type=float, default=30.0, help="seconds between looks at Secrets")
    parser.add_argument("--header", default="", help="first line of what is written")
    return Settings(**vars(parser.parse_args(arguments)))
