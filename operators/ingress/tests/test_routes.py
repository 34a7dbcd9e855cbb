"""Where requests go: what a real HAProxy does is what the API says, for any Ingresses."""

from __future__ import annotations

import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metalk8s_ingress import model, objects
from metalk8s_ingress.model import Objects
from metalk8s_ingress.objects import Port, Service, Subset
from things import CONTROLLER, ingress, ingress_class, rule

HOSTS = ["", "a.example", "b.a.example", "*.a.example", "*.example", "c.example"]
SERVICES = ["s0", "s1", "s2", "s3"]
SPACES = ["shop", "other"]
KINDS = ["Exact", "Prefix", "ImplementationSpecific"]
PATHS = ["/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/A", "/a/b/c", "/a.b;x=1,'2'", "/%41"]
ASKED_HOSTS = [
    *("a.example", "A.Example", "a.example:8080", "a.example.", "b.a.example", "c.a.example"),
    *(
        "x.b.a.example",
        "c.example",
        "z",
        "*.a.example",
        "a.example/a",
        "192.0.2.1",
        "[2001:db8::1]",
    ),
]
ASKED_PATHS = [*PATHS, "/a//b", "/a/b/c/d", "/a/bc", "/abc", "/a?/a/b", "/b", "/a/../b"]

ingresses = st.lists(
    st.builds(
        lambda name, space, age, rules, default: ingress(
            name, *rules, namespace=space, age=age, default=default
        ),
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from(SPACES),
        st.integers(0, 3),
        st.lists(
            st.builds(
                lambda host, paths: rule(host, *paths),
                st.sampled_from(HOSTS),
                st.lists(
                    st.tuples(
                        st.sampled_from(PATHS), st.sampled_from(KINDS), st.sampled_from(SERVICES)
                    ),
                    max_size=4,
                ),
            ),
            max_size=3,
        ),
        st.none() | st.none() | st.sampled_from(SERVICES),
    ),
    max_size=4,
    unique_by=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]),
)


def known(items, where=None, secrets=None, classes=None):
    """Return what the program knows of some objects."""
    keys = [f"{space}/{name}" for space in SPACES for name in SERVICES]
    where = where or {}
    return Objects(
        {f"{one['metadata']['namespace']}/{one['metadata']['name']}": objects.ingress(one)
         for one in items},
        {one["metadata"]["name"]: objects.ingress_class(one)
         for one in classes or [ingress_class()]},
        {key: Service("ClusterIP", (Port("http", 80),)) for key in keys},
        {key: (Subset(((where[key][0], "one"),), (Port("http", where[key][1]),)),)
         for key in keys if key in where},
        secrets or {},
        "127.0.0.1",
    )  # fmt: skip


def built(items, **rest):
    found = known(items, **rest)
    return model.build(found, model.ours(found, CONTROLLER))


def looked_up(made, host, path):
    """Do what HAProxy's rules do, to see the model alone."""
    path = path.partition("?")[0]
    host = host.rsplit(":", 1)[0] if host[-1:].isdigit() and ":" in host else host
    host = host.rstrip(".").lower()
    if not host.replace(".", "").replace("-", "").replace("_", "").isalnum():
        host = "-"
    wild = "*" + host[host.index(".") :] if "." in host else "*"
    for name in (host, wild, "*"):
        if f"{name}{path}" in made.exact:
            return made.exact[f"{name}{path}"]
        fitting = [key for key in made.prefix if f"{name}{path}/".startswith(key)]
        if fitting:
            return made.prefix[max(fitting, key=len)]
    return made.exact.get(model.DEFAULT)


@given(ingresses)
@settings(max_examples=1000)
def test_model(items):
    made = built(items)
    for host in ASKED_HOSTS:
        for path in ASKED_PATHS:
            found = looked_up(made, host, path)
            expected = reference.service(items, host, path)
            said = "/".join(found.split("_")[:2]) if found else None
            assert said == expected, (host, path)


def test_real_requests(bed, behind):
    """Take fewer Ingresses, and the program that answers them."""
    where = {f"{space}/{name}": behind.start(f"{space}/{name}") for space in SPACES
             for name in SERVICES}  # fmt: skip
    bed.start_haproxy()

    @given(ingresses, st.lists(st.sampled_from(ASKED_PATHS), min_size=6, max_size=6, unique=True))
    @settings(
        max_examples=max(25, settings.default.max_examples // 3),
        suppress_health_check=list(HealthCheck),
    )
    def same(items, paths):
        bed.proxy.apply(built(items, where=where))
        bed.settled()
        for host in ASKED_HOSTS:
            for path in paths:
                status, text, _ = bed.ask(host, path)
                expected = reference.service(items, host, path)
                assert (status, text) == (200, expected) if expected else status == 404, (
                    host,
                    path,
                )

    same()
    assert bed.proxy.reloads > 5


def test_precedence_as_documented(bed, behind):
    """Examples of the documentation of Kubernetes, each asked for."""
    where = {f"shop/{name}": behind.start(name) for name in SERVICES}
    bed.start_haproxy()
    for rules, path, expected in [
        ([("/", "Prefix", "s0")], "/any", "s0"),
        ([("/foo", "Exact", "s0")], "/foo", "s0"),
        ([("/foo", "Exact", "s0")], "/bar", None),
        ([("/foo", "Exact", "s0")], "/foo/", None),
        ([("/foo/", "Exact", "s0")], "/foo", None),
        ([("/foo", "Prefix", "s0")], "/foo/", "s0"),
        ([("/foo/", "Prefix", "s0")], "/foo", "s0"),
        ([("/aaa/bb", "Prefix", "s0")], "/aaa/bbb", None),
        ([("/aaa/bbb/", "Prefix", "s0")], "/aaa/bbb", "s0"),
        ([("/aaa/bbb", "Prefix", "s0")], "/aaa/bbb/ccc", "s0"),
        ([("/aaa/bbb", "Prefix", "s0")], "/aaa/bbbxyz", None),
        ([("/", "Prefix", "s0"), ("/aaa", "Prefix", "s1")], "/aaa/ccc", "s1"),
        ([("/aaa", "Prefix", "s0"), ("/", "Prefix", "s1")], "/ccc", "s1"),
        ([("/foo", "Prefix", "s0"), ("/foo", "Exact", "s1")], "/foo", "s1"),
    ]:
        bed.proxy.apply(built([ingress("one", rule("a.example", *rules))], where=where))
        bed.settled()
        status, text, _ = bed.ask("a.example", path)
        assert (status, text) == (200, expected) if expected else status == 404, (rules, path)


@pytest.mark.parametrize(
    ("spec", "classes", "is_ours"),
    [
        ({}, [ingress_class()], True),
        ({"ingressClassName": "nginx"}, [ingress_class()], False),
        ({"ingressClassName": "metalk8s"}, [], False),
        ({"ingressClassName": "x"}, [ingress_class("x")], True),
        ({"ingressClassName": "x"}, [ingress_class("x", "other.example/ingress")], False),
        ({"ingressClassName": None}, [ingress_class()], False),
        ({"ingressClassName": None}, [ingress_class(default=True)], True),
        ({"ingressClassName": None}, [ingress_class("x", "other/a", default=True)], False),
    ],
)
def test_classes(spec, classes, is_ours):
    found = known([ingress("one", **spec)], classes=classes or [ingress_class("other", "a/b")])
    assert bool(model.ours(found, CONTROLLER)) is is_ours


@pytest.mark.parametrize(("name", "is_ours"), [("metalk8s", True), ("nginx", False)])
def test_a_class_by_annotation_comes_first(name, is_ours):
    item = ingress("one", notes={"kubernetes.io/ingress.class": name})
    item["spec"]["ingressClassName"] = "nginx" if is_ours else "metalk8s"
    assert bool(model.ours(known([item]), CONTROLLER)) is is_ours


def test_the_older_one_holds_and_the_other_hears():
    young = ingress("a", rule("a.example", ("/x", "Prefix", "s1"), ("/y", "Prefix", "s1")), age=9)
    old = ingress("z", rule("a.example", ("/x/", "Prefix", "s0")), age=1)
    made = built([young, old])
    assert made.prefix["a.example/x/"].startswith("shop_s0_")
    assert made.prefix["a.example/y/"].startswith("shop_s1_")
    [problem] = made.problems
    assert (problem.ingress, "older Ingress shop/z" in problem.message) == ("shop/a", True)
