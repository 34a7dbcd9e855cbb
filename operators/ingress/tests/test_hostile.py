"""Whatever an Ingress says, it is in no file as it said it, and others are as they were."""

from __future__ import annotations

import base64
import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metalk8s_ingress import configuration, model, objects, slots
from metalk8s_ingress.certificates import read
from metalk8s_ingress.model import Unusable
from test_routes import built, known
from things import CONTROLLER, ingress, rule, secret

EVIL = [
    "x\n  http-request deny",
    "x b_evil\n* evil",
    "a.example evil\nglobal",
    "%[env(HOME)]",
    "${HOME}",
    "x' #",
    'x" str',
    "x\\ y",
    "x;y <<\n\nshow info",
    "../../etc/passwd",
    "\x00",
    "é.example",
    "*.*.example",
    "*",
    "-",
    "x\r\nSet-Cookie: a=b",
    "a" * 300,
]
GOOD = ingress("good", rule("a.example", ("/", "Prefix", "s0")), age=0)
texts = st.one_of(st.sampled_from(EVIL), st.text(max_size=30), st.sampled_from(["a.example", "/a"]))


def evil(host, path, service, port, notes, tls_host, tls_secret):
    item = ingress(
        "evil",
        rule(host, (path, "Prefix", service), ("/ok", "Exact", "s1")),
        age=5,
        namespace="other",
        notes=notes,
        tls=[{"hosts": [tls_host], "secretName": tls_secret}],
        default=service,
    )
    item["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"] = {"name": port}
    return item


@given(
    st.builds(
        evil, texts, texts.map(lambda text: f"/{text}"), texts, texts,
        st.dictionaries(texts | st.sampled_from(["server-timeout", "max-body-size"]), texts,
                        max_size=3), texts, texts,
    )
)  # fmt: skip
def test_nothing_of_it_gets_into_a_file(item):
    alone, both = built([GOOD]), built([GOOD, item])
    assert alone.prefix.items() <= both.prefix.items()
    for table in (both.exact, both.prefix):
        for key, value in table.items():
            assert len(key.split()) == 1
            assert "#" not in key
            assert "\\" not in key
            assert value in both.backends
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-._")
    for name in both.backends:
        assert set(name) <= allowed, name


@pytest.mark.parametrize("text", EVIL)
def test_real_haproxy_takes_what_is_left(bed, text):
    bed.start_haproxy()
    item = evil(text, f"/{text}", text, text, {"server-timeout": text, text: text}, text, text)
    bed.proxy.apply(built([GOOD, item]))
    main = (bed.settings.current / configuration.MAIN).read_text()
    assert "evil" not in main.replace("other_", "")
    assert bed.ask("a.example", "/")[0] == 503


@given(st.lists(st.text(alphabet=st.characters(codec="ascii"), max_size=20).map(lambda x: f"/{x}"),
                max_size=8))  # fmt: skip
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_paths_of_any_characters_are_maps(programs, paths):
    """What is taken is one line of a map; the rest is refused with a reason."""
    item = ingress("one", rule("", *((path, "ImplementationSpecific", "s0") for path in paths)))
    made = built([item])
    lines = configuration.entries(made.prefix)
    assert all(len(line.split()) == 2 and line.split()[0][:2] == "*/" for line in lines)
    refused = [one for one in made.problems if "none that a request can have" in one.message]
    distinct = {path.rstrip("/") for path in paths}
    assert len(lines) + len({one.message for one in refused}) <= len(paths)
    assert bool(paths) == bool(distinct)


def test_a_host_is_of_the_namespace_that_had_it_first(pairs):
    pair = pairs("a.example")
    pem = read(secret("cert", pair))
    young = ingress("b", rule("a.example", ("/x", "Prefix", "s1")), namespace="other", age=9,
                    tls=[{"hosts": ["a.example"], "secretName": "cert"}])  # fmt: skip
    made = built([GOOD, young], secrets={"other/cert": pem})
    assert (made.hosts, made.certificates) == ({}, {})
    assert [one.ingress for one in made.problems] == ["other/b"]
    assert "namespace shop had the host before" in made.problems[0].message
    # The path is another one, and that may be.
    assert "a.example/x/" in made.prefix


def test_tls_for_a_host_without_a_rule_is_none(pairs):
    pem = read(secret("cert", pairs("z.example")))
    item = ingress("one", rule("a.example", ("/", "Prefix", "s0")),
                   tls=[{"hosts": ["z.example"], "secretName": "cert"}])  # fmt: skip
    made = built([item], secrets={"shop/cert": pem})
    assert made.hosts == {}
    assert "no host of this Ingress's rules" in made.problems[0].message


def broken(pair, **data):
    item = secret("cert", pair)
    item["data"] |= {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return item


def test_secrets_that_are_none(pairs):
    pair, other = pairs("a.example"), pairs("a.example")
    assert isinstance(read(secret("cert", pair)), str)
    for item, word in [
        (secret("cert", pair, kind="Opaque"), "expected kubernetes.io/tls"),
        (broken(pair, **{"tls.key": other.key}), "KEY_VALUES_MISMATCH"),
        (broken(pair, **{"tls.key": ""}), "expected certificates"),
        (broken(pair, **{"tls.crt": "x"}), "expected certificates"),
        (broken(pair, **{"tls.crt": pair.certificate * 120}), "more than"),
        (broken(pair, **{"tls.crt": pair.certificate.replace("M", "N")}), "refused"),
        ({"type": "kubernetes.io/tls", "data": {"tls.crt": "%"}}, "no PEM"),
        ({"type": "kubernetes.io/tls"}, "no PEM"),
    ]:
        found = read(item)
        assert isinstance(found, Unusable), word
        assert word in found.reason, found.reason


def test_too_small_a_key_is_refused_before_haproxy_sees_it(pairs, tmp_path):
    from things import Pair

    found = read(secret("cert", Pair(tmp_path, "small", "a.example", bits=1024)))
    assert isinstance(found, Unusable)
    assert "KEY_TOO_SMALL" in found.reason


def test_addresses_of_the_machine_itself_are_none():
    item = {
        "metadata": {"namespace": "a", "name": "b"},
        "subsets": [{
            "addresses": [{"ip": ip} for ip in ("127.0.0.1", "169.254.169.254", "::1", "0.0.0.0",
                                                "224.0.0.1", "x", "10.1.2.3")],
            "ports": [{"port": 80}],
        }],
    }  # fmt: skip
    assert [subset.addresses for subset in objects.endpoints(item)] == [(("10.1.2.3", ""),)]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"resource": {"kind": "Bucket", "name": "x"}}, "no Service"),
        ({"service": {"name": "none", "port": {"number": 80}}}, "there is no Service"),
        ({"service": {"name": "s0", "port": {"number": 81}}}, "has no TCP port 81"),
        ({"service": {"name": "s0", "port": {"name": "grpc"}}}, "has no TCP port grpc"),
    ],
)
def test_backends_that_are_none(change, word):
    item = ingress("one", rule("a.example", ("/", "Prefix", "s0")))
    item["spec"]["rules"][0]["http"]["paths"][0]["backend"] = change
    made = built([item])
    assert [word in one.message for one in made.problems] == [True]


def test_ports_of_machines_that_are_for_machines_only_are_none():
    where = {"shop/s0": ("192.0.2.7", 2379)}
    found = dataclasses.replace(known([GOOD], where=where), closed=frozenset({("192.0.2.7", 2379)}))
    made = model.build(found, model.ours(found, CONTROLLER))
    assert [one.servers for one in made.backends.values()] == [()]
    assert "for machines only" in made.problems[0].message
    assert built([GOOD], where=where).problems == []


def test_a_class_may_be_for_some_namespaces_only():
    found = dataclasses.replace(known([GOOD]), namespaces=("kube-system",))
    made = model.build(found, model.ours(found, CONTROLLER))
    assert (made.prefix, len(made.problems)) == ({}, 1)
    assert "is for namespaces kube-system" in made.problems[0].message


def test_external_names_are_not_followed():
    found = known([GOOD])
    found.services["shop/s0"] = found.services["shop/s0"]._replace(kind="ExternalName")
    made = model.build(found, model.ours(found, CONTROLLER))
    assert "ExternalName" in made.problems[0].message
    [backend] = made.backends.values()
    assert backend.servers == ()


def test_too_many_paths():
    paths = [(f"/{number}", "Exact", "s0") for number in range(model.PATHS + 5)]
    made = built([ingress("one", rule("a.example", *paths), rule("b.example", *paths[:1]))])
    assert len(made.exact) == model.PATHS
    assert all("more than" in one.message for one in made.problems)
    assert slots.assign({}, made.backends)
