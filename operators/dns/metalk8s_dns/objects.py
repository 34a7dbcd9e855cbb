"""What is kept of Services, Endpoints and Pods: what names depend on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from metalk8s_dns.names import address

Address = IPv4Address | IPv6Address
HEADLESS = "None"
# Of a pod that has ended, another may have the address.
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Port:
    """A port of a Service or of its endpoints.

    :param protocol: ``tcp``, ``udp`` or ``sctp``.
    """

    name: str
    protocol: str
    number: int


@dataclass(frozen=True)
class Service:
    """A Service.

    :param addresses: of its own; none when it is headless.
    :param external: the name it stands for (``ExternalName``), or empty.
    :param shows_unready: ``publishNotReadyAddresses``.
    """

    namespace: str
    name: str
    addresses: tuple[Address, ...]
    is_headless: bool
    external: str
    ports: tuple[Port, ...]
    shows_unready: bool


@dataclass(frozen=True)
class Endpoint:
    """An address behind a Service.

    :param hostname: its own, or empty.
    """

    address: Address
    hostname: str
    is_ready: bool
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Pod:
    """A pod that has addresses."""

    namespace: str
    addresses: tuple[Address, ...]


def service(item: dict[str, Any]) -> Service | None:
    """Read a Service; ``None`` while it has no address yet."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    external = ""
    if spec.get("type") == "ExternalName":
        external = str(spec.get("externalName") or "").lower().removesuffix(".")
    own = spec.get("clusterIPs") or [spec.get("clusterIP")]
    is_headless = not external and own[0] == HEADLESS
    addresses = () if external or is_headless else _addresses(own)
    if not (external or is_headless or addresses):
        return None
    return Service(
        str(metadata["namespace"]),
        str(metadata["name"]),
        addresses,
        is_headless,
        external,
        _ports(spec.get("ports")),
        bool(spec.get("publishNotReadyAddresses")),
    )


def endpoints(item: dict[str, Any]) -> tuple[Endpoint, ...] | None:
    """Read Endpoints; ``None`` when there are none."""
    found = []
    for subset in item.get("subsets") or []:
        ports = _ports(subset.get("ports"))
        for key, is_ready in (("addresses", True), ("notReadyAddresses", False)):
            for entry in subset.get(key) or []:
                one = address(str(entry.get("ip")))
                if one is not None:
                    hostname = str(entry.get("hostname") or "").lower()
                    found.append(Endpoint(one, hostname, is_ready, ports))
    return tuple(found) or None


def pod(item: dict[str, Any]) -> Pod | None:
    """Read a Pod; ``None`` while it has no address, and when it has ended."""
    status = item.get("status") or {}
    if status.get("phase") in ENDED:
        return None
    told = [status.get("podIP"), *(entry.get("ip") for entry in status.get("podIPs") or [])]
    addresses = tuple(dict.fromkeys(_addresses(told)))
    return Pod(str(item["metadata"]["namespace"]), addresses) if addresses else None


def _addresses(texts: list[Any]) -> tuple[Address, ...]:
    return tuple(one for text in texts if (one := address(str(text))) is not None)


def _ports(entries: list[dict[str, Any]] | None) -> tuple[Port, ...]:
    return tuple(
        Port(
            str(entry.get("name") or "").lower(),
            str(entry.get("protocol") or "TCP").lower(),
            int(entry["port"]),
        )
        for entry in entries or []
    )
