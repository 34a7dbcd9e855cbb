"""The records of a whole cluster, by zone. Only of what has changed they are made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from ipaddress import IPv4Address
from typing import Any

from metalk8s_dns import names, records
from metalk8s_dns.objects import Endpoint, Pod, Service
from metalk8s_dns.records import Record

Behind = Mapping[str, tuple[Endpoint, ...]]
Made = tuple[Any, tuple[Record, ...]]


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
        # By kind and name of an object: what its records were made of, and the records.
        self._made: dict[tuple[str, str], Made] = {}
        self._count(records.of_domain(domain, server), 1)
        for zone in reverse_zones:
            self._count(records.of_reverse_zone(zone, domain), 1)

    def update(
        self, services: Mapping[str, Service], endpoints: Behind, pods: Mapping[str, Pod]
    ) -> Mapping[str, AbstractSet[Record]]:
        """Return the records by zone, until the next call; each object by ``namespace/name``."""
        made: dict[tuple[str, str], Made] = {}
        for name, service in services.items():
            key, source = ("service", name), (service, endpoints.get(name) or ())
            made[key] = self._same(key, source) or (
                source, records.of_service(*source, self._domain)
            )  # fmt: skip
        for name, pod in pods.items():
            key, alone = ("pod", name), (pod,)
            made[key] = self._same(key, alone) or (alone, records.of_pod(pod, self._domain))
        for key, one in made.items():
            if one is not self._made.get(key):
                self._count(one[1], 1)
        for key, one in self._made.items():
            if one is not made.get(key):
                self._count(one[1], -1)
        self._made = made
        return self._found

    def _same(self, key: tuple[str, str], source: tuple[object, ...]) -> Made | None:
        """Return what was made of the same thing."""
        before = self._made.get(key)
        return before if before is not None and before[0] == source else None

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
