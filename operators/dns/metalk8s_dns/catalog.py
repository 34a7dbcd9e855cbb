"""The records of a whole cluster, by zone. Only of what has changed they are made anew."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

from metalk8s_dns import names, records
from metalk8s_dns.objects import Endpoint, Pod, Service
from metalk8s_dns.records import Record

Behind = Mapping[str, tuple[Endpoint, ...]]


class Catalog:
    """What the zones are to have.

    :param domain: absolute name of the zone of the cluster.
    :param server: address that pods ask.
    :param reverse_zones: of Services and pods; names of other addresses are not ours.
    """

    def __init__(self, domain: str, server: IPv4Address, reverse_zones: tuple[str, ...]) -> None:
        self._domain = domain
        self.zones = (domain, *reverse_zones)
        self._always = [
            *records.of_domain(domain, server),
            *(one for zone in reverse_zones for one in records.of_reverse_zone(zone, domain)),
        ]
        # By object: what the records were made of, and the records.
        self._services: dict[str, tuple[Any, tuple[Record, ...]]] = {}
        self._pods: dict[str, tuple[Any, tuple[Record, ...]]] = {}

    def update(
        self, services: Mapping[str, Service], endpoints: Behind, pods: Mapping[str, Pod]
    ) -> dict[str, frozenset[Record]]:
        """Return the records by zone; each object by ``namespace/name``."""
        self._services = {
            key: self._of_service(key, one, endpoints.get(key) or ())
            for key, one in services.items()
        }
        self._pods = {key: self._of_pod(key, one) for key, one in pods.items()}
        found = set(self._always)
        for _, made in (*self._services.values(), *self._pods.values()):
            found.update(made)
        return self._by_zone(found)

    def _of_service(
        self, key: str, service: Service, endpoints: tuple[Endpoint, ...]
    ) -> tuple[Any, tuple[Record, ...]]:
        before, made = self._services.get(key, (None, ()))
        source = (service, endpoints)
        if before != source:
            made = records.of_service(service, endpoints, self._domain)
        return source, made

    def _of_pod(self, key: str, pod: Pod) -> tuple[Any, tuple[Record, ...]]:
        before, made = self._pods.get(key, (None, ()))
        return pod, made if before == pod else records.of_pod(pod, self._domain)

    def _by_zone(self, found: set[Record]) -> dict[str, frozenset[Record]]:
        zones = frozenset(self.zones)
        sorted_: dict[str, list[Record]] = {zone: [] for zone in self.zones}
        ending = f".{self._domain}"
        for record in found:
            in_domain = record.owner.endswith(ending)
            zone = self._domain if in_domain else names.zone_of(record.owner, zones)
            if zone:
                sorted_[zone].append(record)
        return {zone: frozenset(some) for zone, some in sorted_.items()}
