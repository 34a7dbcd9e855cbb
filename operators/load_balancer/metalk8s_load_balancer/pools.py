"""Pools of addresses: ``LoadBalancerPool``, as salt/states/metalk8s/load-balancer describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

PATH = "/apis/metalk8s.scality.com/v1alpha1/loadbalancerpools"
LAYER2, BGP = "layer2", "bgp"
POINT_TO_POINT = 31  # prefix from which on a network has neither its own address nor broadcast


@dataclass(frozen=True, order=True)
class Range:
    """Addresses from the first to the last, both included."""

    first: IPv4Address
    last: IPv4Address

    def __contains__(self, address: IPv4Address) -> bool:
        """Tell whether an address is one of them."""
        return self.first <= address <= self.last

    def __iter__(self) -> Iterator[IPv4Address]:
        """Yield them in order."""
        return map(IPv4Address, range(int(self.first), int(self.last) + 1))


@dataclass(frozen=True)
class Pool:
    """A pool.

    :param auto_assign: Services that ask for no address get one of these, too.
    :param namespaces: of the Services that may have one; empty: of all.
    :param labels: that these Services have.
    :param problems: what of it was not understood, and is left out.
    """

    name: str
    uid: str
    ranges: tuple[Range, ...]
    announce: str = LAYER2
    auto_assign: bool = True
    namespaces: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    problems: tuple[str, ...] = ()

    def has(self, address: IPv4Address) -> bool:
        """Tell whether an address is of this pool."""
        return any(address in one for one in self.ranges)

    def serves(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a Service may have an address of this pool."""
        return (not self.namespaces or namespace in self.namespaces) and all(
            labels.get(key) == value for key, value in self.labels.items()
        )

    def addresses(self) -> Iterator[IPv4Address]:
        """Yield all addresses in order, those that are in two ranges twice."""
        for one in self.ranges:
            yield from one


def parse(text: str) -> Range:
    """Read ``192.0.2.0/28``, of which a network's own address and broadcast are none, or
    ``192.0.2.10-192.0.2.20``, or one address.

    :raises ValueError: it is neither.
    """
    if "/" in text:
        network = IPv4Network(text)
        if network.prefixlen >= POINT_TO_POINT:
            return Range(network[0], network[-1])
        return Range(network[1], network[-2])
    first, _, last = text.partition("-")
    found = Range(IPv4Address(first.strip()), IPv4Address((last or first).strip()))
    if found.first > found.last:
        raise ValueError(f"{text}: the first address is after the last")
    return found


def pool(item: dict[str, Any]) -> Pool | None:
    """Read a pool; ``None`` when it is about to go."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    if metadata.get("deletionTimestamp"):
        return None
    ranges, problems = [], []
    for text in spec.get("addresses") or []:
        try:
            ranges.append(parse(str(text)))
        except ValueError as error:
            problems.append(str(error))
    return Pool(
        name=str(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        ranges=tuple(sorted(ranges)),
        announce=str(spec.get("announce") or LAYER2),
        auto_assign=bool(spec.get("autoAssign", True)),
        namespaces=frozenset(spec.get("namespaces") or []),
        labels=dict((spec.get("serviceSelector") or {}).get("matchLabels") or {}),
        problems=tuple(problems),
    )
