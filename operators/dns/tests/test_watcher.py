"""The program compares what is known with what Knot has, and changes what differs."""

from __future__ import annotations

import contextlib
import threading
from ipaddress import IPv4Address

import pytest
from metalk8s_dns import objects, records, watcher
from metalk8s_dns.authority import AuthorityError, Held
from metalk8s_dns.cache import CacheError
from metalk8s_dns.catalog import Catalog
from metalk8s_dns.watcher import Watcher
from metalk8s_operators.report import Health
from things import endpoints, headless, pod, port, service, subset
from waiting import until

DOMAIN, REVERSE = "cluster.local.", ("96.10.in-addr.arpa.", "233.10.in-addr.arpa.")

READ = {"services": objects.service, "endpoints": objects.endpoints, "pods": objects.pod}


class Known:
    def __init__(self):
        self.items = {"services": {}, "endpoints": {}, "pods": {}}

    def put(self, kind, item):
        key = f"default/{item['metadata']['name']}"
        self.items[kind] = {**self.items[kind], key: READ[kind](item)}

    def services(self):
        return self.items["services"]

    def endpoints(self):
        return self.items["endpoints"]

    def pods(self):
        return self.items["pods"]

    def errors(self):
        return 0


class Zones:
    """A Knot of dictionaries."""

    def __init__(self):
        self.held, self.applied, self.reads, self.fails = {}, [], 0, 0

    def _check(self):
        if self.fails:
            self.fails -= 1
            raise AuthorityError("not there")

    def read(self, zone):
        self._check()
        self.reads += 1
        return self.held.get(zone, Held("", frozenset()))

    def serials(self, zones):
        self._check()
        return {zone: self.read(zone).serial for zone in zones}

    def apply(self, zone, before, change):
        self._check()
        assert before == self.held.get(zone, Held("", frozenset()))
        serial = str(int(before.serial or 0) + 1)
        self.held[zone] = Held(serial, before.records - change.removed | change.added)
        self.applied.append((zone, change))
        return self.held[zone]


class Answers:
    def __init__(self):
        self.forgotten, self.fails = [], False

    def forget(self, changed, zones):
        if self.fails:
            raise CacheError("not there")
        self.forgotten.append(sorted(changed))


class Bench:
    def __init__(self):
        self.known, self.zones, self.answers = Known(), Zones(), Answers()
        self.health, self.heard = Health(), threading.Event()
        catalog = Catalog(DOMAIN, IPv4Address("10.96.0.10"), REVERSE)
        self.watcher = Watcher(
            catalog, self.known, self.zones, self.answers, self.health, self.heard
        )

    def lines(self, zone=DOMAIN):
        found = self.zones.held[zone].records
        return sorted(" ".join(one).replace(f".{DOMAIN}", "") for one in found)


ALWAYS = ["cluster.local. NS ns.dns", 'dns-version TXT "1.1.0"', "ns.dns A 10.96.0.10"]


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize("kind", ["services", "endpoints", "pods"])
def test_nothing_is_done_before_all_is_known(bench, kind):
    bench.known.items[kind] = None
    assert not bench.watcher.compare()
    assert bench.zones.held == {}
    status, text = bench.health.answer("/readyz")
    assert (status, "has not told" in text) == (503, True)


def test_ready_when_the_zones_have_it(bench):
    bench.known.put("services", service("s", "10.96.0.7"))
    bench.known.put("pods", pod("p", "10.233.0.9"))
    assert bench.watcher.compare()
    assert bench.health.answer("/readyz") == (200, "ok\n")
    assert bench.lines() == sorted(
        [*ALWAYS, "10-233-0-9.default.pod A 10.233.0.9", "s.default.svc A 10.96.0.7"]
    )
    assert bench.lines(REVERSE[0]) == [
        "7.0.96.10.in-addr.arpa. PTR s.default.svc",
        "96.10.in-addr.arpa. NS ns.dns",
    ]
    assert bench.lines(REVERSE[1]) == ["233.10.in-addr.arpa. NS ns.dns"]
    assert "metalk8s_dns_records 8\n" in bench.health.answer("/metrics")[1]


def test_a_change_touches_what_differs(bench):
    bench.known.put("services", headless("s"))
    bench.known.put("endpoints", endpoints("s", subset(["10.233.0.1 a"])))
    bench.watcher.compare()
    bench.zones.applied.clear()
    bench.watcher.compare()
    assert bench.zones.applied == []
    bench.known.put("endpoints", endpoints("s", subset(["10.233.0.2 a"])))
    bench.watcher.compare()
    changes = {zone: (change.removed, change.added) for zone, change in bench.zones.applied}
    assert {zone: tuple(map(len, change)) for zone, change in changes.items()} == {
        DOMAIN: (2, 2),
        REVERSE[1]: (1, 1),
    }
    assert bench.answers.forgotten[-1] == [
        "1.0.233.10.in-addr.arpa.",
        "2.0.233.10.in-addr.arpa.",
        f"a.s.default.svc.{DOMAIN}",
        f"s.default.svc.{DOMAIN}",
    ]


def test_an_address_of_others_has_no_reverse_name_of_ours(bench):
    bench.known.put("services", headless("s"))
    bench.known.put("endpoints", endpoints("s", subset(["192.168.1.1 a"])))
    assert bench.watcher.compare()
    assert "a.s.default.svc A 192.168.1.1" in bench.lines()
    assert set(bench.zones.held) == {DOMAIN, *REVERSE}
    assert [bench.lines(zone) for zone in REVERSE] == [[f"{zone} NS ns.dns"] for zone in REVERSE]


def test_a_knot_that_began_anew_is_filled(bench):
    bench.known.put("services", service("s", "10.96.0.7"))
    bench.watcher.compare()
    before = {zone: held.records for zone, held in bench.zones.held.items()}
    bench.zones.held = {}
    assert bench.watcher.compare()
    assert {zone: held.records for zone, held in bench.zones.held.items()} == before


def test_what_a_knot_kept_is_not_written_again(bench):
    bench.known.put("services", service("s", "10.96.0.7"))
    bench.watcher.compare()
    other = Bench()
    other.known.items, other.zones.held = bench.known.items, bench.zones.held
    assert other.watcher.compare()
    assert other.zones.applied == []


def test_a_failure_is_told_and_mended(bench):
    bench.watcher.compare()
    bench.zones.fails = 1
    assert not bench.watcher.compare()
    assert bench.health.answer("/readyz") == (503, "not there\n")
    assert bench.watcher.compare()
    assert bench.health.answer("/readyz") == (200, "ok\n")


def test_an_unbound_that_does_not_forget_does_not_hold_up(bench, capsys):
    bench.answers.fails = True
    assert bench.watcher.compare()
    assert "not there" in capsys.readouterr().err


def test_a_service_with_too_many_records_is_named_once_and_harms_none(bench, capsys):
    def put(count):
        addresses = [f"10.233.{number >> 8}.{number & 255}" for number in range(count)]
        ports = [port(number, f"p{number}") for number in range(1, 700)]
        bench.known.put("endpoints", endpoints("big", subset(addresses, ports=ports)))
        assert bench.watcher.compare()
        return capsys.readouterr().err.count("Service default/big would have more than")

    bench.known.put("services", headless("big"))
    bench.known.put("services", service("s", "10.96.0.7"))
    assert [put(700), put(701), put(1), put(700)] == [1, 0, 0, 1]
    assert len(bench.lines()) < records.MOST + 10
    assert "s.default.svc A 10.96.0.7" in bench.lines()
    bench.known.items["services"] = {}
    assert put(700) == 0
    assert bench.lines() == ALWAYS


def written_before(bench):
    """Return another one whose zones have everything: at its start it changes nothing."""
    bench.watcher.compare()
    other = Bench()
    other.known.items, other.zones.held = bench.known.items, bench.zones.held
    return other


@contextlib.contextmanager
def running(bench):
    stop = threading.Event()
    thread = threading.Thread(target=bench.watcher.run, args=(stop,))
    thread.start()
    yield
    stop.set()
    bench.heard.set()
    thread.join(10)
    assert not thread.is_alive()


def test_the_first_change_is_written_at_once(bench, monkeypatch):
    """However long those that follow would be waited for."""
    monkeypatch.setattr(watcher, "GATHER", 3600.0)
    bench = written_before(bench)
    with running(bench):
        until(lambda: bench.health.answer("/readyz")[0] == 200, "the first comparison")
        bench.known.put("pods", pod("p", "10.233.0.1"))
        bench.heard.set()
        until(lambda: len(bench.zones.applied) == 1, "the change")
        bench.known.put("pods", pod("q", "10.233.0.2"))
        bench.heard.set()
    assert len(bench.zones.applied) == 1


def test_changes_of_a_moment_go_together(bench, monkeypatch):
    monkeypatch.setattr(watcher, "GATHER", 1.0)
    with running(bench):
        until(lambda: len(bench.zones.applied) == 3, "the first comparison")
        for number in range(1, 6):
            bench.known.put("pods", pod(f"p{number}", f"10.233.0.{number}"))
            bench.heard.set()
        until(lambda: len(bench.lines()) == 8, "the changes")
    assert len(bench.zones.applied) == 4


def test_a_failure_is_not_repeated_at_every_word(bench, monkeypatch):
    monkeypatch.setattr(watcher, "GATHER", 3600.0)
    bench.zones.fails = 99
    with running(bench):
        for _ in range(5):
            bench.heard.set()
            until(lambda: bench.zones.fails == 98, "the first comparison")
    assert bench.zones.fails == 98
