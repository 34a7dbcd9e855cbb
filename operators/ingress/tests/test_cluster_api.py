"""The program, HAProxy and the API server that the build made: from an object to a request."""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import threading
import time

import pytest
from bed import digest
from hypothesis import settings
from load import H2load, Load
from needed import need
from real_api import own_address
from things import endpoints, ingress, ingress_class, node, rule, secret, service
from waiting import until

PATH = ("/", "Prefix", "web")
# Rings that take hours put load on it for longer.
SECONDS, LOAD = (8, 6) if settings.default.max_examples <= 100 else (60, 60)


@pytest.fixture
def site(api, bed, behind, pairs):
    """Give a cluster whose one machine takes requests for one Ingress with TLS."""
    address = own_address()
    where = behind.start("first", address)
    api.put(node("one", "127.0.0.1", "127.0.0.2"))
    api.put(ingress_class())
    own = endpoints("ingress", (address, 443), namespace="kube-system", node="one")
    api.put(own)
    api.put(secret("cert", pairs("a.example")))
    api.put(service("web"))
    api.put(endpoints("web", where))
    first = ingress("first", rule("a.example", PATH), tls=[
        {"hosts": ["a.example"], "secretName": "cert"}])  # fmt: skip
    api.put(first)
    bed.start_haproxy()
    bed.start_program(api.url, api.account)
    until(bed.is_ready, "the program", 60)
    bed.settled()
    yield api, bed, first
    for item in api.admin.get("/apis/networking.k8s.io/v1/ingresses", {})["items"]:
        api.remove({**item, "apiVersion": "networking.k8s.io/v1", "kind": "Ingress"})


def answers(bed, host, text, path="/"):
    until(lambda: bed.ask(host, path, tls=True)[1] == text, f"{host}{path}: {text}")


def test_from_an_object_to_a_request(site, behind):
    api, bed, first = site
    answers(bed, "a.example", "first")
    assert bed.ask("a.example", "/")[0] == 308
    status = {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}
    until(lambda: api.read(first)["status"] == status, "the status")
    # Seen soon after it is said.
    other = behind.start("other", own_address())
    began = time.monotonic()
    api.put(endpoints("web", other))
    answers(bed, "a.example", "other")
    assert time.monotonic() - began < 2
    api.remove(first)
    until(lambda: bed.ask("a.example", "/")[0] == 404, "the removal")


def test_a_class_that_is_the_default_takes_those_without(site):
    api, bed, _ = site
    api.put(ingress("plain", rule("b.example", PATH), ingressClassName=None))
    api.put(ingress_class(default=True))
    try:
        until(lambda: bed.ask("b.example", "/")[1] == "first", "one of before the default")
        api.put(ingress("later", rule("c.example", PATH), ingressClassName=None))
        until(lambda: bed.ask("c.example", "/")[1] == "first", "one of after")
    finally:
        api.put(ingress_class())


def test_a_rejected_ingress_harms_none_and_is_told(site):
    api, bed, _ = site
    evil = ingress(
        "evil",
        rule("a.example", ("/x\n  http-request deny", "Prefix", "web"), PATH),
        rule("b.example", ("/", "Prefix", "none"), ("/y z", "Exact", "web"), PATH),
        notes={"server-timeout": "1s\nglobal", "rewrite": "x"},
        tls=[{"hosts": ["c.example"], "secretName": "cert"}],
    )
    time.sleep(1.1)  # the API's clock has seconds: the other one is older
    api.put(evil)

    def told():
        return {one["message"] for one in api.events() if one["reason"] == "Rejected"}

    until(lambda: len(told()) >= 8, "Events")
    assert {one["involvedObject"]["name"] for one in api.events()} == {"evil"}
    for word in ("older Ingress shop/first", "there is no Service shop/none", "'/y z'", "rewrite",
                 "server-timeout", "'c.example': it is no host", "stands there twice"):  # fmt: skip
        assert [one for one in told() if word in one], word
    assert bed.ask("a.example", "/", tls=True)[1] == "first"
    count = len(api.events())
    api.put({**evil, "metadata": {**evil["metadata"], "labels": {"a": "b"}}})
    api.put(ingress("next", rule("d.example", PATH)))
    until(lambda: bed.ask("d.example", "/")[1] == "first", "the next Ingress")
    assert len(api.events()) == count, "said twice"
    assert bed.metric("rejected") == 8


def test_certificates_rotate_and_a_bad_one_does_not_hold(site, pairs):
    api, bed, _ = site
    new, other = pairs("a.example"), pairs("a.example")
    reloads = bed.metric("reloads")
    api.put(secret("cert", new))
    until(lambda: digest(bed.certificate("a.example")) == digest(new.certificate), "the new one")
    bad = secret("cert", other)
    bad["data"]["tls.key"] = secret("cert", new)["data"]["tls.key"]
    api.put(bad)
    until(lambda: "the one before holds" in bed.log("program"), "the refusal")
    assert digest(bed.certificate("a.example")) == digest(new.certificate)
    assert bed.metric("reloads") == reloads
    # What a site gives for all other names.
    wide = pairs("*.example")
    api.put(secret("ingress-default-certificate", wide, namespace="kube-system"))
    until(lambda: digest(bed.certificate("z.example")) == digest(wide.certificate), "the site's")
    api.remove(secret("ingress-default-certificate", wide, namespace="kube-system"))


def test_the_rights_do_for_this_and_no_more(api):
    from metalk8s_operators.client import ApiError, Client

    ours = Client(api.url, api.account)
    for path in ("/api/v1/secrets", "/api/v1/namespaces/shop/secrets", "/api/v1/pods",
                 "/api/v1/configmaps"):  # fmt: skip
        with pytest.raises(ApiError, match="403"):
            ours.get(path, {})
    with pytest.raises(ApiError, match="403"):
        ours.write("POST", "/api/v1/namespaces/shop/secrets", {"metadata": {"name": "x"}})


def test_without_an_api_server(site, behind):
    """What was known goes on; what happened meanwhile is seen afterwards."""
    api, bed, _ = site
    api.stop()
    try:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert bed.ask("a.example", "/", tls=True)[1] == "first"
        assert bed.is_ready()
    finally:
        api.start()
    until(api._is_ready, "the API server", 120)
    api.put(endpoints("web", behind.start("later", own_address())))
    until(lambda: bed.ask("a.example", "/", tls=True)[1] == "later", "the change", 60)


def test_no_request_fails_while_everything_changes(site, behind, pairs):
    """Endpoints, certificates, and other Ingresses: what is told and what is a reload."""
    api, bed, _ = site
    done = threading.Event()
    address = own_address()

    def answers_of(name):
        until(lambda: bed.ask("a.example", "/", tls=True)[1].startswith(name), name, 60)

    def change():
        number = 0
        while not done.is_set():
            number += 1
            name = f"round-{number}"
            api.put(
                endpoints("web", behind.start(name, address), behind.start(f"{name}b", address))
            )
            if number % 3 == 0:
                api.put(secret("cert", pairs("a.example")))
            if number % 4 == 0:  # another backend: a reload
                api.put(ingress("other", rule("o.example", PATH), notes={
                    "server-timeout": f"{number}s"}))  # fmt: skip
            # A pod has time to end: so long as somebody still asks it.
            answers_of(name)
            if number > 1:
                behind.stop(f"round-{number - 1}")
                behind.stop(f"round-{number - 1}b")

    reloads, told = bed.metric("reloads"), bed.metric("told")
    load = Load("a.example", bed.https, 12)
    changing = threading.Thread(target=change)
    changing.start()
    time.sleep(SECONDS)
    done.set()
    changing.join(60)
    load.end()
    assert load.failures == []
    assert load.answered > 100
    assert bed.metric("reloads") > reloads
    assert bed.metric("told") > told + 5


def test_h2load_does_not_see_endpoints_and_certificates_change(site, behind, pairs):
    """Over HTTP/2 and HTTP/1.1, on connections that last: nothing of that is a reload."""
    need([name for name in ("h2load",) if not shutil.which(name)])
    api, bed, _ = site
    reloads, rounds = bed.metric("reloads"), []

    def change(number, count):
        names = [f"round-{number}-{one}" for one in range(count)]
        pair = pairs("a.example")
        api.put(endpoints("web", *(behind.start(name, own_address()) for name in names)))
        api.put(secret("cert", pair))
        until(lambda: bed.ask("a.example", "/", tls=True)[1] in names, "the endpoints")
        until(lambda: digest(bed.certificate("a.example")) == digest(pair.certificate), "the pair")
        return names

    loads = [H2load("a.example", bed.https, 400, LOAD, *words) for words in (("-m8",), ("--h1",))]
    try:
        # More servers than there are places, and fewer again.
        for number, count in enumerate(itertools.cycle((2, 9, 1, 5))):
            if not all(load.is_running() for load in loads):
                break
            rounds.append(change(number, count))
            # A pod has time to end: a new one may answer before all old ones are taken away.
            for name in rounds[-3] if number > 1 else ():
                behind.stop(name)
        ends = [load.end() for load in loads]
    finally:
        for load in loads:
            load.close()
    assert ends == [(name, 400 * LOAD, (0, 0, 0)) for name in ("h2", "http/1.1")]
    assert len(rounds) > LOAD / 2
    asked = [sum(behind.answered[name] for name in names) for names in rounds]
    assert statistics.median(asked) > 20, asked
    assert bed.metric("reloads") == reloads


def test_what_it_says_are_lines_of_json(site):
    _, bed, _ = site
    lines = [json.loads(line) for line in bed.log("program").splitlines()]
    assert {"began", "changed"} <= {line["message"] for line in lines}
