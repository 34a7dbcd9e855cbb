"""The records of a whole cluster, by zone. Only of what has changed they are made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from ipaddress import IPv4Address
from typing import TypeVar

from metalk8s_dns import names, records
from metalk8s_dns.objects import Endpoint, Pod, Service
from metalk8s_dns.records import Record

Behind = Mapping[str, tuple[Endpoint, ...]]
Kept = TypeVar("Kept")


class Catalog:
    """What the zones are to have.

    :param domain: absolute name of the zone of the cluster.
    :param server: address that pods ask.
    :param reverse_zones: of Services and pods; names of other addresses are not ours.
    """

    def __init__(self, domain: str, server: IPv4Address, reverse_zones: tuple[str, ...]) -> None:
        self._domain = domain
        self.zones = (domain, *reverse_zones)
        self._known = frozenset(self.zones)
        self._found: dict[str, set[Record]] = {zone: set() for zone in self.zones}
        # A record may be of several objects: pods on the network of their machine share an address.
        self._owners: Counter[Record] = Counter()
        self._seen: tuple[Mapping[str, Service], Behind, Mapping[str, Pod]] = ({}, {}, {})
        # By kind and name of an object: its records.
        self._made: dict[tuple[str, str], tuple[Record, ...]] = {}
        # Services of which not all records are in the zones, by ``namespace/name``.
        self.cut: set[str] = set()
        self._count(records.of_domain(domain, server), 1)
        for zone in reverse_zones:
            self._count(records.of_reverse_zone(zone, domain), 1)

    def update(
        self, services: Mapping[str, Service], endpoints: Behind, pods: Mapping[str, Pod]
    ) -> Mapping[str, AbstractSet[Record]]:
        """Return the records by zone, until the next call.

        :param services: by ``namespace/name``, as the others; none of them may change afterwards.
        """
        before, self._seen = self._seen, (services, endpoints, pods)
        fresh: dict[tuple[str, str], tuple[Record, ...]] = {}
        for name in _differing(before[0], services) | _differing(before[1], endpoints):
            fresh["service", name] = self._of_service(name, services, endpoints)
        for name in _differing(before[2], pods):
            pod = pods.get(name)
            fresh["pod", name] = records.of_pod(pod, self._domain) if pod else ()
        for key, made in fresh.items():
            self._count(made, 1)
            self._count(self._made.pop(key, ()), -1)
            if made:
                self._made[key] = made
        return self._found

    def _of_service(
        self, name: str, services: Mapping[str, Service], endpoints: Behind
    ) -> tuple[Record, ...]:
        self.cut.discard(name)
        service = services.get(name)
        if service is None:
            return ()
        made = records.of_service(service, endpoints.get(name) or (), self._domain)
        if made.is_cut:
            self.cut.add(name)
        return made.records

    def _count(self, some: Iterable[Record], step: int) -> None:
        for record in some:
            zone = names.zone_of(record.owner, self._known)
            if not zone:
                continue
            self._owners[record] += step
            if self._owners[record]:
                self._found[zone].add(record)
            else:
                del self._owners[record]
                self._found[zone].discard(record)


def _differing(before: Mapping[str, Kept], now: Mapping[str, Kept]) -> set[str]:
    """Name what is not the same object: a look at each, since thousands are for each change."""
    return {name for name, one in now.items() if before.get(name) is not one} | (
        before.keys() - now.keys()
    )
