"""What a pod gets when it asks: Knot, Unbound and the program together."""

from __future__ import annotations

import signal
import time
import urllib.request

import pytest
from api_server import Fault
from bed import Api
from question import Upstream, ask
from things import endpoints, external, headless, pod, port, service, subset
from waiting import until

D = "cluster.local."
HTTP = port(80, "http")


@pytest.fixture
def upstream():
    server = Upstream("192.0.2.1")
    yield server
    server.close()


@pytest.fixture
def api():
    server = Api()
    server.services.put(service("own", "10.96.0.7", HTTP, port(9)))
    server.services.put(headless("many", HTTP))
    server.services.put(headless("nobody", HTTP))
    server.services.put(external("out", "www.example.com"))
    server.services.put(external("in", f"own.default.svc.{D}"))
    addresses = ["10.233.0.1 web-0", "10.233.0.2"]
    server.endpoints.put(endpoints("many", subset(addresses, ["10.233.0.3"], [port(8080, "http")])))
    server.pods.put(pod("p", "10.233.0.9"))
    yield server
    server.close()


@pytest.fixture
def names(bed, api, upstream):
    """Give the servers, with everything in them."""
    bed.start_knot()
    bed.start_unbound(upstream.port)
    bed.start_program(api.url)
    until(lambda: ready(bed), "the program")
    return bed


def ready(bed):
    try:
        url = f"http://127.0.0.1:{bed.settings.health_port}/readyz"
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError as error:
        if hasattr(error, "close"):
            error.close()
        return False


def data(bed, name, kind="A"):
    answer = ask(bed.port, name, kind)
    return answer and (answer.code, answer.data)


def test_answers(names, upstream):
    for name, kind, expected in [
        (f"own.default.svc.{D}", "A", ["A 10.96.0.7"]),
        ("OWN.Default.SVC.Cluster.Local.", "A", ["A 10.96.0.7"]),
        (f"_http._tcp.own.default.svc.{D}", "SRV", [f"SRV 0 100 80 own.default.svc.{D}"]),
        (f"many.default.svc.{D}", "A", ["A 10.233.0.1", "A 10.233.0.2"]),
        (f"web-0.many.default.svc.{D}", "A", ["A 10.233.0.1"]),
        (f"10-233-0-9.default.pod.{D}", "A", ["A 10.233.0.9"]),
        (f"dns-version.{D}", "TXT", ["TXT 1.1.0"]),
        ("7.0.96.10.in-addr.arpa.", "PTR", [f"PTR own.default.svc.{D}"]),
        ("1.0.233.10.in-addr.arpa.", "PTR", [f"PTR web-0.many.default.svc.{D}"]),
        (f"in.default.svc.{D}", "A", ["A 10.96.0.7", f"CNAME own.default.svc.{D}"]),
        (f"out.default.svc.{D}", "A", ["A 192.0.2.1", "CNAME www.example.com."]),
        ("elsewhere.example.", "A", ["A 192.0.2.1"]),
        (f"own.default.svc.{D}", "AAAA", []),
        (f"default.svc.{D}", "A", []),
    ]:
        assert data(names, name, kind) == ("NOERROR", expected), name
    found = ask(names.port, f"_http._tcp.many.default.svc.{D}", "SRV")
    assert {(owner, data) for owner, _, data in found.additional} == {
        (f"web-0.many.default.svc.{D}", "10.233.0.1"),
        (f"10-233-0-2.many.default.svc.{D}", "10.233.0.2"),
    }
    for name, kind in [
        (f"nobody.default.svc.{D}", "A"),
        (f"_http._tcp.nobody.default.svc.{D}", "SRV"),
        (f"__._tcp.own.default.svc.{D}", "SRV"),
        (f"10-233-0-8.default.pod.{D}", "A"),
        (f"own.other.svc.{D}", "A"),
        ("8.0.96.10.in-addr.arpa.", "PTR"),
    ]:
        found = ask(names.port, name, kind)
        assert (found.code, found.data) == ("NXDOMAIN", []), name
        assert [kind for _, kind, _ in found.authority] == ["SOA"], name
    # Names of the cluster are nobody else's; those of other addresses are not ours.
    assert not [name for name in upstream.asked if name.endswith((D, "96.10.in-addr.arpa."))]
    ask(names.port, "1.1.168.192.in-addr.arpa.", "PTR")
    assert "1.1.168.192.in-addr.arpa." in upstream.asked


def test_changes_are_seen_at_once_though_answers_are_kept(names, api):
    """Longer than the TTL would mean that nothing told Unbound."""
    new, gone = f"new.default.svc.{D}", f"own.default.svc.{D}"
    for round_ in range(3):
        assert data(names, new) == ("NXDOMAIN", [])
        assert data(names, gone) == ("NOERROR", ["A 10.96.0.7"])
        began = time.monotonic()
        api.services.put(service("new", "10.96.0.8"))
        api.services.remove("own")
        until(lambda: data(names, new) == ("NOERROR", ["A 10.96.0.8"]), "the new one", 4)
        until(lambda: data(names, gone) == ("NXDOMAIN", []), "the removal", 4)
        assert time.monotonic() - began < 3, round_
        api.services.remove("new")
        api.services.put(service("own", "10.96.0.7", HTTP, port(9)))
        until(lambda: data(names, gone)[0] == "NOERROR", "as before", 4)
        until(lambda: data(names, new)[0] == "NXDOMAIN", "as before", 4)


def test_without_api_server_resolver_and_program(names, api, upstream):
    """What was known stays."""
    api.close()
    upstream.close()
    assert data(names, "elsewhere.example.") != ("NOERROR", ["A 192.0.2.1"])
    assert ready(names)
    assert data(names, f"many.default.svc.{D}") == ("NOERROR", ["A 10.233.0.1", "A 10.233.0.2"])
    assert names.stop("program") == 0
    names.stop("knotd", signal.SIGKILL)
    names.start_knot()
    until(lambda: data(names, f"in.default.svc.{D}")[0] == "NOERROR", "Knot's own memory")


@pytest.mark.parametrize(
    "seconds", [pytest.param(5, id="seconds"), pytest.param(600, marks=pytest.mark.soak)]
)
def test_an_api_server_that_comes_back(names, api, seconds):
    """Meanwhile names are answered, also by servers that are new; then what changed is there."""
    parts = (api.services, api.endpoints, api.pods)
    new, kept = f"new.default.svc.{D}", f"own.default.svc.{D}"
    for part in parts:
        part.faults += [Fault(watch, status) for status in (0, 503) for watch in (False, True)] * 99
        part.cut()
    api.services.put(service("new", "10.96.0.8"))
    names.stop("unbound", signal.SIGKILL)
    names.start_unbound()
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end or not rounds:
        assert data(names, kept) == ("NOERROR", ["A 10.96.0.7"])
        assert data(names, new) == ("NXDOMAIN", [])
        rounds += 1
        time.sleep(0.05)
    assert all(part.faults for part in parts), "it did not ask again and again"
    assert len(api.services.faults) < 4 * 99, "it did not ask at all"
    for part in parts:
        part.faults.clear()
    until(lambda: data(names, new) == ("NOERROR", ["A 10.96.0.8"]), "the new one", 90)


def test_a_knot_that_was_away_is_asked_again_within_seconds(names):
    """Unbound keeps a server in mind that did not answer, and asks it less."""
    names.stop("knotd", signal.SIGKILL)
    until(lambda: not ready(names), "the program sees it")
    end = time.monotonic() + 6
    number = 0
    while time.monotonic() < end:
        number += 1
        ask(names.port, f"n{number}.default.svc.{D}", timeout=0.5)
    names.start_knot()
    until(lambda: ready(names), "the program sees it")
    until(lambda: data(names, f"own.default.svc.{D}"), "an answer", 10)
    until(lambda: data(names, f"own.default.svc.{D}")[0] == "NOERROR", "an answer", 10)


def test_a_cluster_without_resolvers(bed, api):
    bed.start_knot()
    bed.start_unbound()
    bed.start_program(api.url)
    until(lambda: ready(bed), "the program")
    assert data(bed, "elsewhere.example.") == ("REFUSED", [])
    assert data(bed, f"own.default.svc.{D}") == ("NOERROR", ["A 10.96.0.7"])
    assert data(bed, "7.0.96.10.in-addr.arpa.", "PTR")[1] == [f"PTR own.default.svc.{D}"]


def test_many_records(bed, api):
    """The first time, and one change of them; the program keeps small."""
    for number in range(2000):
        api.pods.objects[f"p{number}"] = pod(f"p{number}", f"10.233.{number // 250}.{number % 250}")
    bed.start_knot()
    bed.start_unbound()
    bed.start_program(api.url)
    until(lambda: ready(bed), "the program")
    assert data(bed, f"10-233-7-249.default.pod.{D}") == ("NOERROR", ["A 10.233.7.249"])
    assert bed.memory("program") < 64
