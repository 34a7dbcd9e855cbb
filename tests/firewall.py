"""The rules that the states write for the packet filter, as text, and a reader of them.

Only what our own rules say is read: matches of a packet, one after the other, and a verdict.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import json
import pathlib
import re
from typing import Any

import jinja2

ROOT = pathlib.Path(__file__).parents[1]
FILES = ROOT / "salt/states/metalk8s/firewall/files"
MAP = ROOT / "tests/render/golden/debian-12-keepalived/map.json"
VRRP, TCP, UDP = 112, 6, 17
RULE = re.compile(
    r'iifname (?P<but>!= )?"(?P<interface>\w+)"|ip (?P<end>saddr|daddr) (?P<network>[0-9./]+)'
    r"|ip protocol (?P<protocol>\d+)|(?P<transport>tcp|udp) dport (?P<port>\d+)"
    r"|ct state (?P<states>[a-z,]+)|@th,8,8 (?P<router>\d+)"
)


def known(**more: Any) -> dict[str, Any]:
    """Return what the states know of a machine with a virtual address.

    :param more: what is different in its control plane.
    """
    metalk8s: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    metalk8s["networks"]["control_plane"].update(more)
    return metalk8s


def render(name: str, metalk8s: dict[str, Any]) -> str:
    """Return a file of the firewall, as the states write it."""
    template = (FILES / f"{name}.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)
    return environment.from_string(template).render(metalk8s=metalk8s) + "\n"


@dataclasses.dataclass(frozen=True)
class Packet:
    """An IPv4 packet that comes in.

    :ivar port: where to, for TCP and UDP.
    :ivar router: the number of an address, for VRRP.
    """

    source: str
    destination: str
    port: int = 0
    protocol: int = TCP
    interface: str = "eth0"
    state: str = "new"
    router: int = 0


def verdict(rules: str, chain: str, packet: Packet) -> str:
    """Say what becomes of a packet: ``accept``, which is the policy, or ``drop``.

    :raises AssertionError: a rule says something that is not known here.
    """
    for matches, says in _read(rules, chain):
        if all(_matches(found, packet) for found in matches):
            return says
    return "accept"


@functools.lru_cache(maxsize=4)
def _read(rules: str, chain: str) -> tuple[tuple[tuple[re.Match[str], ...], str], ...]:
    """Return the matches and the verdict of each rule; read once, many packets are asked about."""
    body = rules.partition(f"chain {chain} {{")[2].partition("}")[0]
    head, *lines = [line.strip() for line in body.strip().splitlines()]
    assert head.startswith("type filter hook ")
    assert head.endswith("; policy accept;")
    for line in lines:
        assert RULE.sub("", line).strip() in ("accept", "counter drop"), line
    return tuple((tuple(RULE.finditer(line)), line.rpartition(" ")[2]) for line in lines)


@functools.lru_cache(maxsize=4096)
def _is_in(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


def _matches(found: re.Match[str], packet: Packet) -> bool:
    if found["interface"]:
        return (found["interface"] == packet.interface) is not bool(found["but"])
    if found["network"]:
        address = packet.source if found["end"] == "saddr" else packet.destination
        return _is_in(address, found["network"])
    if found["router"]:
        return int(found["router"]) == packet.router
    if found["protocol"]:
        return int(found["protocol"]) == packet.protocol
    if found["port"]:
        transport = {"tcp": TCP, "udp": UDP}[found["transport"]]
        return packet.protocol == transport and int(found["port"]) == packet.port
    return packet.state in found["states"].split(",")
