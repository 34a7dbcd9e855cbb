"""What the program is told, on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path

from metalk8s_dns import names


@dataclass(frozen=True)
class Site:
    """Names that servers of the site know.

    :param zone: absolute.
    """

    zone: str
    servers: tuple[IPv4Address | IPv6Address, ...]


@dataclass(frozen=True)
class Settings:
    """Everything that is not read of the cluster or of the machine.

    :param action: ``configure``: write the configuration; ``watch``: feed Knot.
    :param domain: of the cluster, absolute.
    :param server: address that pods ask.
    :param networks: of Services and of pods.
    :param authority: folder with the configuration of Knot, its socket and what it stores.
    :param cache: folder with the configuration of Unbound.
    :param authority_port: where Knot listens, on loopback.
    :param cache_port: where Unbound listens.
    :param resolvers: file that names the resolvers of the machine.
    """

    action: str
    api: str
    domain: str
    server: IPv4Address
    networks: tuple[IPv4Network, ...]
    authority: Path
    cache: Path
    authority_port: int
    cache_port: int
    health_port: int
    resolvers: Path
    sites: tuple[Site, ...]
    header: str

    @property
    def socket(self) -> Path:
        """Where Knot is told what to do."""
        return self.authority / "knot.sock"

    @property
    def cache_socket(self) -> Path:
        """Where Unbound is told what to forget."""
        return self.cache / "unbound.sock"

    @property
    def reverse_zones(self) -> tuple[str, ...]:
        """The zones of all networks, each once."""
        found = [zone for network in self.networks for zone in names.reverse_zones(network)]
        # A zone within another of ours would hide its names.
        zones = frozenset(found)
        return tuple(
            zone
            for zone in dict.fromkeys(found)
            if not names.zone_of(zone.partition(".")[2], zones)
        )


def read(arguments: Sequence[str]) -> Settings:
    """Read a command line.

    :raises SystemExit: it is not understood; says so.
    """
    parser = argparse.ArgumentParser(prog="metalk8s-dns", description=__doc__)
    parser.add_argument("action", choices=("configure", "watch"))
    parser.add_argument("--api", default="", help="https://host:port of the API server")
    parser.add_argument("--domain", required=True, type=_name, help="domain of the cluster")
    parser.add_argument("--server", required=True, type=IPv4Address, help="address pods ask")
    parser.add_argument("--network", required=True, action="append", type=IPv4Network,
                        dest="networks", help="of Services, of pods; may be repeated")  # fmt: skip
    parser.add_argument("--authority", type=Path, default=Path("/run/metalk8s-dns/authority"))
    parser.add_argument("--cache", type=Path, default=Path("/run/metalk8s-dns/cache"))
    parser.add_argument("--authority-port", type=int, required=True)
    parser.add_argument("--cache-port", type=int, required=True)
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--resolvers", type=Path, default=Path("/etc/resolv.conf"))
    parser.add_argument("--site", action="append", type=_site, dest="sites", default=[],
                        help="zone=address,address: who knows it; may be repeated")  # fmt: skip
    parser.add_argument("--header", default="", help="first line of what is written")
    found = vars(parser.parse_args(arguments))
    lists = {key: tuple(found[key]) for key in ("networks", "sites")}
    return Settings(**{**found, **lists})


def _name(text: str) -> str:
    name = f"{text.lower().removesuffix('.')}."
    if not names.is_valid(name):
        raise argparse.ArgumentTypeError(f"{text} is no name")
    return name


def _site(text: str) -> Site:
    zone, _, servers = text.partition("=")
    try:
        return Site(_name(zone), tuple(map(ip_address, servers.split(","))))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error
