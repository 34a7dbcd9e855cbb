"""Which Service gets which address: from Services and pools, and from nothing else.

What a Service has stays, for as long as it may have it. Nobody gets what another one has. What two
have (somebody wrote it into a status, or into annotations) stays where it was; else it is the older
one's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from metalk8s_load_balancer.objects import Given, Service
from metalk8s_load_balancer.pools import LAYER2, Pool

# Of VRRP: one for each address that machines bring to each other.
ROUTERS = range(1, 256)
SHOWN = 64  # characters of what somebody wrote, in a message


@dataclass(frozen=True)
class Reserved:
    """What is nobody's.

    :param routers: numbers of virtual routers that somebody else uses.
    :param claimed: what Nodes say they have. Nobody gets it, and nobody loses it: who has broken
        into a machine makes its Node say what it likes.
    """

    addresses: frozenset[IPv4Address] = frozenset()
    networks: tuple[IPv4Network, ...] = ()
    routers: frozenset[int] = frozenset()
    claimed: frozenset[IPv4Address] = frozenset()

    def has(self, address: IPv4Address) -> bool:
        """Tell whether an address is one of these, whatever Nodes say."""
        return address in self.addresses or any(address in one for one in self.networks)

    def may_be_given(self, address: IPv4Address) -> bool:
        """Tell whether a Service may get an address that it has not."""
        return not self.has(address) and address not in self.claimed


@dataclass(frozen=True)
class Refusal:
    """Why a Service has no address.

    :param reason: one word, of an Event.
    """

    reason: str
    message: str


@dataclass
class Decision:
    """What each Service has, or why it has nothing, by ``namespace/name``."""

    given: dict[str, Given] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)


class _RefusedError(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)


def allocate(
    services: Iterable[Service],
    pools: Iterable[Pool],
    reserved: Reserved,
    before: Mapping[str, Given] | None = None,
) -> Decision:
    """Decide about all Services at once.

    :param before: what was decided the last time. Whoever has that comes before those who claim it
        since, by annotations that anybody with rights to a Service may write.
    """
    last = before or {}
    known = sorted(pools, key=lambda one: one.name)
    candidates = (one for one in services if one.wants and not _is_foreign(one, known))
    wanting = sorted(candidates, key=lambda one: one.age)
    round_ = _Round(known, reserved)
    for one in sorted(wanting, key=lambda one: one.given != last.get(one.key)):
        round_.keep(one)
    # Who asks for one address can take no other.
    for one in sorted(wanting, key=lambda one: not one.requested):
        round_.decide(one)
    return round_.decision


class _Round:
    def __init__(self, pools: list[Pool], reserved: Reserved) -> None:
        self.decision = Decision()
        self._pools, self._reserved = pools, reserved
        self._taken: dict[IPv4Address, str] = {}
        self._routers = set(reserved.routers)
        # In a round, addresses are only taken: where one has looked, there is none left.
        self._free: dict[str, Iterator[IPv4Address]] = {}

    def keep(self, service: Service) -> None:
        """Let a Service have what it has, when it may."""
        given = service.given
        if given is None or service.requested not in ("", str(given.address)):
            return
        fitting = self._fitting(service, given.address)
        if not fitting or self._reserved.has(given.address) or given.address in self._taken:
            return
        chosen = next((one for one in fitting if one.name == given.pool), fitting[0])
        try:
            router = self._router(chosen, given.router)
        except _RefusedError:
            return
        self._give(service, chosen, given.address, router)

    def decide(self, service: Service) -> None:
        """Give a Service that has nothing an address, or say why not."""
        if service.key in self.decision.given:
            return
        try:
            chosen, address = self._requested(service) if service.requested else self._any(service)
            self._give(service, chosen, address, self._router(chosen, 0))
        except _RefusedError as refused:
            self.decision.refused[service.key] = refused.refusal

    def _give(self, service: Service, pool: Pool, address: IPv4Address, router: int) -> None:
        self._taken[address] = service.key
        self._routers.add(router)
        self.decision.given[service.key] = Given(address, pool.name, router)

    def _router(self, pool: Pool, before: int) -> int:
        """Return the number of a virtual router, the one of before if nobody has it."""
        if pool.announce != LAYER2:
            return 0
        if before in ROUTERS and before not in self._routers:
            return before
        for number in ROUTERS:
            if number not in self._routers:
                return number
        raise _RefusedError(
            "NoVirtualRouter", f"all {len(ROUTERS)} virtual routers of layer 2 are in use"
        )

    def _fitting(self, service: Service, address: IPv4Address) -> list[Pool]:
        return [one for one in self._serving(service) if one.has(address)]

    def _serving(self, service: Service) -> list[Pool]:
        return [one for one in self._pools if one.serves(service.namespace, service.labels)]

    def _requested(self, service: Service) -> tuple[Pool, IPv4Address]:
        try:
            address = IPv4Address(service.requested)
        except ValueError:
            raise _RefusedError(
                "BadAddress",
                f"spec.loadBalancerIP {service.requested[:SHOWN]!r} is no IPv4 address",
            ) from None
        fitting = self._fitting(service, address)
        if not fitting:
            raise _RefusedError(
                "AddressOutsidePools", f"{address} is in no pool that this Service may use"
            )
        if not self._reserved.may_be_given(address):
            raise _RefusedError(
                "AddressReserved", f"{address} is a machine's or of the cluster itself"
            )
        if address in self._taken:
            raise _RefusedError("AddressTaken", f"{self._taken[address]} has {address}")
        return fitting[0], address

    def _any(self, service: Service) -> tuple[Pool, IPv4Address]:
        serving = [one for one in self._serving(service) if one.auto_assign]
        if not serving:
            raise _RefusedError(
                "NoPool", "no LoadBalancerPool gives addresses to this Service unless it asks"
            )
        for pool in serving:
            for address in self._free.setdefault(pool.name, pool.addresses()):
                if address not in self._taken and self._reserved.may_be_given(address):
                    return pool, address
        names = ", ".join(one.name for one in serving)
        raise _RefusedError("PoolExhausted", f"all addresses are taken: {names}")


def changes(
    services: Collection[Service], decision: Decision
) -> list[tuple[Service, Given | None]]:
    """Return the Services whose status is to be another now.

    An address that one loses is free only after that: who is to get it waits for the next time.
    What somebody else gave, of no pool of ours, is left alone.
    """
    holders: dict[IPv4Address, str] = {}
    for service in sorted(services, key=lambda one: one.age):
        if service.given is not None:
            holders.setdefault(service.given.address, service.key)
    found: list[tuple[Service, Given | None]] = []
    for service in sorted(services, key=lambda one: one.age):
        wanted = decision.given.get(service.key)
        # One that lost its annotations and is refused holds what the next one waits for.
        if wanted is None and not (_is_ours(service) or service.key in decision.refused):
            continue
        if wanted is not None and holders.get(wanted.address, service.key) != service.key:
            wanted = None
        if service.given != wanted or service.is_marked != (wanted is not None):
            found.append((service, wanted))
    return found


def _is_ours(service: Service) -> bool:
    # A Service of another type has no use for an address, whoever gave it.
    return service.is_marked or (service.given is not None and not service.wants)


def _is_foreign(service: Service, pools: Collection[Pool]) -> bool:
    given = service.given
    return (
        given is not None and not service.is_marked and not any(p.has(given.address) for p in pools)
    )
