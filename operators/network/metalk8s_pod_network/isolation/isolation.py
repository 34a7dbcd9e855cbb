"""What the cluster says of policies, as this machine's table of the packet filter.

Whose word counts: an address of a pod of another machine has to be in the range of that machine's
Node, since who has broken into a machine may say of its pods what it likes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Protocol, TypeVar

from metalk8s_pod_network.isolation import filters, sandboxes
from metalk8s_pod_network.isolation.filters import Table
from metalk8s_pod_network.isolation.pods import Namespace, Pod
from metalk8s_pod_network.isolation.policies import Policy
from metalk8s_pod_network.isolation.verdicts import compile_
from metalk8s_pod_network.peers import Peer
from metalk8s_pod_network.plan import NotYetError
from metalk8s_pod_network.settings import Settings

Kept_co = TypeVar("Kept_co", covariant=True)


class Known(Protocol[Kept_co]):
    """A copy of one kind of objects."""

    errors: int

    def copy(self) -> Mapping[str, Kept_co] | None:
        """Return them by ``namespace/name`` or ``name``, ``None`` before any is known."""


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where the objects come from."""

    pods: Known[Pod]
    namespaces: Known[Namespace]
    policies: Known[Policy]

    @property
    def errors(self) -> int:
        """How often the API server did not answer."""
        return self.pods.errors + self.namespaces.errors + self.policies.errors


class Isolation:
    """The table that is to be; worked out anew when something of it is another."""

    def __init__(self, settings: Settings, sources: Sources) -> None:
        self._settings, self._sources = settings, sources
        self._told: object = None
        self._policies: Mapping[str, Policy] = {}
        self._table = Table({}, {})

    @property
    def errors(self) -> int:
        """How often the API server did not answer."""
        return self._sources.errors

    def table(self, peers: Iterable[Peer]) -> Table:
        """Return the table.

        :param peers: machines whose word counts, this one among them.
        :raises NotYetError: the API server has not told of everything yet. What is in the kernel is
            right until it has.
        """
        pods = self._sources.pods.copy()
        # Before namespaces: of one whose policies are gone, it is known that it is leaving.
        policies = self._sources.policies.copy()
        namespaces = self._sources.namespaces.copy()
        if pods is None or namespaces is None or policies is None:
            raise NotYetError("the API server has not told of all pods and policies yet")
        self._policies = policies = lasting(self._policies, policies, namespaces)
        ranges = {peer.name: peer.pods for peer in peers}
        here = sandboxes.read(self._settings.sandboxes, self._settings.network)
        told = (pods, namespaces, policies, ranges, here)
        if told != self._told:
            own = residents(pods, here, self._settings.node, self._settings.pods)
            places = ranges[self._settings.node]
            verdicts = None
            if policies:
                known = located(pods.values(), {**ranges, self._settings.node: ()})
                spaces = {name: one.labels for name, one in namespaces.items()}
                verdicts = compile_(
                    spaces, [*known.values(), *own.values()], policies.values(), own
                )
            self._table, self._told = filters.table(verdicts, places), told
        return self._table


def lasting(
    before: Mapping[str, Policy], now: Mapping[str, Policy], namespaces: Mapping[str, Namespace]
) -> Mapping[str, Policy]:
    """Return the policies that hold: those of a namespace that is being deleted to its end.

    Else its pods would be free while they end (CVE-2024-7598).
    """
    kept = {
        name: policy
        for name, policy in before.items()
        if name not in now
        and policy.namespace in namespaces
        and namespaces[policy.namespace].leaving
    }
    return {**now, **kept}


def residents(
    pods: Mapping[str, Pod], here: Mapping[str, str], node: str, network: IPv4Network
) -> dict[str, Pod]:
    """Return this machine's pods by address.

    :param pods: all, by ``namespace/name``.
    :param here: ``namespace/name`` by address, as ``sandboxes.read`` gives it.
    :param network: of all pods.
    """
    mine = {name: pod for name, pod in pods.items() if pod.node == node}
    found = {
        pod.address: pod
        for pod in sorted(mine.values(), key=lambda one: one.created)
        if pod.address not in here and _is_in(pod.address, (network,))
    }
    for address, name in here.items():
        if name in mine and _is_in(address, (network,)):
            found[address] = dataclasses.replace(mine[name], address=address)
    return found


def located(pods: Iterable[Pod], ranges: Mapping[str, tuple[IPv4Network, ...]]) -> dict[str, Pod]:
    """Return pods by address, which is in a range of their machine; the newest of several."""
    return {
        pod.address: pod
        for pod in sorted(pods, key=lambda one: one.created)
        if _is_in(pod.address, ranges.get(pod.node, ()))
    }


def _is_in(address: str, networks: Iterable[IPv4Network]) -> bool:
    try:
        return bool(address) and any(IPv4Address(address) in network for network in networks)
    except ValueError:
        return False
