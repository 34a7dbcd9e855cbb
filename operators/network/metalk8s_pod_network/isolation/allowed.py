"""What is allowed with whom: ports by pods and by blocks of addresses.

Blocks that overlap are cut, so that each address is in one at most: the kernel looks it up once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metalk8s_pod_network.isolation.policies import Block

# Protocol and port; port 0: each of the protocol.
Ports = frozenset[tuple[int, int]]
ALL: Ports = frozenset({(0, 0)})  # whatever the packet is
NONE: Ports = frozenset()


@dataclass(frozen=True)
class Allowed:
    """What is allowed with whom.

    :param anybody: ports that whoever it is may use.
    :param peers: ports by address of a pod.
    :param blocks: first and last address as numbers, ports; they do not overlap.
    """

    anybody: Ports = NONE
    peers: Mapping[str, Ports] = field(default_factory=dict)
    blocks: tuple[tuple[int, int, Ports], ...] = ()


def join(*ports: Ports) -> Ports:
    """Return what any of them allows, in one way of writing it."""
    found = NONE.union(*ports)
    if found & ALL:
        return ALL
    whole = {protocol for protocol, port in found if port == 0}
    return frozenset(one for one in found if one[1] == 0 or one[0] not in whole)


def parts(block: Block) -> list[tuple[int, int]]:
    """Return what is left of a block without its exceptions: first and last addresses."""
    found = []
    first, end = block.inside
    for start, last in sorted(block.without):
        if start > first:
            found.append((first, min(start - 1, end)))
        first = max(first, last + 1)
    return [*found, (first, end)] if first <= end else found


def apart(spans: Iterable[tuple[int, int, Ports]]) -> tuple[tuple[int, int, Ports], ...]:
    """Cut spans that overlap, and join what is side by side and the same."""
    begins: dict[int, list[Ports]] = defaultdict(list)
    ends: dict[int, list[Ports]] = defaultdict(list)
    for first, last, ports in spans:
        begins[first].append(ports)
        ends[last + 1].append(ports)
    active: dict[Ports, int] = defaultdict(int)
    found: list[tuple[int, int, Ports]] = []
    began, now = 0, NONE
    for point in sorted(begins.keys() | ends.keys()):
        for ports in begins.get(point, ()):
            active[ports] += 1
        for ports in ends.get(point, ()):
            active[ports] -= 1
        after = join(*(ports for ports, count in active.items() if count))
        if after == now:
            continue
        if now:
            found.append((began, point - 1, now))
        began, now = point, after
    return tuple(found)
