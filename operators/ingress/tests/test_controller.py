"""What the program does about Ingresses that HAProxy does not take, and before it knows enough."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from metalk8s_ingress import objects, reports, settings
from metalk8s_ingress.cluster import Seen
from metalk8s_ingress.controller import Controller
from metalk8s_ingress.model import Model, Problem
from metalk8s_ingress.proxy import RejectedError
from metalk8s_operators.report import Health
from test_routes import known
from things import ingress, node, rule


class Cluster:
    def __init__(self, items):
        found = known(items)
        nodes = {"one": objects.node(node("one", "192.0.2.1", "192.0.2.2"))}
        self.told = Seen(found.ingresses, {}, found.classes, found.services, {}, nodes)

    def seen(self):
        return self.told

    def errors(self):
        return 0


class Secrets:
    errors = 0
    is_there = True

    wanted = frozenset()

    def __init__(self):
        self.held = {}

    def want(self, wanted, *, anew=False):
        self.wanted = wanted

    def is_complete(self, wanted):
        """Tell whether all were read: only what was asked for is."""
        return self.is_there and wanted <= self.wanted

    def copy(self):
        return self.held


class Proxy:
    """Takes no Ingress whose hosts or certificates have a word."""

    reloads = told = 0

    def __init__(self, words):
        self.words, self.has, self.checks = words, None, 0

    def check(self, model):
        self.checks += 1
        said = [*model.prefix, *model.certificates.values()]
        bad = [text for text in said if any(word in text for word in self.words)]
        return "always" if "always" in self.words else " ".join(bad)

    def apply(self, model):
        if why := self.check(model):
            raise RejectedError(why)
        is_other = self.has != model.prefix
        self.has = dict(model.prefix)
        return is_other


class Reports:
    errors = 0

    def __init__(self):
        self.problems = []

    def tell(self, _seen, _model, problems):
        self.problems = problems
        return True


@pytest.fixture
def start():
    def make(items, words=()):
        chosen = settings.read([
            "watch", "--controller=metalk8s.scality.com/ingress", "--service=a/b", "--node=one",
            "--plane=workload", "--https=443", "--metrics=1", "--health=2", "--fallback=a/c",
        ])  # fmt: skip
        parts = Cluster(items), Secrets(), Proxy(words), Reports()
        health = Health()
        return Controller(chosen, *parts, health, threading.Event()), health, *parts

    return make


def site(number, host):
    return ingress(f"n{number:02}", rule(host, ("/", "Prefix", "s0")), age=number)


def test_those_that_haproxy_does_not_take_are_found_and_left_out(start, capsys):
    items = [site(number, f"h{number}.example") for number in range(40)]
    items[7], items[30] = site(7, "bad.example"), site(30, "worse.example")
    controller, health, cluster, _, proxy, reports = start(items, ("bad", "worse"))
    assert controller.compare()
    assert len(proxy.has) == 38
    assert proxy.checks < 40, "one by one"
    left_out = {one.ingress for one in reports.problems if "left out" in one.message}
    assert left_out == {"shop/n07", "shop/n30"}
    assert health.answer("/readyz")[0] == 200
    # They stay out until they are others.
    before = proxy.checks
    assert controller.compare()
    assert proxy.checks - before == 1
    cluster.told.ingresses["shop/n07"] = objects.ingress(site(7, "good.example"))
    assert controller.compare()
    assert len(proxy.has) == 39


def test_one_left_out_for_its_secret_comes_back_with_another(start, capsys):
    """Nobody has to change the Ingress, whose fault it is not."""
    tls = [{"hosts": ["a.example"], "secretName": "cert"}]
    one = ingress("one", rule("a.example", ("/", "Prefix", "s0")), tls=tls, age=9)
    controller, _, _, secrets, proxy, reports = start([one, site(1, "b.example")], ("bad",))
    secrets.held = {"shop/cert": "a bad one"}
    assert controller.compare()
    assert list(proxy.has) == ["b.example/"]
    before = proxy.checks
    assert controller.compare()
    assert proxy.checks - before == 1, "it is not tried again with the same"
    secrets.held = {"shop/cert": "a good one"}
    assert controller.compare()
    assert sorted(proxy.has) == ["a.example/", "b.example/"]
    assert reports.problems == []


def test_when_it_is_nobodys_fault_those_before_hold(start, capsys):
    controller, health, _, _, proxy, _ = start([site(1, "a.example")])
    assert controller.compare()
    proxy.words = ("always",)
    assert not controller.compare()
    assert list(proxy.has) == ["a.example/"]
    assert health.answer("/readyz")[0] == 200, "it takes requests as before"
    metrics = dict(line.split() for line in health.answer("/metrics")[1].splitlines())
    assert (metrics["metalk8s_ingress_stuck"], metrics["metalk8s_ingress_failures"]) == ("1", "1")


def test_it_begins_without_any_ingress(start):
    """A machine that joins, or a new cluster, takes requests to say that nobody is there."""
    controller, health, _, secrets, proxy, _ = start([])
    assert controller.compare()
    assert (proxy.has, health.answer("/readyz")[0]) == ({}, 200)
    assert secrets.wanted == {"a/c"}


def test_a_node_whose_address_is_none_stops_nobody_else(start, clock):
    """Its own pod waits and says for what; those of others write statuses without it."""
    controller, health, cluster, _, proxy, _ = start([site(1, "a.example")])
    seen, bad = cluster.told, objects.node(node("two", "x", "192.0.2.4"))
    seen.nodes["two"] = bad
    members = (("192.0.2.1", "one"), ("192.0.2.4", "two"))
    seen.endpoints["a/b"] = (objects.Subset(members, ()),)
    client = Client()
    controller._reports = reports.Reports(controller._settings, client)
    controller.compare()
    clock.now += reports.QUIET
    assert controller.compare()
    assert client.sent == [("PATCH", "status")]
    assert list(proxy.has) == ["a.example/"]
    other, health, cluster, *_ = start([])
    cluster.told.nodes["one"] = bad
    other.compare()
    status, text = health.answer("/readyz")
    assert (status, objects.WORKLOAD_ADDRESS in text) == (503, True)


class Client:
    def __init__(self):
        self.sent = []

    def write(self, method, path, document, content=""):
        self.sent.append((method, path.rpartition("/")[2]))


@pytest.fixture
def clock(monkeypatch):
    """Tell the time as an object with ``now``."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(reports.time, "monotonic", lambda: found.now)
    return found


def test_what_nobody_could_say_yet_is_said_later(start, clock):
    """Before its pod is ready, no machine speaks."""
    controller, _, cluster, *_ = start([site(1, "a.example")])
    chosen = controller._settings  # as the program has it
    client = Client()
    speaks, sent = reports.Reports(chosen, client), client.sent
    seen, one = cluster.told, cluster.told.ingresses["shop/n01"]
    problem = Problem("shop/n01", "it is bad")
    made = Model(accepted=[one])
    assert speaks.tell(seen, made, [problem])
    assert not sent
    seen.endpoints["a/b"] = (objects.Subset((("192.0.2.1", "one"),), ()),)
    speaks.tell(seen, made, [problem])
    clock.now += reports.QUIET
    assert speaks.tell(seen, made, [problem])
    assert sent == [("POST", "events"), ("PATCH", "status")]


def test_a_status_waits_until_nobody_changes_its_ingress(start, clock):
    """Who reads an Ingress and writes it at once is not refused for our word in between."""
    controller, _, cluster, *_ = start([site(1, "a.example")])
    client, seen = Client(), cluster.told
    speaks = reports.Reports(controller._settings, client)
    seen.endpoints["a/b"] = (objects.Subset((("192.0.2.1", "one"),), ()),)
    made = Model(accepted=[seen.ingresses["shop/n01"]])
    for version in range(5):
        seen.statuses["shop/n01"] = objects.Status(str(version), ("169.1.1.1",))
        assert not speaks.tell(seen, made, [])
        clock.now += reports.QUIET * 0.9
        assert not speaks.tell(seen, made, []), "it is asked again"
    assert not client.sent
    clock.now += reports.QUIET
    assert speaks.tell(seen, made, [])
    assert client.sent == [("PATCH", "status")]
    seen.statuses["shop/n01"] = objects.Status("9", ("192.0.2.1",))
    clock.now += reports.QUIET
    assert speaks.tell(seen, made, [])
    assert client.sent == [("PATCH", "status")]


def test_an_ingress_that_never_rests_gets_its_status(start, clock):
    """Not soon, but it does: a program may write it all the time."""
    controller, _, cluster, *_ = start([site(1, "a.example")])
    client, seen = Client(), cluster.told
    speaks = reports.Reports(controller._settings, client)
    seen.endpoints["a/b"] = (objects.Subset((("192.0.2.1", "one"),), ()),)
    made = Model(accepted=[seen.ingresses["shop/n01"]])
    began = clock.now
    while not client.sent and clock.now < began + 2 * reports.PATIENCE:
        seen.statuses["shop/n01"] = objects.Status(str(clock.now), ())
        speaks.tell(seen, made, [])
        clock.now += reports.QUIET / 2
    assert reports.PATIENCE <= clock.now - began <= reports.PATIENCE + reports.QUIET


def test_it_begins_when_it_knows_all(start):
    controller, health, cluster, secrets, proxy, _ = start([site(1, "a.example")])
    told, cluster.told = cluster.told, None
    controller.compare()
    assert (proxy.has, health.answer("/readyz")[0]) == (None, 503)
    cluster.told, secrets.is_there = told, False
    controller.compare()
    assert (proxy.has, health.answer("/readyz")[0]) == (None, 503)
    secrets.is_there = True
    node_, cluster.told.nodes["one"] = cluster.told.nodes["one"], objects.Node("", "")
    controller.compare()
    assert proxy.has is None
    cluster.told.nodes["one"] = node_
    controller.compare()
    assert health.answer("/readyz")[0] == 200
    assert list(proxy.has) == ["a.example/"]
