"""Knot has what it was told, whole or not at all, also when somebody was killed."""

from __future__ import annotations

import signal

import pytest
from metalk8s_dns.authority import AuthorityError, Change, Held
from metalk8s_dns.records import Record
from question import ask

ZONE = "cluster.local."
NOTHING = Held("", frozenset())
FIRST = frozenset(
    {
        Record(ZONE, "NS", f"ns.dns.{ZONE}"),
        Record(f"ns.dns.{ZONE}", "A", "10.96.0.10"),
        Record(f"dns-version.{ZONE}", "TXT", '"1.1.0"'),
        Record(f"s.default.svc.{ZONE}", "A", "10.233.0.1"),
        Record(f"s.default.svc.{ZONE}", "A", "10.233.0.2"),
        Record(f"_http._tcp.s.default.svc.{ZONE}", "SRV", f"0 100 80 s.default.svc.{ZONE}"),
        Record(f"e.default.svc.{ZONE}", "CNAME", "www.example.com."),
        Record(f"v.default.svc.{ZONE}", "AAAA", "::ffff:1.2.3.4"),
    }
)


@pytest.fixture
def knot(bed):
    bed.start_knot()
    return bed


def added(*records):
    return Change(frozenset(), frozenset(records))


def test_what_was_written_is_read(knot):
    assert knot.authority.read(ZONE) == NOTHING
    held = knot.authority.apply(ZONE, NOTHING, added(*FIRST))
    assert knot.authority.read(ZONE) == held == Held(held.serial, FIRST)
    assert knot.authority.serials((ZONE, "96.10.in-addr.arpa.")) == {
        ZONE: held.serial,
        "96.10.in-addr.arpa.": "",
    }
    gone = Record(f"s.default.svc.{ZONE}", "A", "10.233.0.1")
    new = Record(f"s.default.svc.{ZONE}", "A", "10.233.0.3")
    after = knot.authority.apply(ZONE, held, Change(frozenset({gone}), frozenset({new})))
    assert knot.authority.read(ZONE) == after == Held(after.serial, FIRST - {gone} | {new})
    assert int(after.serial) > int(held.serial)


def test_a_refused_change_changes_nothing(knot):
    held = knot.authority.apply(ZONE, NOTHING, added(*FIRST))
    good, bad = Record(f"a.{ZONE}", "A", "10.0.0.1"), Record(f"b.{ZONE}", "A", "no address")
    with pytest.raises(AuthorityError, match=r"cluster\.local\. b\.cluster\.local\. A no address"):
        knot.authority.apply(ZONE, held, added(good, bad))
    assert knot.authority.read(ZONE) == held
    many = [Record(f"n{number}.{ZONE}", "A", "10.0.0.1") for number in range(200)]
    with pytest.raises(AuthorityError, match="no address"):
        knot.authority.apply(ZONE, held, added(bad, *many))
    refused = [Record(f"n{number}.{ZONE}", "A", "no address") for number in range(2000)]
    with pytest.raises(AuthorityError, match="no address"):
        knot.authority.apply(ZONE, held, added(*refused))
    assert knot.authority.apply(ZONE, held, added(good)).records == FIRST | {good}


def test_a_transaction_that_nobody_finished_is_given_up(knot):
    from metalk8s_dns import authority

    held = knot.authority.apply(ZONE, NOTHING, added(*FIRST))
    with knot.authority._connected() as control:
        authority._tell(control, authority._command("zone-begin", ZONE))
        new = Record(f"a.{ZONE}", "A", "10.0.0.1")
        authority._tell(control, authority._command("zone-set", ZONE, new))
    new = Record(f"b.{ZONE}", "A", "10.0.0.2")
    assert knot.authority.apply(ZONE, held, added(new)).records == FIRST | {new}
    assert knot.authority.read(ZONE).records == FIRST | {new}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart_it_answers_without_anybody(knot, how):
    held = knot.authority.apply(ZONE, NOTHING, added(*FIRST))
    knot.stop("knotd", how)
    with pytest.raises(AuthorityError, match=r"knot\.sock"):
        knot.authority.read(ZONE)
    knot.start_knot()
    assert knot.authority.read(ZONE) == held
    found = ask(knot.settings.authority_port, f"S.Default.svc.{ZONE}")
    assert found.data == ["A 10.233.0.1", "A 10.233.0.2"]
