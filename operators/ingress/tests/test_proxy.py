"""What a running HAProxy is told, when it is started anew, and what happens when it cannot be."""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from bed import digest
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_ingress import configuration, slots
from metalk8s_ingress.certificates import read
from metalk8s_ingress.haproxy import ProxyError
from metalk8s_ingress.model import Backend
from metalk8s_ingress.options import CHOICES, Options
from metalk8s_ingress.proxy import RejectedError
from needed import need
from test_routes import built
from things import ingress, rule, secret
from waiting import until

PATH = ("/", "Prefix", "s0")


def site(*hosts, notes=None, tls=(), age=0, name="one"):
    return ingress(name, *(rule(host, PATH) for host in hosts), notes=notes, tls=tls, age=age)


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.just(80)), unique=True, max_size=10),
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.just(80)), unique=True, max_size=10),
)
def test_who_has_a_place_keeps_it(first, second):
    before = slots.assign({}, {"b": Backend(Options(), tuple(first))})["b"]
    after = slots.assign({"b": before}, {"b": Backend(Options(), tuple(second))})["b"]
    assert sorted(filter(None, before)) == sorted(first)
    assert sorted(filter(None, after)) == sorted(second)
    assert len(after) >= max(len(before), len(second))
    for place, one in enumerate(before):
        if one in second:
            assert after[place] == one


def test_endpoints_and_paths_need_no_reload(bed, behind):
    first, second = behind.start("first"), behind.start("second")
    bed.start_haproxy()
    items = [site("a.example")]
    assert bed.proxy.apply(built(items, where={"shop/s0": first}))
    bed.settled()
    assert bed.ask("a.example", "/")[1] == "first"
    assert not bed.proxy.apply(built(items, where={"shop/s0": first}))
    bed.proxy.apply(built(items, where={"shop/s0": second}))
    assert {bed.ask("a.example", "/")[1] for _ in range(5)} == {"second"}
    bed.proxy.apply(built(items))
    assert bed.ask("a.example", "/")[0] == 503
    bed.proxy.apply(built([site("b.example")], where={"shop/s0": first}))
    assert (bed.ask("a.example", "/")[0], bed.ask("b.example", "/")[1]) == (404, "first")
    assert (bed.proxy.reloads, bed.proxy.told) == (1, 3)
    # What is on disk is what it was told.
    bed.stop("haproxy", signal.SIGKILL)
    bed.start_haproxy()
    assert bed.ask("b.example", "/")[1] == "first"


def test_maps_longer_than_one_word(bed, behind):
    where = {"shop/s0": behind.start("first")}
    bed.start_haproxy()
    for start in (0, 500):
        paths = [(f"/{'x' * 30}/{number}", "Exact", "s0") for number in range(start, start + 900)]
        bed.proxy.apply(built([ingress("one", rule("a.example", *paths))], where=where))
    bed.settled()
    assert bed.ask("a.example", f"/{'x' * 30}/1399")[1] == "first"
    assert bed.ask("a.example", f"/{'x' * 30}/0")[0] == 404
    assert (bed.proxy.reloads, bed.proxy.told) == (1, 1)


def test_one_that_began_anew_gets_everything(bed, behind):
    bed.start_haproxy()
    made = built([site("a.example")], where={"shop/s0": behind.start("first")})
    bed.proxy.apply(made)
    bed.stop("haproxy", signal.SIGKILL)
    with pytest.raises(ProxyError):
        bed.proxy.apply(made)
    bed.start_haproxy()
    assert bed.proxy.apply(made)
    bed.settled()
    assert bed.ask("a.example", "/")[1] == "first"


def test_files_that_it_does_not_take_change_nothing(bed, behind):
    bed.start_haproxy()
    items = [site("a.example")]
    made = built(items, where={"shop/s0": behind.start("first")})
    bed.proxy.apply(made)
    bed.settled()
    before = (bed.settings.current / configuration.MAIN).read_text()
    bad = built([*items, site("b.example", name="two")])
    bad.backends["x{"] = Backend(Options(), ())
    with pytest.raises(RejectedError, match=r"haproxy\.cfg"):
        bed.proxy.apply(bad)
    assert bed.proxy.check(bad)
    assert not bed.proxy.check(made)
    assert (bed.settings.current / configuration.MAIN).read_text() == before
    assert len(list(bed.settings.versions.glob("v*"))) == 1
    assert bed.ask("a.example", "/")[1] == "first"
    assert not bed.proxy.apply(made)


def test_certificates_by_name(bed, behind, pairs):
    one, two, wild = pairs("a.example"), pairs("b.example"), pairs("*.c.example")
    items = [
        ingress(name, rule(host, PATH), tls=[{"hosts": [host], "secretName": name}])
        for name, host in (("one", "a.example"), ("two", "b.example"), ("wild", "*.c.example"))
    ]
    secrets = {f"shop/{name}": read(secret(name, pair))
               for name, pair in (("one", one), ("two", two), ("wild", wild))}  # fmt: skip
    bed.start_haproxy()
    where = {"shop/s0": behind.start("first")}
    bed.proxy.apply(built(items, where=where, secrets=secrets))
    bed.settled()
    for host, pair in (("a.example", one), ("b.example", two), ("x.c.example", wild)):
        assert digest(bed.certificate(host)) == digest(pair.certificate)
        assert bed.ask(host, "/", tls=True)[1] == "first"
    own = bed.settings.own_certificate.read_text()
    for host in ("z.example", "x.y.c.example", None):
        assert digest(bed.certificate(host)) == digest(own[: own.index("-----BEGIN P")])
    # Rotated: nobody is started anew.
    new = pairs("a.example")
    secrets["shop/one"] = read(secret("one", new))
    bed.proxy.apply(built(items, where=where, secrets=secrets))
    assert digest(bed.certificate("a.example")) == digest(new.certificate)
    assert (bed.proxy.reloads, bed.proxy.told) == (1, 1)
    # One that is gone: its host has the pod's own.
    del secrets["shop/one"]
    made = built(items, where=where, secrets=secrets)
    bed.proxy.apply(made)
    bed.settled()
    assert digest(bed.certificate("a.example")) == digest(own[: own.index("-----BEGIN P")])
    assert "the default certificate is used" in made.problems[0].message


def test_hosts_with_tls_are_only_there_with_it(bed, behind, pairs):
    tls = [{"hosts": ["a.example"], "secretName": "one"}]
    secrets = {"shop/one": read(secret("one", pairs("a.example")))}
    bed.start_haproxy()
    where = {"shop/s0": behind.start("first")}
    for notes, expected in [({}, 308), ({"ssl-redirect": "false"}, 200)]:
        item = site("a.example", "b.example", notes=notes, tls=tls)
        bed.proxy.apply(built([item], where=where, secrets=secrets))
        bed.settled()
        status, _, headers = bed.ask("a.example:80", "/x?y=1")
        assert status == expected
        if expected == 308:
            assert headers["location"] == f"https://a.example:{bed.https}/x?y=1"
        assert bed.ask("a.example", "/", tls=True)[0] == 200
        assert bed.ask("b.example", "/")[0] == 200


def test_bodies_and_what_backends_hear(bed, behind):
    bed.start_haproxy()
    item = site("a.example", notes={"max-body-size": "1k", "server-timeout": "300ms"})
    bed.proxy.apply(built([item], where={"shop/s0": behind.start("first")}))
    bed.settled()
    assert bed.ask("a.example", "/", method="POST", body=b"x" * 1024)[0] == 200
    assert bed.ask("a.example", "/", method="POST", body=b"x" * 1025)[0] == 413
    for method in ("POST", "DELETE"):
        chunked = {"Transfer-Encoding": "chunked"}
        assert (
            bed.ask("a.example", "/", method=method, body=b"0\r\n\r\n", headers=chunked)[0] == 411
        )
    lies = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
    bed.ask("a.example", "/lies", headers=lies)
    head = next(head for head in behind.seen if "/lies" in head).lower()
    assert head.count("x-forwarded-for:") == 1
    assert "x-forwarded-for: 127.0.0.1" in head
    assert "x-forwarded-proto: http\r" in head
    slow = behind.start("slow", delay=2)
    bed.proxy.apply(built([item], where={"shop/s0": slow}))
    assert bed.ask("a.example", "/")[0] == 504


def test_requests_of_before_a_reload_are_answered(bed, behind):
    bed.start_haproxy()
    where = {"shop/s0": behind.start("slow", delay=1)}
    bed.proxy.apply(built([site("a.example")], where=where))
    bed.settled()
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(bed.ask("a.example", "/"))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(behind.seen) == 5, "the requests")
    notes = {"connect-timeout": "2s"}
    bed.proxy.apply(built([site("a.example", notes=notes)], where=where))
    assert not answers
    for thread in threads:
        thread.join(20)
    assert [status for status, _, _ in answers] == [200] * 5


def test_over_http2_no_request_is_lost_in_a_reload(bed, behind):
    """A client that goes to another connection after a GOAWAY has an answer to each request."""
    need([name for name in ("curl",) if not shutil.which(name)])
    bed.start_haproxy()
    where = {"shop/s0": behind.start("first", delay=0.01)}
    bed.proxy.apply(built([site("a.example")], where=where))
    bed.settled()
    count, survived = 3000, -1  # before the first reload, there is none
    answered = bed.folder / "answered"
    with (
        answered.open("w") as file,
        subprocess.Popen(
            [
                *("curl", "--silent", "--insecure", "--http2", "--parallel", "--parallel-max", "8"),
                *("--resolve", f"a.example:{bed.https}:127.0.0.1", "--output", "/dev/null"),
                *("--write-out", "%{http_code} %{http_version} %{num_connects}\\n"),
                f"https://a.example:{bed.https}/[1-{count}]",
            ],
            stdout=file,
            stderr=subprocess.DEVNULL,
        ) as curl,
    ):
        for seconds in itertools.count(1):
            more = behind.answered["first"] + 300
            until(
                lambda more=more: curl.poll() is not None or behind.answered["first"] > more,
                "requests",
            )
            if curl.poll() is not None:
                break
            survived += 1
            notes = {"connect-timeout": f"{seconds}s"}
            bed.proxy.apply(built([site("a.example", notes=notes)], where=where))
    lines = answered.read_text().split("\n")[:-1]
    assert {line[:5] for line in lines} == {"200 2"}
    assert (curl.returncode, len(lines)) == (0, count)
    assert survived > 0
    assert sum(int(line.split()[2]) for line in lines) > 1, "it used one connection"


def test_options():
    from metalk8s_ingress.options import read as choose

    found, problems = choose(
        [("connect-timeout", "1500ms"), ("server-timeout", "5m"), ("max-body-size", "8M"),
         ("ssl-redirect", "true")]
    )  # fmt: skip
    assert (found, problems) == (
        {"connect": 1500, "server": 300_000, "body": 8 << 20, "redirect": True},
        [],
    )
    bad = [
        ("connect-timeout", text) for text in ("", "0s", "1", "1d", "25h", "-1s", "1s\nx", "1 s")
    ]
    bad += [("max-body-size", text) for text in ("", "1ms", "-1", "1t", "9999g", "\u0661")]
    bad += [("ssl-redirect", "yes"), ("rewrite", "x")]
    found, problems = choose(bad)
    assert (found, len(problems)) == ({}, len(bad))


def test_the_page_has_all_of_them():
    page = (Path(__file__).parents[3] / "docs/explanation/ingress.md").read_text(encoding="utf-8")
    table = page.partition("## Annotations")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\| `([a-z-]+)` \|", table) == list(CHOICES)
