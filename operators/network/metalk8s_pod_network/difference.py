"""From what is in the kernel and what is to be there to commands of ``ip`` and ``bridge``.

Only what carries our protocol's number, or is on our device, is read; so only that can go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from metalk8s_pod_network.settings import DEVICE, PROTOCOL
from metalk8s_pod_network.wanted import MAIN, End, Route, Rule, Tunnel

ONE = "/32"


@dataclass(frozen=True)
class Commands:
    """Lines for ``ip -batch`` and for ``bridge -batch``, in their order."""

    ip: tuple[str, ...] = ()
    bridge: tuple[str, ...] = ()


def read_routes(entries: Iterable[dict[str, Any]]) -> frozenset[Route]:
    """Read ``ip -N -j route show table all proto ...``."""
    return frozenset(
        Route(
            entry["dst"],
            int(entry.get("table", MAIN)),
            _kind(entry),
            entry.get("gateway", ""),
            "" if _kind(entry) == "unreachable" else entry.get("dev", ""),
            "onlink" in (entry.get("flags") or []),
            entry.get("prefsrc", ""),
        )
        for entry in entries
    )


def _kind(entry: dict[str, Any]) -> str:
    # -N writes the number of RTN_UNREACHABLE
    kind = str(entry.get("type", "unicast"))
    return {"7": "unreachable", "1": "unicast"}.get(kind, kind)


def read_rules(entries: Iterable[dict[str, Any]]) -> frozenset[Rule]:
    """Read ``ip -N -j rule show``: those of ours."""
    return frozenset(
        Rule(
            f"{entry['src']}/{entry['srclen']}" if "srclen" in entry else entry["src"],
            int(entry["table"]),
            int(entry["priority"]),
        )
        for entry in entries
        if str(entry.get("protocol")) == str(PROTOCOL)
    )


def read_tunnel(links: Iterable[dict[str, Any]]) -> Tunnel | None:
    """Find our device in ``ip -j -d address show``; one that was not finished counts as another."""
    for link in links:
        if link["ifname"] != DEVICE:
            continue
        data = (link.get("linkinfo") or {}).get("info_data") or {}
        addresses = [e["local"] for e in link.get("addr_info") or [] if e["family"] == "inet"]
        is_finished = "UP" in link["flags"] and len(addresses) == 1
        return Tunnel(
            int(data.get("id", 0)),
            int(data.get("port", 0)),
            str(link.get("address", "")),
            int(link["mtu"]),
            addresses[0] if is_finished else "",
            str(data.get("local", "")),
        )
    return None


def read_ends(
    neighbours: Iterable[dict[str, Any]], forwarding: Iterable[dict[str, Any]]
) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Read ``ip -j neigh`` and ``bridge -j fdb`` of our device.

    :return: inner and hardware addresses; hardware and outer ones.
    """
    inner = frozenset(
        (entry["dst"], entry["lladdr"])
        for entry in neighbours
        if "PERMANENT" in entry.get("state", []) and "lladdr" in entry
    )
    outer = frozenset((entry["mac"], entry["dst"]) for entry in forwarding if "dst" in entry)
    return inner, outer


def tunnel(before: Tunnel | None, after: Tunnel | None) -> tuple[str, ...]:
    """Make the device, or make it anew, or take it away."""
    if before == after:
        return ()
    away = (f"link delete dev {DEVICE}",) if before else ()
    if after is None:
        return away
    if before and (*_fixed(before), before.address) == (*_fixed(after), after.address):
        return (f"link set dev {DEVICE} mtu {after.mtu}",)
    return (
        *away,
        f"link add {DEVICE} address {after.hardware} mtu {after.mtu} type vxlan id {after.id} "
        f"dstport {after.port} local {after.local} nolearning",
        f"link set dev {DEVICE} addrgenmode none",
        f"address add {after.address}{ONE} dev {DEVICE}",
        f"link set dev {DEVICE} up",
    )


def _fixed(one: Tunnel) -> tuple[object, ...]:
    return one.id, one.port, one.hardware, one.local


def ends(
    inner: frozenset[tuple[str, str]],
    outer: frozenset[tuple[str, str]],
    after: frozenset[End],
) -> Commands:
    """Let the device know the other ends, and no others."""
    new_inner = {(end.inner, end.hardware) for end in after}
    new_outer = {(end.hardware, end.outer) for end in after}
    kept_inner, kept_outer = {one for one, _ in new_inner}, {one for one, _ in new_outer}
    return Commands(
        (
            *(f"neighbour replace {address} lladdr {lladdr} dev {DEVICE} nud permanent"
              for address, lladdr in sorted(new_inner - inner)),
            *(f"neighbour delete {address} dev {DEVICE}"
              for address, _ in sorted(inner) if address not in kept_inner),
        ),
        (
            *(f"fdb replace {lladdr} dev {DEVICE} dst {address}"
              for lladdr, address in sorted(new_outer - outer)),
            *(f"fdb delete {lladdr} dev {DEVICE} dst {address}"
              for lladdr, address in sorted(outer) if lladdr not in kept_outer),
        ),
    )  # fmt: skip


def routes(before: frozenset[Route], after: frozenset[Route]) -> tuple[str, ...]:
    """Change the routes, without a moment in which one that stays is not there."""
    ours = {(route.destination, route.table): route for route in before}
    lines = []
    for route in sorted(after - before):
        # `replace` would take another's in the place of one of ours that is not there.
        verb = "replace" if (route.destination, route.table) in ours else "add"
        lines.append(f"route {verb} {_words(route)}")
    staying = {(route.destination, route.table) for route in after}
    for key, route in sorted(ours.items()):
        if key not in staying:
            lines.append(f"route delete {_words(route)}")
    return tuple(lines)


def _words(route: Route) -> str:
    words = [route.kind, route.destination]
    words += ["via", route.via] if route.via else []
    words += ["dev", route.device] if route.device else []
    words += ["src", route.source] if route.source else []
    words += ["table", str(route.table), "proto", str(PROTOCOL)]
    return " ".join([*words, *(["onlink"] if route.onlink else [])])


def rules(before: frozenset[Rule], after: frozenset[Rule]) -> tuple[str, ...]:
    """Change the rules."""
    return (
        *(f"rule add {_rule(rule)}" for rule in sorted(after - before)),
        *(f"rule delete {_rule(rule)}" for rule in sorted(before - after)),
    )


def _rule(rule: Rule) -> str:
    return (
        f"from {rule.source} lookup {rule.table} preference {rule.preference} protocol {PROTOCOL}"
    )
