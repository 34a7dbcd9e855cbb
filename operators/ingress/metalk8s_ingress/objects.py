"""What is kept of the API's objects. Nothing in here judges: what an Ingress says is still raw."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

PREFIX = "ingress.metalk8s.scality.com/"
LEGACY_CLASS = "kubernetes.io/ingress.class"
DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
WORKLOAD_ADDRESS = "metalk8s.scality.com/workload-address"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Reference(NamedTuple):
    """A Service's port, by number or by name; ``problem`` says why it is none."""

    service: str
    port: int | str
    problem: str = ""


class Path(NamedTuple):
    """Where requests go whose path fits."""

    path: str
    kind: str
    backend: Reference


class Rule(NamedTuple):
    """Paths of a host; without one, of all."""

    host: str
    paths: tuple[Path, ...]


class Tls(NamedTuple):
    """Hosts, and the name of the Secret with their certificate."""

    hosts: tuple[str, ...]
    secret: str


@dataclass(frozen=True)
class Ingress:
    """Of an Ingress, all but its status.

    :param created: as the API writes it, so that it sorts.
    :param class_name: what its annotation says, or else its field; ``None``: nothing.
    :param choices: annotations with our prefix, without it.
    """

    namespace: str
    name: str
    uid: str
    created: str
    class_name: str | None
    choices: tuple[tuple[str, str], ...]
    default: Reference | None
    rules: tuple[Rule, ...]
    tls: tuple[Tls, ...]

    @property
    def key(self) -> str:
        """What it is called everywhere."""
        return f"{self.namespace}/{self.name}"

    @property
    def age(self) -> tuple[str, str, str]:
        """By which the older one comes first."""
        return self.created, self.namespace, self.name


class IngressClass(NamedTuple):
    """Who looks after its Ingresses, and whether those without a class are its own."""

    controller: str
    is_default: bool


class Port(NamedTuple):
    """A port of a Service, or of what is behind it."""

    name: str
    number: int


class Service(NamedTuple):
    """A Service's ports of TCP."""

    kind: str
    ports: tuple[Port, ...]


class Subset(NamedTuple):
    """Addresses that are ready, each with its Node, and their ports of TCP."""

    addresses: tuple[tuple[str, str], ...]
    ports: tuple[Port, ...]


class Node(NamedTuple):
    """A machine's addresses; empty: none that is one."""

    workload: str
    control: str

    def at(self, plane: str) -> str:
        """Return its address in a plane."""
        return self.workload if plane == "workload" else self.control


def ingress(item: Mapping[str, Any]) -> Ingress:
    """Keep of an Ingress what it says."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    default = spec.get("defaultBackend")
    return Ingress(
        str(metadata["namespace"]),
        str(metadata["name"]),
        str(metadata.get("uid", "")),
        str(metadata.get("creationTimestamp", "")),
        annotations.get(LEGACY_CLASS, spec.get("ingressClassName")),
        tuple(
            sorted(
                (key.removeprefix(PREFIX), str(value))
                for key, value in annotations.items()
                if key.startswith(PREFIX)
            )
        ),
        _reference(default) if default else None,
        tuple(map(_rule, spec.get("rules") or [])),
        tuple(
            Tls(tuple(map(str, entry.get("hosts") or [])), str(entry.get("secretName") or ""))
            for entry in spec.get("tls") or []
        ),
    )


@dataclass(frozen=True)
class Status:
    """Of an Ingress, what its status says.

    :param version: another one after each change of anything of the Ingress.
    :param addresses: where it is reached.
    """

    version: str = ""
    addresses: tuple[str, ...] = ()


def status(item: Mapping[str, Any]) -> Status:
    """Keep of an Ingress its status."""
    balancer = (item.get("status") or {}).get("loadBalancer") or {}
    return Status(
        str(item["metadata"].get("resourceVersion") or ""),
        tuple(str(one.get("ip") or "") for one in balancer.get("ingress") or []),
    )


def ingress_class(item: Mapping[str, Any]) -> IngressClass:
    """Keep of an IngressClass whose it is."""
    annotations = item["metadata"].get("annotations") or {}
    controller = (item.get("spec") or {}).get("controller") or ""
    return IngressClass(str(controller), annotations.get(DEFAULT_CLASS) == "true")


def service(item: Mapping[str, Any]) -> Service:
    """Keep of a Service its ports."""
    spec = item.get("spec") or {}
    return Service(str(spec.get("type") or "ClusterIP"), _ports(spec.get("ports")))


def endpoints(item: Mapping[str, Any]) -> tuple[Subset, ...]:
    """Keep of Endpoints who is ready, at addresses that another machine may have."""
    return tuple(
        Subset(
            tuple(
                (str(found), str(one.get("nodeName") or ""))
                for one in subset.get("addresses") or []
                if (found := _address(one.get("ip"))) is not None and _is_reachable(found)
            ),
            _ports(subset.get("ports")),
        )
        for subset in item.get("subsets") or []
    )


def node(item: Mapping[str, Any]) -> Node:
    """Keep of a Node its addresses.

    An annotation that is none does not let the other plane's address stand in: whoever may ask
    there is somebody else.
    """
    annotations = item["metadata"].get("annotations") or {}
    told = (item.get("status") or {}).get("addresses") or []
    internal = next((one.get("address") for one in told if one.get("type") == "InternalIP"), None)
    workload = _address(annotations.get(WORKLOAD_ADDRESS) or internal)
    return Node(str(workload or ""), str(_address(internal) or ""))


def _rule(entry: Mapping[str, Any]) -> Rule:
    paths = (entry.get("http") or {}).get("paths") or []
    return Rule(
        str(entry.get("host") or ""),
        tuple(
            Path(
                str(one.get("path") or "/"),
                str(one.get("pathType") or "ImplementationSpecific"),
                _reference(one.get("backend") or {}),
            )
            for one in paths
        ),
    )


def _reference(backend: Mapping[str, Any]) -> Reference:
    found = backend.get("service")
    if not found:
        return Reference("", 0, "a backend that is no Service is not supported")
    port = found.get("port") or {}
    return Reference(str(found.get("name") or ""), port.get("name") or int(port.get("number") or 0))


def _ports(entries: list[Mapping[str, Any]] | None) -> tuple[Port, ...]:
    return tuple(
        Port(str(entry.get("name") or ""), int(entry["port"]))
        for entry in entries or []
        if entry.get("protocol", "TCP") == "TCP"
    )


def _address(text: object) -> Address | None:
    """Return an address in the one form that is compared; ``None``: it is none.

    An IPv4 address in the form of IPv6 is the IPv4 address, for the kernel too.
    """
    try:
        found = ipaddress.ip_address(str(text))
    except ValueError:
        return None
    if found.version == 4:
        return found
    # What is after a "%" may be any text.
    return None if found.scope_id else found.ipv4_mapped or found


def _is_reachable(found: Address) -> bool:
    """Leave out what would be this machine or everybody, whoever wrote the Endpoints."""
    return not (
        found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified
    )
