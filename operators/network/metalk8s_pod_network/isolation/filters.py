"""The table of the packet filter that makes verdicts true, as text of nftables.

::

    forward -> egress:  the pod that began -> out_... -> pods' map, blocks' map, ports -> drop
               ingress: the pod that was asked -> in_... -> the same
               whoever else is of this machine -> drop

Each packet is judged by its connection: who began it, who was asked, at which port, as connection
tracking knows after all translation of addresses. So an answer passes as long as the question
would, a Service is the pod behind it, and a policy that changes counts for what is there already.

While the table changes, the kernel may judge a packet by old rules and new entries: a chain that is
new is empty then. So what finds nothing, or comes back from a chain, is dropped and never let in.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from metalk8s_pod_network.isolation.allowed import ALL, Allowed, Ports
from metalk8s_pod_network.isolation.verdicts import DIGITS, Verdicts

FAMILY, TABLE = "ip", "metalk8s_policies"
BEGAN, ASKED, PORT = "ct original ip saddr", "ct reply ip saddr", "ct reply proto-src"
# Before what others have at `filter`. Whatever passes here has to pass there as well.
EGRESS, INGRESS = "forward priority filter - 4", "forward priority filter - 3"
ADDRESS, PAIR = "ipv4_addr", "ipv4_addr . ipv4_addr"
DROP = "counter drop"


@dataclass(frozen=True)
class Collection:
    """A set, or a map to verdicts.

    :param kind: its type, as nft writes it.
    :param entries: keys; with a map, ``jump ...`` or the like by key.
    """

    kind: str
    entries: Mapping[str, str] = field(default_factory=dict)
    flags: str = ""

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return self.kind.endswith("verdict")


@dataclass(frozen=True)
class Table:
    """Chains (the first line of a base chain says where it hooks) and collections, by name."""

    chains: Mapping[str, tuple[str, ...]]
    collections: Mapping[str, Collection]


def table(verdicts: Verdicts | None, ranges: Iterable[IPv4Network]) -> Table:
    """Describe the table.

    :param verdicts: ``None``: there is no policy in the whole cluster.
    :param ranges: of this machine's pods; who is there and not known is not heard.
    """
    # No pod of this machine passes for somebody else, and nobody for one of them.
    chains: dict[str, tuple[str, ...]] = {"claims": _claims(ranges)}
    collections: dict[str, Collection] = {}
    if verdicts is None:
        return Table(chains, collections)
    # Once for each set of ports, of which thousands of pods may share one.
    verdict = functools.cache(functools.partial(_verdict, chains))
    for name, allowed in verdicts.allowed.items():
        _allow(name, allowed, verdict, chains, collections)
    # A pod may have an address of a range that was this machine's before.
    strays = {one for one in verdicts.known if not any(IPv4Address(one) in net for net in ranges)}
    places = f"{{ {', '.join([*map(str, ranges), *sorted(strays)])} }}"
    isolated = verdicts.ingress.keys() | verdicts.egress.keys()
    itself = (f"{address} . {address}" for address in isolated)
    collections["itself"] = Collection(PAIR, dict.fromkeys(itself, ""))
    ways = (
        ("egress", EGRESS, BEGAN, verdicts.egress),
        ("ingress", INGRESS, ASKED, verdicts.ingress),
    )
    for way, hook, end, who in ways:
        entries = {one: f"jump {who[one]}" if one in who else "accept" for one in verdicts.known}
        collections[f"{way}_pods"] = Collection(f"{ADDRESS} : verdict", entries)
        chains[way] = (
            f"type filter hook {hook}; policy accept;",
            "ct state { invalid, untracked } goto strange",
            # Nothing can be told of an error but to which connection it belongs.
            "ct state related meta l4proto icmp accept",
            f"{BEGAN} . {ASKED} @itself accept",
            f"{end} vmap @{way}_pods",
            f"{end} {places} {DROP}",
        )
    # What belongs to no connection cannot be judged: it is for pods that are free.
    collections["free"] = Collection(ADDRESS, dict.fromkeys(verdicts.known - isolated, ""))
    chains["strange"] = tuple(
        f"ip {end} {places} ip {end} != @free {DROP}" for end in ("saddr", "daddr")
    )
    return Table(chains, collections)


def _claims(ranges: Iterable[IPv4Network]) -> tuple[str, ...]:
    places = ", ".join(map(str, ranges))
    return (
        "type filter hook prerouting priority raw; policy accept;",
        f'iifname "veth*" fib saddr . iif oif missing {DROP}',
        f'iifname != "lo" ip saddr {{ {places} }} fib saddr . iif oif missing {DROP}',
    )


def _allow(
    name: str,
    allowed: Allowed,
    verdict: Callable[[Ports], str],
    chains: dict[str, tuple[str, ...]],
    collections: dict[str, Collection],
) -> None:
    """Write a chain that accepts what is allowed and drops the rest."""
    other = BEGAN if name.startswith("in_") else ASKED
    lines = []
    if allowed.peers:
        entries = {address: verdict(ports) for address, ports in allowed.peers.items()}
        collections[f"{name}_pods"] = Collection(f"{ADDRESS} : verdict", entries)
        lines.append(f"{other} vmap @{name}_pods")
    if allowed.blocks:
        spans = {_span(first, last): verdict(ports) for first, last, ports in allowed.blocks}
        # Named by what is in it: intervals that change are a new map, never a change of one.
        blocks = f"blocks_{_digest(sorted(spans.items()))}"
        made = Collection(f"{ADDRESS} : verdict", spans, "interval")
        while collections.setdefault(blocks, made) != made:
            blocks += "_"
        lines.append(f"{other} vmap @{blocks}")
    if allowed.anybody == ALL:
        lines.append("accept")
    else:
        lines += [*_passes(allowed.anybody), DROP]
    chains[name] = tuple(lines)


def _verdict(chains: dict[str, tuple[str, ...]], ports: Ports) -> str:
    """Write a chain that accepts ports, unless it is there; return what leads to it."""
    if ports == ALL:
        return "accept"
    chain, rules = f"ports_{_digest(sorted(ports))}", tuple(_passes(ports))
    while chains.setdefault(chain, rules) != rules:  # others of an equal name
        chain += "_"
    return f"jump {chain}"


def _passes(ports: Ports) -> Iterable[str]:
    """Accept ports, each protocol with one rule."""
    for protocol in sorted({protocol for protocol, _ in ports}):
        numbers = sorted(port for one, port in ports if one == protocol)
        match = "" if numbers == [0] else f" {PORT} {{ {', '.join(map(str, numbers))} }}"
        yield f"meta l4proto {protocol}{match} accept"


def _span(first: int, last: int) -> str:
    ends = [str(IPv4Address(first)), str(IPv4Address(last))]
    return ends[0] if first == last else "-".join(ends)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:DIGITS]
