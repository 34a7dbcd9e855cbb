"""From objects to records, by the Kubernetes DNS specification 1.1.0.

https://github.com/kubernetes/dns/blob/master/docs/specification.md (its sections are named below)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from metalk8s_dns import names
from metalk8s_dns.objects import Address, Endpoint, Pod, Service

SCHEMA = "1.1.0"
# Priority and weight of SRV: clients take any of them.
SRV = "0 100"
# Records of one object: each address of Endpoints has all of their ports, so that a few KB would
# fill the memory of everybody who holds records, and Knot's journal. The longest names of so many
# are 5 MB. A headless Service with a thousand endpoints has six named ports before it gets there.
MOST = 10_000


class Record(NamedTuple):
    """One record, in the form in which Knot gives it back.

    :param owner: absolute, in lower case.
    """

    owner: str
    kind: str
    data: str


class Made(NamedTuple):
    """The records of an object.

    :param is_cut: there would be more than ``MOST``; the last are left out.
    """

    records: tuple[Record, ...]
    is_cut: bool


def of_domain(domain: str, server: Address) -> tuple[Record, ...]:
    """Return what a domain has without any object: its server, and the version (section 2.2).

    :param domain: absolute name of the zone of the cluster.
    :param server: address that pods ask.
    """
    return (
        Record(domain, "NS", server_name(domain)),
        *_addresses(server_name(domain), server),
        Record(f"dns-version.{domain}", "TXT", f'"{SCHEMA}"'),
    )


def of_reverse_zone(zone: str, domain: str) -> tuple[Record, ...]:
    """Return what a reverse zone has without any object."""
    return (Record(zone, "NS", server_name(domain)),)


def server_name(domain: str) -> str:
    """Return the name of the server of all zones."""
    return f"ns.dns.{domain}"


def of_service(service: Service, endpoints: Iterable[Endpoint], domain: str) -> Made:
    """Return the records of a Service and what is behind it; those no zone can hold are left out.

    :param endpoints: looked at only where there is no address of its own.
    """
    owner = f"{service.name}.{service.namespace}.svc.{domain}"
    if service.external:
        found: Iterator[Record] = _of_external(service, owner)
    elif service.is_headless:
        shown = (one for one in endpoints if one.is_ready or service.shows_unready)
        found = _of_headless(shown, owner)
    else:
        found = _of_own_address(service, owner)
    return _possible(found)


def of_pod(pod: Pod, domain: str) -> tuple[Record, ...]:
    """Return the records of a pod (section 2.6, deprecated there)."""
    return _possible(
        record
        for one in pod.addresses
        for record in _addresses(f"{names.dashed(one)}.{pod.namespace}.pod.{domain}", one)
    ).records


def _of_own_address(service: Service, owner: str) -> Iterator[Record]:
    """Section 2.3."""
    for one in service.addresses:
        yield from _addresses(owner, one)
        yield Record(names.reverse(one), "PTR", owner)
    for port in service.ports:
        if port.name:
            yield Record(
                f"_{port.name}._{port.protocol}.{owner}", "SRV", f"{SRV} {port.number} {owner}"
            )


def _of_headless(endpoints: Iterable[Endpoint], owner: str) -> Iterator[Record]:
    """Section 2.4. An endpoint without a hostname is called by its address."""
    for one in endpoints:
        host = f"{one.hostname or names.dashed(one.address)}.{owner}"
        yield from _addresses(owner, one.address)
        yield from _addresses(host, one.address)
        yield Record(names.reverse(one.address), "PTR", host)
        for port in one.ports:
            if port.name:
                yield Record(
                    f"_{port.name}._{port.protocol}.{owner}", "SRV", f"{SRV} {port.number} {host}"
                )


def _of_external(service: Service, owner: str) -> Iterator[Record]:
    """Section 2.5."""
    yield Record(owner, "CNAME", f"{service.external}.")


def _addresses(owner: str, one: Address) -> Iterator[Record]:
    yield Record(owner, "A" if one.version == 4 else "AAAA", names.written(one))


def _possible(found: Iterator[Record]) -> Made:
    """Leave out what no zone can hold: the API takes names of ports and of others that are longer.

    One of them would make Knot refuse all that changes at the same time. What is left out counts
    for ``MOST`` as well: to look at it takes time.
    """
    possible = (record for record in islice(found, MOST) if _is_possible(record))
    kept = tuple(dict.fromkeys(possible))
    return Made(kept, next(found, None) is not None)


def _is_possible(record: Record) -> bool:
    target = record.data.removeprefix(f"{SRV} ").partition(" ")[2]
    return names.is_valid(record.owner) and (
        record.kind in ("A", "AAAA")
        or names.is_valid(target if record.kind == "SRV" else record.data)
    )
