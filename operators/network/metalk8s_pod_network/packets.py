"""Our table of the packet filter, as nftables' JSON.

- What leaves the network of pods gets the machine's address; what goes to pods or to machines keeps
  the pod's.
- VXLAN is taken from machines of the cluster only, and what comes out of it is from pods or from
  machines that answer them.

firewalld and kube-proxy have tables of their own, and leave this one alone.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from metalk8s_pod_network.wanted import Packets

FAMILY, TABLE, MACHINES = "ip", "metalk8s_pods", "machines"
NAT, RAW, FILTER = 100, -300, 0  # places among the tables of others, as nft names them
Item = dict[str, Any]
Expression = dict[str, Any]


def table(packets: Packets) -> list[Item]:
    """Describe the table, without what is in the set."""
    pods: Expression = {
        "prefix": {
            "addr": str(packets.pods.network_address),
            "len": packets.pods.prefixlen,
        }
    }
    source, destination = _field("ip", "saddr"), _field("ip", "daddr")
    items = [
        {"set": {**_names(MACHINES), "type": "ipv4_addr"}},
        _chain("leaving", "nat", "postrouting", NAT),
        _rule("leaving", _match(source, "!=", pods), {"return": None}),
        _rule("leaving", _match(destination, "==", pods), {"return": None}),
        _rule("leaving", _match(destination, "==", f"@{MACHINES}"), {"return": None}),
        _rule("leaving", {"masquerade": None}),
    ]
    if packets.tunnel:
        port, device = packets.tunnel
        interface: Expression = {"meta": {"key": "iifname"}}
        items += [
            _chain("packed", "filter", "input", FILTER - 5),
            _rule(
                "packed",
                _match(_field("udp", "dport"), "==", port),
                _match(source, "!=", f"@{MACHINES}"),
                {"drop": None},
            ),
            _chain("unpacked", "filter", "prerouting", RAW),
            _rule(
                "unpacked",
                _match(interface, "==", device),
                _match(source, "!=", pods),
                _match(source, "!=", f"@{MACHINES}"),
                {"drop": None},
            ),
        ]
    return items


def read(listing: dict[str, Any] | None) -> tuple[list[Item], frozenset[IPv4Address]]:
    """Read ``nft -j list table``: the table without what is in the set, and that."""
    found: list[Item] = []
    members: set[IPv4Address] = set()
    for item in (listing or {}).get("nftables", []):
        ((kind, value),) = item.items()
        if kind in ("metainfo", "table"):
            continue
        kept = {key: entry for key, entry in value.items() if key not in ("handle", "elem")}
        found.append({kind: kept})
        if kind == "set" and value["name"] == MACHINES:
            members |= {IPv4Address(one) for one in value.get("elem", [])}
    return found, frozenset(members)


def commands(listing: dict[str, Any] | None, packets: Packets | None) -> list[Item]:
    """Say what to tell ``nft -j``, in one step; nothing when all is as it should be.

    :param listing: ``None``: there is no table.
    :param packets: ``None``: there is to be none.
    """
    own = {"table": {"family": FAMILY, "name": TABLE}}
    if packets is None:
        return [] if listing is None else [{"delete": own}]
    found, members = read(listing)
    described = table(packets)
    if listing is None or _sorted(found) != _sorted(described):
        # `add` first: what is not there cannot be deleted
        fresh = [{"add": own}, {"delete": own}, {"add": own}]
        return [*fresh, *({"add": item} for item in described), *_set("add", packets.machines)]
    return [
        *_set("add", packets.machines - members),
        *_set("delete", members - packets.machines),
    ]


def _set(verb: str, addresses: frozenset[IPv4Address]) -> list[Item]:
    if not addresses:
        return []
    words = [str(address) for address in sorted(addresses)]
    return [{verb: {"element": {**_names(MACHINES), "elem": words}}}]


def _sorted(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Part what has an order of its own (rules) from what has none."""
    rules = [item for item in items if "rule" in item]
    others = [item for item in items if "rule" not in item]
    # chains are listed together, rules of one chain in their order
    rules.sort(key=lambda item: str(item["rule"]["chain"]))
    others.sort(key=lambda item: str(sorted(item.items(), key=str)))
    return others, rules


def _names(name: str) -> Item:
    return {"family": FAMILY, "table": TABLE, "name": name}


def _chain(name: str, kind: str, hook: str, priority: int) -> Item:
    place = {"type": kind, "hook": hook, "prio": priority, "policy": "accept"}
    return {"chain": {**_names(name), **place}}


def _rule(chain: str, *expressions: Expression) -> Item:
    body = {"family": FAMILY, "table": TABLE, "chain": chain, "expr": list(expressions)}
    return {"rule": body}


def _field(protocol: str, name: str) -> Expression:
    return {"payload": {"protocol": protocol, "field": name}}


def _match(left: Expression, operator: str, right: object) -> Expression:
    return {"match": {"op": operator, "left": left, "right": right}}
