"""What the requests of a cluster's Ingresses become: a function of the objects, and of no other.

An Ingress says things one by one, and each that cannot be is left out alone, with a reason. What
two of them say differently is as the older one says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from metalk8s_ingress import names, options
from metalk8s_ingress.objects import (
    Ingress,
    IngressClass,
    Path,
    Reference,
    Rule,
    Service,
    Subset,
    Tls,
)
from metalk8s_ingress.options import Options

DEFAULT = "default"  # what requests are looked up by that fit no rule: neither host nor path
PATHS = 1000  # of an Ingress; the rest is left out
TLS = 100  # entries of an Ingress; each may name a Secret, which is one question to the API server
# Servers of a backend, and of all backends of a namespace: Endpoints of a few KB have as many as
# their addresses times their ports. Kubernetes itself writes at most 1000 addresses of a Service.
SERVERS, SERVERS_OF_NAMESPACE = 1000, 10_000
KINDS = ("Exact", "Prefix", "ImplementationSpecific")
Server = tuple[str, int]
# A Secret's certificate and key, or what is wrong with it.
Pem = str


@dataclass(frozen=True)
class Unusable:
    """Why a Secret is no certificate."""

    reason: str


@dataclass(frozen=True, order=True)
class Problem:
    """What of an Ingress has no effect."""

    ingress: str
    message: str


@dataclass(frozen=True)
class Backend:
    """A Service's port.

    :param servers: sorted, each once.
    """

    options: Options
    servers: tuple[Server, ...]


@dataclass(frozen=True)
class Objects:
    """Everything that is known, each by ``namespace/name`` or name.

    :param address: of this machine, where HAProxy listens; empty: nowhere yet.
    :param closed: addresses and ports of machines that are for machines only. They would take
        HAProxy for one.
    :param namespaces: whose Ingresses are taken; without any, all.
    """

    ingresses: Mapping[str, Ingress]
    classes: Mapping[str, IngressClass]
    services: Mapping[str, Service]
    endpoints: Mapping[str, tuple[Subset, ...]]
    secrets: Mapping[str, Pem | Unusable]
    address: str = ""
    closed: frozenset[Server] = frozenset()
    namespaces: tuple[str, ...] = ()


@dataclass
class Model:
    """What HAProxy is to do.

    :param exact: backends, by host and whole path.
    :param prefix: backends, by host and the beginning of a path.
    :param certificates: by Secret, what it holds.
    :param hosts: the Secret of each host that has one.
    :param accepted: Ingresses of our class, the oldest first.
    :param fallback: certificate and key for all other hosts; empty: the pod's own.
    :param address: where HAProxy listens; empty: nowhere.
    """

    exact: dict[str, str] = field(default_factory=dict)
    prefix: dict[str, str] = field(default_factory=dict)
    backends: dict[str, Backend] = field(default_factory=dict)
    certificates: dict[str, Pem] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    accepted: list[Ingress] = field(default_factory=list)
    fallback: Pem = ""
    address: str = ""


def ours(objects: Objects, controller: str) -> list[Ingress]:
    """Return the Ingresses that this controller looks after, the oldest first."""
    classes = {name for name, one in objects.classes.items() if one.controller == controller}
    has_default = any(objects.classes[name].is_default for name in classes)
    found = [
        one
        for one in objects.ingresses.values()
        if (has_default if one.class_name is None else one.class_name in classes)
    ]
    return sorted(found, key=lambda one: one.age)


def is_taken(objects: Objects, one: Ingress) -> bool:
    """Tell whether Ingresses of its namespace are."""
    return not objects.namespaces or one.namespace in objects.namespaces


def secrets(objects: Objects, ingresses: Iterable[Ingress]) -> frozenset[str]:
    """Return the Secrets that Ingresses name, of those that count."""
    return frozenset(
        f"{one.namespace}/{tls.secret}"
        for one in ingresses
        if is_taken(objects, one)
        for tls in one.tls[:TLS]
        if names.is_object(tls.secret)
    )


def build(objects: Objects, ingresses: Iterable[Ingress], fallback: str = "") -> Model:
    """Return what some Ingresses, the oldest first, ask for.

    :param fallback: the Secret for hosts without one.
    """
    secret = objects.secrets.get(fallback)
    model = Model(
        accepted=list(ingresses),
        fallback=secret if isinstance(secret, str) else "",
        address=objects.address,
    )
    _Builder(objects, model).build()
    return model


class _Builder:
    def __init__(self, objects: Objects, model: Model) -> None:
        self._objects, self._model = objects, model
        # Which Ingress has a key of a map: the same key means other things in the other one.
        self._taken: dict[tuple[int, str], str] = {}
        self._owner: dict[str, str] = {}  # which namespace was the first with a host
        self._claims: dict[str, str] = {}  # which Ingress says what certificate a host has
        # By backend: its servers, and what is wrong with them.
        self._found: dict[str, tuple[tuple[Server, ...], str]] = {}
        self._used: Counter[str] = Counter()  # how many servers a namespace has

    def build(self) -> None:
        taken = [one for one in self._model.accepted if self._is_taken(one)]
        for one in taken:
            for rule in one.rules:
                if names.is_host(rule.host):
                    self._owner.setdefault(rule.host, one.namespace)
        for one in taken:
            encrypted = self._encrypt(one)
            self._route(one, encrypted)

    def _is_taken(self, one: Ingress) -> bool:
        if is_taken(self._objects, one):
            return True
        allowed = ", ".join(self._objects.namespaces)
        self._refuse(one, f"this class is for namespaces {allowed}")
        return False

    def _refuse(self, one: Ingress, message: str) -> None:
        self._model.problems.append(Problem(one.key, message))

    def _route(self, one: Ingress, encrypted: set[str]) -> None:
        chosen, problems = options.read(one.choices)
        for problem in problems:
            self._refuse(one, problem)
        left = PATHS
        for rule in one.rules:
            if rule.host and not names.is_host(rule.host):
                self._refuse(one, f"host {rule.host[:64]!r} is none that a request can name")
                continue
            if len(rule.paths) > left:
                self._refuse(one, f"it has more than {PATHS} paths: the last are left out")
            self._rule(one, rule, rule.paths[:left], options.chosen(rule.host in encrypted, chosen))
            left -= len(rule.paths[:left])
        if one.default is not None:
            backend = self._backend(one, one.default, options.chosen("" in encrypted, chosen))
            self._take(one, self._model.exact, DEFAULT, backend, "its default backend")

    def _rule(self, one: Ingress, rule: Rule, paths: Iterable[Path], chosen: Options) -> None:
        for path in paths:
            where = f"{rule.host or 'any host'}, path {path.path[:64]!r}"
            if path.kind not in KINDS or not names.is_path(path.path):
                self._refuse(one, f"{where}: it is none that a request can have")
                continue
            backend = self._backend(one, path.backend, chosen)
            if path.kind == "Exact":
                key, table = names.exact(rule.host, path.path), self._model.exact
            else:
                key, table = names.prefix(rule.host, path.path), self._model.prefix
            self._take(one, table, key, backend, f"{where} ({path.kind})")

    def _take(self, one: Ingress, table: dict[str, str], key: str, backend: str, what: str) -> None:
        """Let a request go somewhere, unless an older Ingress says where."""
        if not backend:
            return
        if key in table:
            older = self._taken[id(table), key]
            if older != one.key:
                self._refuse(one, f"{what}: the older Ingress {older} has it")
            elif table[key] != backend:
                self._refuse(one, f"{what}: it stands there twice, and the first one holds")
            return
        table[key] = backend
        self._taken[id(table), key] = one.key

    def _backend(self, one: Ingress, asked: Reference, chosen: Options) -> str:
        """Return the name of a backend; empty: it can never be one."""
        port = str(asked.port)
        if asked.problem:
            self._refuse(one, asked.problem)
            return ""
        if not names.is_object(asked.service) or not names.is_object(port):
            self._refuse(one, f"Service {asked.service[:64]!r}, port {port[:64]!r} can be none")
            return ""
        name = names.backend(one.namespace, asked.service, asked.port, chosen)
        if name not in self._found:
            self._found[name] = self._servers(one.namespace, asked)
        servers, problem = self._found[name]
        if problem:
            self._refuse(one, f"{problem}; without a server, requests are answered with 503")
        self._model.backends[name] = Backend(chosen, servers)
        return name

    def _servers(self, namespace: str, asked: Reference) -> tuple[tuple[Server, ...], str]:
        key, port = f"{namespace}/{asked.service}", asked.port
        service = self._objects.services.get(key)
        if service is None:
            return (), f"there is no Service {key}"
        if service.kind == "ExternalName":
            return (), f"Service {key} is of type ExternalName, which is not supported"
        known = [one.name for one in service.ports if port in (one.number, one.name)]
        if not known:
            return (), f"Service {key} has no TCP port {port}"
        room = min(SERVERS, SERVERS_OF_NAMESPACE - self._used[namespace])
        every = _behind(self._objects.endpoints.get(key) or (), known[0])
        found = frozenset(islice(every, room))
        left = found - self._objects.closed
        self._used[namespace] += len(left)
        problems = []
        if next(every, None):
            problems.append(
                f"Service {key} has too many servers: of a Service's port, {SERVERS} are taken, "
                f"of a namespace, {SERVERS_OF_NAMESPACE}; the last are left out"
            )
        if left != found:
            problems.append(f"Service {key} leads to ports that are for machines only")
        return tuple(sorted(left)), "; ".join(problems)

    def _encrypt(self, one: Ingress) -> set[str]:
        """Give hosts their certificates; return the hosts that are there with TLS."""
        encrypted: set[str] = set()
        # In the order of the rules, and looked up: there may be thousands.
        own = dict.fromkeys(rule.host for rule in one.rules)
        if len(one.tls) > TLS:
            self._refuse(one, f"it has more than {TLS} entries of tls: the last are left out")
        for tls in one.tls[:TLS]:
            if not tls.hosts and not any(own):
                encrypted.add("")
            for host in dict.fromkeys(tls.hosts or filter(None, own)):
                problem = self._claim(one, tls, host, own.keys())
                if problem:
                    self._refuse(one, f"TLS of host {host[:64]!r}: {problem}")
                else:
                    encrypted.add(host)
        return encrypted

    def _claim(self, one: Ingress, tls: Tls, host: str, own: AbstractSet[str]) -> str:
        """Let a host have a certificate; return why it cannot."""
        if not names.is_host(host) or host not in own:
            return "it is no host of this Ingress's rules"
        if self._owner[host] != one.namespace:
            return f"namespace {self._owner[host]} had the host before"
        if not tls.secret:
            return ""
        key = f"{one.namespace}/{tls.secret}"
        if host in self._claims:
            older = self._claims[host]
            same = self._model.hosts.get(host) == key
            return "" if same else f"the older Ingress {older} has a certificate for it"
        secret = self._objects.secrets.get(key)
        if secret is None or isinstance(secret, Unusable):
            reason = "it is not there" if secret is None else secret.reason
            self._refuse(
                one, f"Secret {tls.secret[:64]!r}: {reason}; the default certificate is used"
            )
            return ""
        self._claims[host] = one.key
        self._model.hosts[host] = key
        self._model.certificates[key] = secret
        return ""


def _behind(subsets: Iterable[Subset], port: str) -> Iterator[Server]:
    """Give one after the other: all of them may be more than fit into memory."""
    for subset in subsets:
        for behind in subset.ports:
            if behind.name == port:
                for address, _ in subset.addresses:
                    yield address, behind.number
