"""The bootstrap configuration: what its keys mean, and everything that is wrong with a file of it.

The reference for who writes one is docs/reference/bootstrap-configuration.md.
"""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from metalk8s_bootstrap.document import Field, Reader, Value, expect, mapping, texts
from metalk8s_bootstrap.problems import Problem

API_VERSION = "metalk8s.scality.com/v1alpha2"
KIND = "BootstrapConfiguration"
PODS, SERVICES = "10.233.0.0/16", "10.96.0.0/12"
# A Kubernetes name: RFC 1123, lower case.
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = re.compile(rf"{LABEL}(\.{LABEL})*")
NAME_LENGTH = 63
# Prefix lengths: each node gets a /24 of the pods' network; /12 is the API server's most.
POD_PREFIXES, SERVICE_PREFIXES = (8, 23), (12, 28)
# VRRP's field; keepalived cuts off what is longer, and other characters mean something to it.
PASSWORD = re.compile(r"[A-Za-z0-9._-]{1,8}")
CIDR_REMEDY = "Write it as address/prefix, such as 10.50.0.0/24."


@dataclass(frozen=True)
class Network:
    """A network and where the configuration says it (line 0: a default)."""

    key: str
    line: int
    cidr: ipaddress.IPv4Network

    def __str__(self) -> str:
        return f"{self.key} ({self.cidr})"


@dataclass(frozen=True)
class Keepalived:
    """A VIP that moves between control-plane machines."""

    enabled: bool = False
    router: int = 1
    password: str = ""


@dataclass(frozen=True)
class Configuration:
    """What the operator wants; complete, defaults filled in.

    :param lines: dotted key to the line it is in.
    """

    path: Path
    control_plane: tuple[Network, ...] = ()
    workload_plane: tuple[Network, ...] = ()
    pods: Network | None = None
    services: Network | None = None
    minion: str = ""
    host: ipaddress.IPv4Address | None = None
    keepalived: Keepalived = Keepalived()
    archives: tuple[str, ...] = ()
    time_servers: tuple[ipaddress.IPv4Address, ...] = ()
    site: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """Return ``file:line`` of a key, or the file when it is not written there."""
        line = self.lines.get(key, 0)
        return f"{self.path}:{line}" if line else str(self.path)


def read(path: Path, parameters: Mapping[str, Any]) -> tuple[Configuration, list[Problem]]:
    """Read a file; what cannot be understood is left at its default and complained about.

    :param parameters: of the Salt states (parameters/defaults.yaml): what ``site`` may change.
    """
    reader = Reader(path)
    document = reader.read()
    if document is None:
        return Configuration(path), reader.problems
    values = _schema(parameters)(reader, document)
    networks, api, ca = values["networks"] or {}, values["apiServer"] or {}, values["ca"] or {}
    configuration = Configuration(
        path,
        tuple(networks.get("controlPlane") or ()),
        tuple(networks.get("workloadPlane") or ()),
        networks.get("pods"),
        networks.get("services"),
        ca.get("minion") or "",
        api.get("host"),
        _keepalived(api.get("keepalived") or {}),
        tuple(values["archives"] or ()),
        tuple((values["time"] or {}).get("servers") or ()),
        values["site"] or {},
        _lines(document),
    )
    _check_keepalived(reader, configuration)
    _check_secrecy(reader, configuration)
    return configuration, reader.problems


def _schema(parameters: Mapping[str, Any]) -> Any:
    networks = {
        "controlPlane": Field(_planes),
        "workloadPlane": Field(_planes),
        "pods": Field(_internal(POD_PREFIXES), False, _default("networks.pods", PODS)),
        "services": Field(
            _internal(SERVICE_PREFIXES), False, _default("networks.services", SERVICES)
        ),
    }
    keepalived = {
        "enabled": Field(_flag),
        "virtualRouterId": Field(_router, False, 1),
        "authPassword": Field(_password, False, ""),
    }
    api = {
        "host": Field(_address, False),
        "keepalived": Field(mapping(keepalived), False),
    }
    return mapping(
        {
            "apiVersion": Field(_exactly(API_VERSION)),
            "kind": Field(_exactly(KIND)),
            "networks": Field(mapping(networks)),
            "ca": Field(mapping({"minion": Field(_minion)})),
            "apiServer": Field(mapping(api), False),
            "archives": Field(_archives),
            "time": Field(_time, False),
            "site": Field(_site(parameters), False),
        }
    )


def _default(key: str, cidr: str) -> Network:
    return Network(key, 0, ipaddress.IPv4Network(cidr))


def _exactly(wanted: str) -> Any:
    def check(reader: Reader, value: Value) -> None:
        if value.data != wanted and expect(reader, value, str):
            what = f"{value.key} is {value.data}, expected {wanted}"
            reader.complain(value.line, what, f"Write {value.key}: {wanted}")

    return check


def _network(reader: Reader, value: Value) -> Network | None:
    try:
        cidr = ipaddress.IPv4Network(value.data)
    except ValueError:
        _complain_about_network(reader, value)
        return None
    if "/" not in value.data:
        reader.complain(value.line, f"{value.key}: {value.data} has no prefix", CIDR_REMEDY)
        return None
    return Network(value.key, value.line, cidr)


def _complain_about_network(reader: Reader, value: Value) -> None:
    what = f"{value.key}: {value.data} is no IPv4 network in CIDR notation"
    try:
        meant = ipaddress.ip_network(value.data, strict=False)
    except ValueError:
        reader.complain(value.line, what, CIDR_REMEDY)
        return
    if meant.version != 4:
        reader.complain(value.line, what, "Name an IPv4 network; IPv6 is not supported.")
        return
    what = f"{value.key}: {value.data} is an address in a network"
    reader.complain(value.line, what, f"Write the network: {meant}.")


def _planes(reader: Reader, value: Value) -> tuple[Network, ...]:
    found = [_network(reader, item) for item in texts(reader, value, may_be_one=True)]
    return tuple(network for network in found if network)


def _internal(prefixes: tuple[int, int]) -> Any:
    def check(reader: Reader, value: Value) -> Network | None:
        network = _network(reader, value) if expect(reader, value, str) else None
        lowest, highest = prefixes
        if network and not lowest <= network.cidr.prefixlen <= highest:
            what = f"{network.key}: {network.cidr} has a prefix of {network.cidr.prefixlen} bits"
            remedy = f"Choose a network with a prefix from {lowest} to {highest} bits."
            reader.complain(value.line, what, remedy)
        return network

    return check


def _minion(reader: Reader, value: Value) -> str:
    if not expect(reader, value, str):
        return ""
    problem = name_problem(value.data)
    if problem:
        reader.complain(value.line, f"{value.key}: {value.data} {problem}", NAME_REMEDY)
        return ""
    return str(value.data)


NAME_REMEDY = "Use at most 63 lower-case letters, digits, - and ., as the machine's host name does."


def name_problem(name: str) -> str:
    """Say why Kubernetes would not take a name for a node; empty when it does."""
    if len(name) > NAME_LENGTH:
        return f"is longer than {NAME_LENGTH} characters"
    return "" if NAME.fullmatch(name) else "is no name that a node can have"


def _address(
    reader: Reader, value: Value, remedy: str = "Name an address in the control plane."
) -> ipaddress.IPv4Address | None:
    if not expect(reader, value, str):
        return None
    try:
        address = ipaddress.IPv4Address(value.data)
    except ValueError:
        what = f"{value.key}: {value.data} is no IPv4 address"
        reader.complain(value.line, what, "Write an address, such as 10.50.0.2.")
        return None
    if address.is_loopback or address.is_multicast or address.is_unspecified:
        what = f"{value.key}: {value.data} is no address that other machines can reach"
        reader.complain(value.line, what, remedy)
        return None
    return address


def _flag(reader: Reader, value: Value) -> bool:
    return expect(reader, value, bool) and bool(value.data)


def _router(reader: Reader, value: Value) -> int:
    if not expect(reader, value, int):
        return 1
    if not 1 <= value.data <= 255:
        what = f"{value.key}: {value.data} is no virtual router's number"
        reader.complain(value.line, what, "Choose one from 1 to 255, once in the network.")
    return int(value.data)


def _password(reader: Reader, value: Value) -> str:
    if not expect(reader, value, str):
        return ""
    if not PASSWORD.fullmatch(value.data):
        # The value itself is a secret.
        what = f"{value.key} is no password that keepalived can have"
        reader.complain(value.line, what, "Use 1 to 8 letters, digits, dots, - and _.")
    return str(value.data)


def _archives(reader: Reader, value: Value) -> tuple[str, ...]:
    found: list[str] = []
    for item in texts(reader, value, may_be_one=False):
        path = PurePosixPath(item.data)
        if not path.is_absolute() or ".." in path.parts:
            what = f"{item.key}: {item.data} is no absolute path"
            reader.complain(item.line, what, "Write the path from /, without ...")
        elif str(path) in found:
            reader.complain(item.line, f"{item.key}: {path} is listed twice", "Remove one.")
        else:
            found.append(str(path))
    return tuple(found)


def _time(reader: Reader, value: Value) -> dict[str, Any]:
    fields = {"manage": Field(_flag, False, True), "servers": Field(_servers, False, ())}
    found = mapping(fields)(reader, value)
    if found["servers"] and not found["manage"]:
        what = f"{value.key} names servers, but manage is false: nobody would ask them"
        reader.complain(value.line, what, "Remove one of them.")
    return found


def _servers(reader: Reader, value: Value) -> tuple[ipaddress.IPv4Address, ...]:
    found: list[ipaddress.IPv4Address] = []
    for item in texts(reader, value, may_be_one=False):
        address = _address(reader, item, "Name one that the masters can reach.")
        if address and address in found:
            reader.complain(item.line, f"{item.key}: {address} is listed twice", "Remove one.")
        elif address:
            found.append(address)
    return tuple(found)


def _site(parameters: Mapping[str, Any]) -> Any:
    def check(reader: Reader, value: Value) -> dict[str, Any]:
        if not expect(reader, value, dict):
            return {}
        for section, choices in value.data.items():
            known = parameters.get(section)
            if not isinstance(known, Mapping):
                _complain_about_choice(reader, choices, parameters)
            elif expect(reader, choices, dict):
                for name, choice in choices.data.items():
                    if name not in known:
                        _complain_about_choice(reader, choice, known)
        return {
            section: choices.plain()
            for section, choices in value.data.items()
            if isinstance(choices.data, dict)
        }

    return check


def _complain_about_choice(reader: Reader, choice: Value, known: Mapping[str, Any]) -> None:
    remedy = f"Remove it; parameters here: {', '.join(sorted(known))}."
    reader.complain(choice.line, f"{choice.key} is no parameter of the states", remedy)


def _keepalived(values: Mapping[str, Any]) -> Keepalived:
    return Keepalived(
        bool(values.get("enabled")),
        values.get("virtualRouterId") or 1,
        values.get("authPassword") or "",
    )


def _check_keepalived(reader: Reader, configuration: Configuration) -> None:
    """The VIP that we manage is one, and every control-plane machine shares its network."""
    if not configuration.keepalived.enabled:
        return
    line = configuration.lines.get("apiServer.keepalived.enabled", 0)
    if configuration.host is None:
        if "apiServer.host" not in configuration.lines:
            what = "apiServer.keepalived is enabled, but apiServer.host names no VIP"
            reader.complain(line, what, "Name a free address of the control plane, or disable it.")
        return
    if not any(configuration.host in network.cidr for network in configuration.control_plane):
        what = f"apiServer.host: {configuration.host} is in no network of the control plane"
        remedy = "With keepalived the VIP is an address in networks.controlPlane."
        reader.complain(configuration.lines["apiServer.host"], what, remedy)
    if not configuration.keepalived.password:
        what = "apiServer.keepalived is enabled, but has no authPassword"
        reader.complain(line, what, "Choose one; there is no default.")


def _check_secrecy(reader: Reader, configuration: Configuration) -> None:
    mode = configuration.path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"others than its owner may change it (mode {stat.S_IMODE(mode):04o})"
        reader.complain(0, what, f"Run: chmod go-w {configuration.path}")
    if configuration.keepalived.password and mode & stat.S_IROTH:
        what = f"holds a password, and everybody may read it (mode {stat.S_IMODE(mode):04o})"
        reader.complain(0, what, f"Run: chmod o-rwx {configuration.path}")


def _lines(value: Value) -> dict[str, int]:
    """Return the line of every key below a value."""
    inner = value.data.values() if isinstance(value.data, Mapping) else value.data
    lines = {value.key: value.line} if value.key else {}
    if isinstance(value.data, (Mapping, list)):
        for item in inner:
            lines.update(_lines(item))
    return lines
