"""Whatever an Ingress says, it is in no file as it said it, and others are as they were."""

from __future__ import annotations

import base64
import dataclasses
import signal
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metalk8s_ingress import certificates, configuration, model, objects, slots
from metalk8s_ingress.certificates import read
from metalk8s_ingress.model import Unusable
from metalk8s_ingress.objects import Port, Service, Subset
from test_routes import built, known
from things import CONTROLLER, ingress, node, rule, secret

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


@pytest.fixture
def patience():
    """End what takes a minute; all of it together takes less than a second."""

    def end(*_signal):
        raise TimeoutError("it takes too long")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


LONG = certificates.LONGEST - 100


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("-----BEGIN A-----" + " " * LONG, id="spaces"),
        pytest.param("-----BEGIN CERTIFICATE-----\n" + "A \n" * (LONG // 3), id="no end"),
        pytest.param("-----BEGIN A-----\nA" * (LONG // 19), id="beginnings"),
        pytest.param("-----BEGIN " * (LONG // 11), id="half a beginning"),
        pytest.param("-----BEGIN " + "A " * (LONG // 2), id="a long label"),
        pytest.param("-----BEGIN A-----\n" + "A\n-----END B-----" * (LONG // 17), id="other ends"),
    ],
)
def test_a_certificate_is_judged_in_no_time_however_long_it_is(patience, text):
    found = read(broken(SimpleNamespace(certificate="", key=""), **{"tls.crt": text}))
    assert isinstance(found, Unusable)
    assert "expected certificates" in found.reason


@pytest.mark.parametrize(
    ("change", "is_taken"),
    [
        pytest.param(lambda text: text, True, id="as openssl writes it"),
        pytest.param(lambda text: f"bag attributes: x\n{text}\nmore", True, id="text around it"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), True, id="lines of Windows"),
        pytest.param(lambda text: text.replace("\n", "\n\n \n"), True, id="empty lines"),
        pytest.param(lambda text: text.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n"
                     "DEK-Info: AES-128-CBC,00\n\n", 1), False, id="a password, with headers"),
        pytest.param(lambda text: text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), False,
                     id="a password"),
        pytest.param(lambda text: text.replace("-----\n", "-----", 1), False, id="no line"),
        pytest.param(lambda text: text * 2, False, id="two keys"),
    ],
)  # fmt: skip
def test_what_is_a_key(pairs, change, is_taken):
    pair = pairs("a.example")
    found = read(broken(pair, **{"tls.key": change(pair.key)}))
    assert isinstance(found, str) is is_taken, found


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


def test_an_ipv4_address_in_other_clothes_is_that_address():
    """Ports that are for machines only are not reached by writing their addresses otherwise."""
    item = {
        "metadata": {"namespace": "shop", "name": "s0"},
        "subsets": [{
            "addresses": [{"ip": ip} for ip in ("::ffff:10.1.0.1", "::ffff:a01:2", "2001:DB8:0::1",
                                                "::ffff:127.0.0.1", "::ffff:169.254.0.1")],
            "ports": [{"name": "http", "port": 2379}],
        }],
    }  # fmt: skip
    [subset] = objects.endpoints(item)
    assert [one for one, _ in subset.addresses] == ["10.1.0.1", "10.1.0.2", "2001:db8::1"]
    machines = (node("one", "10.1.0.1", "10.1.0.2"), node("two", "2001:db8:0:0::1", "10.1.0.3"))
    closed = {(one, 2379) for machine in machines for one in objects.node(machine)}
    found = dataclasses.replace(known([GOOD]), closed=frozenset(closed))
    found.endpoints["shop/s0"] = (subset,)
    made = model.build(found, model.ours(found, CONTROLLER))
    assert [one.servers for one in made.backends.values()] == [()]
    assert "for machines only" in made.problems[0].message


@pytest.mark.parametrize(
    ("workload", "control", "expected"),
    [
        ("192.0.2.1", "192.0.2.2", ("192.0.2.1", "192.0.2.2")),
        ("", "192.0.2.2", ("192.0.2.2", "192.0.2.2")),
        ("2001:DB8:0::1", "192.0.2.2", ("2001:db8::1", "192.0.2.2")),
        ("x", "192.0.2.2", ("", "192.0.2.2")),
        ("192.0.2.1:80\n  evil", "192.0.2.2", ("", "192.0.2.2")),
        ("2001:db8::1%\n  evil", "192.0.2.2", ("", "192.0.2.2")),
        ("192.0.2.1", "host.example", ("192.0.2.1", "")),
    ],
)
def test_what_is_no_address_of_a_machine_is_none(workload, control, expected):
    assert objects.node(node("one", workload, control)) == expected


ADDRESSES = tuple((f"10.{n >> 8}.{n & 255}.9", "") for n in range(1000))


def test_a_backend_has_no_more_servers_than_fit_into_memory():
    """Endpoints of a few KB have a million, and none is made beyond those that are taken."""

    def subsets():
        for _ in range(2):
            yield Subset(ADDRESSES, tuple(Port("http", number) for number in range(1, 1001)))
        pytest.fail("more is looked at than is taken")

    found = known([GOOD])
    found.endpoints["shop/s0"] = subsets()
    made = model.build(found, model.ours(found, CONTROLLER))
    [backend] = made.backends.values()
    assert len(backend.servers) == model.SERVERS
    [problem] = made.problems
    assert (problem.ingress, "too many servers" in problem.message) == ("shop/good", True)
    assert f"of a Service's port, {model.SERVERS} are taken" in problem.message


def test_as_many_servers_as_kubernetes_writes_are_no_problem():
    found = known([GOOD])
    found.endpoints["shop/s0"] = (Subset(ADDRESSES, (Port("http", 80),)),)
    made = model.build(found, model.ours(found, CONTROLLER))
    assert [len(one.servers) for one in made.backends.values()] == [1000]
    assert made.problems == []


def test_ports_of_one_service_do_not_make_up_for_it():
    """A namespace has so many servers, however many backends they are of; another has its own."""
    count = 50
    items = [
        ingress("one", rule("a.example", *((f"/{n}", "Exact", "s0") for n in range(count))), age=1),
        ingress("other", rule("b.example", ("/", "Exact", "s0")), namespace="other", age=2),
    ]
    for number, path in enumerate(items[0]["spec"]["rules"][0]["http"]["paths"]):
        path["backend"]["service"]["port"] = {"name": f"p{number}"}
    found = known(items, where={"other/s0": ("10.9.9.9", 80)})
    ports = tuple(Port(f"p{number}", number + 1) for number in range(count))
    found.services["shop/s0"] = Service("ClusterIP", ports)
    found.endpoints["shop/s0"] = (Subset(ADDRESSES, ports),)
    made = model.build(found, model.ours(found, CONTROLLER))
    sizes = {name: len(one.servers) for name, one in made.backends.items()}
    assert sum(n for name, n in sizes.items() if name.startswith("shop_")) == (
        model.SERVERS_OF_NAMESPACE
    )
    assert [n for name, n in sizes.items() if name.startswith("other_")] == [1]
    assert {one.ingress for one in made.problems} == {"shop/one"}
    assert len(made.problems) == count - model.SERVERS_OF_NAMESPACE // model.SERVERS


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


def test_too_many_secrets():
    """Each is a question to the API server, and all others wait for it."""
    entries = [{"hosts": [f"h{n}.example"], "secretName": f"s{n}"} for n in range(model.TLS + 5)]
    rules = [rule(f"h{n}.example", ("/", "Prefix", "s0")) for n in range(model.TLS + 5)]
    item = ingress("one", *rules, tls=entries)
    found = known([item, GOOD], secrets={f"shop/s{n}": "pem" for n in range(model.TLS + 5)})
    ingresses = model.ours(found, CONTROLLER)
    assert model.secrets(found, ingresses) == {f"shop/s{n}" for n in range(model.TLS)}
    made = model.build(found, ingresses)
    assert made.hosts == {f"h{n}.example": f"shop/s{n}" for n in range(model.TLS)}
    [problem] = made.problems
    assert problem.message == "it has more than 100 entries of tls: the last are left out"


def test_secrets_of_namespaces_that_a_class_is_not_for_are_not_asked_for():
    tls = [{"hosts": ["a.example"], "secretName": "cert"}]
    items = [ingress("one", rule("a.example"), tls=tls, namespace=name) for name in ("a", "b")]
    found = dataclasses.replace(known(items), namespaces=("b",))
    assert model.secrets(found, model.ours(found, CONTROLLER)) == {"b/cert"}


def test_too_many_paths():
    paths = [(f"/{number}", "Exact", "s0") for number in range(model.PATHS + 5)]
    made = built([ingress("one", rule("a.example", *paths), rule("b.example", *paths[:1]))])
    assert len(made.exact) == model.PATHS
    assert all("more than" in one.message for one in made.problems)
    assert slots.assign({}, made.backends)
