"""The machine's networks, and those of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from metalk8s_bootstrap.configuration import Network
from metalk8s_bootstrap.problems import Group, Problem
from metalk8s_bootstrap.subject import Subject


def planes(subject: Subject) -> Iterator[Problem]:
    """The machine has an address in one network of each plane."""
    addresses = subject.machine.addresses
    shown = ", ".join(f"{a} on {i or 'no interface'}" for a, i in sorted(addresses.items()))
    configuration = subject.configuration
    for networks in (configuration.control_plane, configuration.workload_plane):
        if networks and not any(a in n.cidr for n in networks for a in addresses):
            key = networks[0].key.partition("[")[0]
            tried = ", ".join(str(network.cidr) for network in networks)
            yield Problem(
                Group.NETWORK,
                configuration.place(key),
                f"{key}: no interface of this machine has an address in {tried}",
                f"Correct it, or the interface; this machine has {shown or 'no address'}.",
            )


def overlaps(subject: Subject) -> Iterator[Problem]:
    """Networks inside the cluster exist nowhere else."""
    configuration = subject.configuration
    inside = [n for n in (configuration.pods, configuration.services) if n]
    for index, network in enumerate(inside):
        outside = (*configuration.control_plane, *configuration.workload_plane)
        for other in (*inside[index + 1 :], *outside):
            if network.cidr.overlaps(other.cidr):
                yield _overlap(subject, network, other, str(other))
        for route in subject.machine.routes:
            # A default route leads everywhere, and the cluster's own leave with a second run.
            if (
                route.network.prefixlen
                and not subject.begun
                and network.cidr.overlaps(route.network)
            ):
                shown = f"a route of this machine ({route.network} on {route.interface})"
                yield _overlap(subject, network, network, shown)


def _overlap(subject: Subject, network: Network, other: Network, shown: str) -> Problem:
    line = network.line or other.line
    where = f"{subject.configuration.path}:{line}" if line else str(subject.configuration.path)
    what = f"{network} overlaps {shown}"
    return Problem(Group.NETWORK, where, what, f"Set {network.key} to a network used nowhere else.")


def host(subject: Subject) -> Iterator[Problem]:
    """The address of the API server can be reached from here, or is here."""
    wanted = subject.configuration.host
    if wanted is None or wanted in subject.machine.addresses:
        return
    if not subject.machine.routes_to(wanted):
        where = subject.configuration.place("apiServer.host")
        what = f"apiServer.host: there is no route to {wanted}, and it is none of this machine's"
        remedy = "Name an address of this machine or a VIP that it can reach, or add a route."
        yield Problem(Group.NETWORK, where, what, remedy)


def vip(subject: Subject) -> Iterator[Problem]:
    """The VIP that we move is next to this machine, and nobody has it before we do."""
    wanted, machine = subject.configuration.host, subject.machine
    if not subject.configuration.keepalived.enabled or wanted is None:
        return
    where = subject.configuration.place("apiServer.host")
    remedy = (
        "Name a free address in the network of this machine's interface, or disable keepalived."
    )
    routes = machine.routes_to(wanted)
    if routes and routes[0].gateway is not None:
        what = (
            f"apiServer.host: {wanted} is behind {routes[0].gateway}; a VIP cannot be moved there"
        )
        yield Problem(Group.NETWORK, where, what, remedy)
    if subject.begun:  # it may be ours by now
        return
    if wanted in machine.addresses:
        what = f"apiServer.host: {wanted} is this machine's own address; keepalived would take it"
        yield Problem(Group.NETWORK, where, what, remedy)
        return
    owner = machine.neighbour(wanted)
    if owner:
        what = f"apiServer.host: {wanted} is taken by a machine with the hardware address {owner}"
        yield Problem(Group.NETWORK, where, what, remedy)
