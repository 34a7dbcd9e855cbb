"""What is to be in the kernel of a machine: plain values, compared whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

MAIN = 254  # the table of routes that every packet is looked up in


@dataclass(frozen=True, order=True)
class Route:
    """A way to a network, as ``ip route`` writes it.

    :param via: the next machine; empty with ``unreachable``.
    :param source: address that packets of this machine itself get, or empty.
    """

    destination: str
    table: int = MAIN
    kind: str = "unicast"
    via: str = ""
    device: str = ""
    onlink: bool = False
    source: str = ""


@dataclass(frozen=True, order=True)
class Rule:
    """From whom packets are looked up in another table first."""

    source: str
    table: int
    preference: int


@dataclass(frozen=True)
class Tunnel:
    """The device that packs packets into VXLAN.

    :param address: its own, in the range of this machine's pods.
    :param local: from which of the machine's addresses it sends.
    """

    id: int
    port: int
    hardware: str
    mtu: int
    address: str
    local: str


@dataclass(frozen=True, order=True)
class End:
    """The other end of the tunnel.

    :param inner: address of its device.
    :param outer: address of the machine.
    """

    inner: str
    hardware: str
    outer: str


@dataclass(frozen=True)
class Packets:
    """What the packet filter has to know.

    :param machines: addresses of all machines.
    :param tunnel: port of UDP and interface of the tunnel, where there is one.
    """

    pods: IPv4Network
    machines: frozenset[IPv4Address]
    tunnel: tuple[int, str] | None = None


@dataclass(frozen=True)
class Wanted:
    """All of it, and what the container engine is told.

    :param ranges: of this machine's pods.
    :param mtu: bytes that a packet of a pod may have.
    """

    packets: Packets
    ranges: tuple[IPv4Network, ...]
    mtu: int
    routes: frozenset[Route] = field(default_factory=frozenset)
    rules: frozenset[Rule] = field(default_factory=frozenset)
    tunnel: Tunnel | None = None
    ends: frozenset[End] = field(default_factory=frozenset)
