"""From policies and pods to what each pod of this machine may get and send.

A function of what it is given. Pods to which the same rules apply share one answer: how many
policies there are, and how many of them select a pod, is settled here and no more with each packet.
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from metalk8s_pod_network.isolation.allowed import ALL, NONE, Allowed, Ports, apart, join, parts
from metalk8s_pod_network.isolation.pods import Labels, Pod
from metalk8s_pod_network.isolation.policies import Block, Party, Policy, Port, Rule

# Of a digest, in names. Who writes policies must not find one whose name is another's by trying.
DIGITS = 32
# Of ports that have a name: that and the protocol.
Names = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Verdicts:
    """What holds for this machine's pods.

    :param known: addresses of its pods.
    :param ingress: who is isolated from what comes: name of what is allowed, by address.
    :param egress: the same of what goes.
    :param allowed: by that name.
    """

    known: frozenset[str]
    ingress: Mapping[str, str]
    egress: Mapping[str, str]
    allowed: Mapping[str, Allowed]


def compile_(
    namespaces: Mapping[str, Labels],
    pods: Iterable[Pod],
    policies: Iterable[Policy],
    own: Mapping[str, Pod],
) -> Verdicts:
    """Say what this machine's pods may get and send.

    :param namespaces: labels by name.
    :param pods: all with an address, each address once.
    :param own: this machine's by address.
    """
    cluster = _Cluster(namespaces, pods)
    by_namespace: dict[str, list[Policy]] = defaultdict(list)
    for policy in policies:
        by_namespace[policy.namespace].append(policy)
    ingress: dict[str, str] = {}
    egress: dict[str, str] = {}
    allowed: dict[str, Allowed] = {}
    for address, pod in own.items():
        words = dict(pod.labels)
        chosen = [one for one in by_namespace.get(pod.namespace, ()) if one.pods.fits(words)]
        incoming = [one.ingress for one in chosen if one.ingress is not None]
        outgoing = [one.egress for one in chosen if one.egress is not None]
        if incoming:
            rules = frozenset(_own(rule, pod) for rules in incoming for rule in rules)
            ingress[address] = cluster.allow("in", pod.namespace, rules, allowed)
        if outgoing:
            rules = frozenset(rule for rules in outgoing for rule in rules)
            egress[address] = cluster.allow("out", pod.namespace, rules, allowed)
    return Verdicts(frozenset(own), ingress, egress, allowed)


def _own(rule: Rule, pod: Pod) -> Rule:
    """Put numbers in the place of names of a pod's own ports, in a rule on what it gets."""
    if not any(isinstance(port.port, str) for port in rule.ports):
        return rule
    ports = [
        Port(protocol, number)
        for port in rule.ports
        for protocol, number in sorted(resolve((port,), pod))
    ]
    # A port that is not there is no port, which is another thing than "each".
    return Rule(tuple(ports), rule.parties if ports else (), rule.anybody and bool(ports))


def resolve(ports: Iterable[Port], pod: Pod | None) -> Ports:
    """Return the ports that are meant at a pod, or at an address that is none's."""
    found = set()
    for one in ports:
        if isinstance(one.port, str):
            named = pod.ports if pod else ()
            found |= {(p, n) for name, p, n in named if (name, p) == (one.port, one.protocol)}
        else:
            found.add((one.protocol, one.port or 0))
    return frozenset(found)


class _Cluster:
    """All pods, by labels: what selects one of a set of replicas selects them all."""

    def __init__(self, namespaces: Mapping[str, Labels], pods: Iterable[Pod]) -> None:
        self._labels = {name: dict(labels) for name, labels in namespaces.items()}
        self._alike: dict[str, dict[Labels, list[Pod]]] = defaultdict(lambda: defaultdict(list))
        for pod in pods:
            self._alike[pod.namespace][pod.labels].append(pod)
        self._select = functools.cache(self._selected)
        self._names: dict[tuple[str, str, frozenset[Rule]], str] = {}

    def allow(
        self, way: str, namespace: str, rules: frozenset[Rule], allowed: dict[str, Allowed]
    ) -> str:
        """Return the name of what rules of a namespace allow, which is worked out once."""
        # Only who is meant by "the policy's own" differs between namespaces.
        parties = [party for rule in rules for party in rule.parties]
        own = any(one.block is None and one.namespaces is None for one in parties)
        key = (way, namespace if own else "", rules)
        if key not in self._names:
            words = f"{key[:2]} {sorted(map(_words, rules))}"
            name = f"{way}_{hashlib.sha256(words.encode()).hexdigest()[:DIGITS]}"
            while name in allowed:  # equal names would give one the rules of the other
                name += "_"
            self._names[key] = name
            allowed[name] = self._work_out(rules, namespace)
        return self._names[key]

    def _work_out(self, rules: Iterable[Rule], namespace: str) -> Allowed:
        """Work out what rules allow; a port that has a name is the other end's."""
        # Each party once, with all it may: there may be thousands of rules of one port each.
        wanted: dict[Party | None, list[tuple[Ports, Names]]] = defaultdict(list)
        for rule in rules:
            ports = resolve(rule.ports, None) if rule.ports else ALL
            named = frozenset((one.port, one.protocol) for one in rule.ports
                              if isinstance(one.port, str))  # fmt: skip
            for party in (*rule.parties, *([None] if rule.anybody else [])):
                wanted[party].append((ports, named))
        union = functools.cache(join)  # many parties of one rule share its ports
        anybody = NONE
        peers: dict[str, Ports] = {}
        spans: list[tuple[int, int, Ports]] = []
        for party, found in wanted.items():
            ports = union(*(numbers for numbers, _ in found))
            named = frozenset[tuple[str, int]]().union(*(names for _, names in found))
            block = party.block if party is not None else None
            if party is not None and block is None:
                own = namespace if party.namespaces is None else ""
                _admit(peers, self._select(party, own), ports, named)
                continue
            if block is None:
                anybody = ports
            elif ports:
                spans += [(*span, ports) for span in parts(block)]
            if named:
                pods = self._everybody() if block is None else self._within(block)
                _admit(peers, pods, NONE, named)
        return Allowed(anybody, peers, apart(spans))

    def _selected(self, party: Party, namespace: str) -> tuple[Pod, ...]:
        if party.namespaces is None:
            names = [namespace]
        else:
            chosen = party.namespaces
            names = [name for name, labels in self._labels.items() if chosen.fits(labels)]
        return tuple(
            pod
            for name in names
            for labels, alike in self._alike.get(name, {}).items()
            if party.pods is None or party.pods.fits(dict(labels))
            for pod in alike
        )

    def _everybody(self) -> Iterable[Pod]:
        return (pod for alike in self._alike.values() for pods in alike.values() for pod in pods)

    def _within(self, block: Block) -> Iterable[Pod]:
        spans = parts(block)
        return (
            pod
            for pod in self._everybody()
            if any(first <= int(IPv4Address(pod.address)) <= last for first, last in spans)
        )


def _admit(peers: dict[str, Ports], pods: Iterable[Pod], ports: Ports, named: Names) -> None:
    """Let pods have ports besides what they have; those that come to have the same share one set.

    There may be thousands of pods, each with as many ports as one policy lists.
    """
    # Only for this call: what pods had before must not be kept.
    same: dict[Ports, Ports] = {}

    @functools.cache
    def union(before: Ports, more: Ports) -> Ports:
        found = join(before, more)
        return same.setdefault(found, found)

    for pod in pods:
        more = NONE
        if named:
            more = frozenset((p, n) for name, p, n in pod.ports if (name, p) in named)
        found = union(ports, more) if more else ports
        if found:
            peers[pod.address] = union(peers.get(pod.address, NONE), found)


def _words(rule: Rule) -> str:
    """Write a rule so that equal ones are written equally, in each run of the program."""

    def sort(value: object) -> object:
        if isinstance(value, frozenset):
            return sorted(map(repr, map(sort, value)))
        if isinstance(value, tuple):
            return [sort(one) for one in value]
        if hasattr(value, "__dataclass_fields__"):
            return [sort(getattr(value, name)) for name in value.__dataclass_fields__]
        return value

    return repr(sort(rule))
