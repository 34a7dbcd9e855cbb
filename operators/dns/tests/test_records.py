"""Records are those of the Kubernetes DNS specification, for any objects."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from metalk8s_dns import names, objects, records
from things import endpoints, external, headless, pod, port, service, subset

DOMAIN = "cluster.local."
HTTP = (port(80, "http"), port(53, "dns", "UDP"), port(9))
BEHIND = endpoints(
    "s",
    subset(["10.233.0.1 web-0", "10.233.0.2"], ["10.233.0.3 web-2"], [port(8080, "http"), port(9)]),
    subset(["10.233.0.4"], ports=[port(5353, "dns", "UDP")]),
)


def lines(service_item, endpoints_item=None, domain=DOMAIN):
    """Return the records of a Service as lines, names of the domain without it."""
    kept = objects.service(service_item)
    if kept is None:
        return None
    behind = objects.endpoints(endpoints_item) if endpoints_item else None
    found = records.of_service(kept, behind or (), domain).records
    assert len(found) == len(set(found))
    return sorted(" ".join(record).replace(f".default.svc.{domain}", "") for record in found)


@pytest.mark.parametrize(
    ("item", "behind", "expected"),
    [
        pytest.param(service("s"), None, None, id="no address yet"),
        pytest.param(
            service("s", "10.96.0.7", *HTTP),
            BEHIND,
            [
                "7.0.96.10.in-addr.arpa. PTR s",
                "_dns._udp.s SRV 0 100 53 s",
                "_http._tcp.s SRV 0 100 80 s",
                "s A 10.96.0.7",
            ],
            id="an address of its own (2.3); a port without a name has no SRV",
        ),
        pytest.param(
            service("s", "10.96.0.7", clusterIPs=["10.96.0.7", "fd00::7"]),
            None,
            [
                "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR s",
                "7.0.96.10.in-addr.arpa. PTR s",
                "s A 10.96.0.7",
                "s AAAA fd00::7",
            ],
            id="two families",
        ),
        pytest.param(
            headless("s", *HTTP),
            BEHIND,
            [
                "1.0.233.10.in-addr.arpa. PTR web-0.s",
                "10-233-0-2.s A 10.233.0.2",
                "10-233-0-4.s A 10.233.0.4",
                "2.0.233.10.in-addr.arpa. PTR 10-233-0-2.s",
                "4.0.233.10.in-addr.arpa. PTR 10-233-0-4.s",
                "_dns._udp.s SRV 0 100 5353 10-233-0-4.s",
                "_http._tcp.s SRV 0 100 8080 10-233-0-2.s",
                "_http._tcp.s SRV 0 100 8080 web-0.s",
                "s A 10.233.0.1",
                "s A 10.233.0.2",
                "s A 10.233.0.4",
                "web-0.s A 10.233.0.1",
            ],
            id="headless (2.4): what is ready, ports of the endpoints",
        ),
        pytest.param(
            headless("s", publishNotReadyAddresses=True),
            endpoints("s", subset([], ["10.233.0.3 web-2"])),
            ["3.0.233.10.in-addr.arpa. PTR web-2.s", "s A 10.233.0.3", "web-2.s A 10.233.0.3"],
            id="headless, publishNotReadyAddresses",
        ),
        pytest.param(
            headless("s", *HTTP),
            endpoints("s", subset([], ["10.233.0.3 web-2"], HTTP)),
            [],
            id="headless, nothing ready: no name",
        ),
        pytest.param(headless("s", *HTTP), None, [], id="headless without endpoints: no name"),
        pytest.param(
            headless("s"),
            endpoints("s", subset(["::ffff:1.2.3.4 a"])),
            [
                "4.0.3.0.2.0.1.0.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa. PTR a.s",
                "a.s AAAA ::ffff:1.2.3.4",
                "s AAAA ::ffff:1.2.3.4",
            ],
            id="an address as Knot writes it",
        ),
        pytest.param(external("s", "Www.example.com."), BEHIND, ["s CNAME www.example.com."],
                     id="ExternalName (2.5)"),
        pytest.param(external("s", f"{'a' * 64}.example.com"), None, [],
                     id="a label longer than the DNS has"),
        pytest.param(external("s", "a b.example.com"), None, [], id="not a name"),
        pytest.param(external("s", ".".join(["a" * 50] * 5)), None, [], id="a name too long"),
        pytest.param(
            service("s", "10.96.0.7", port(1, "p" * 63), port(2, "q" * 62)),
            None,
            [
                "7.0.96.10.in-addr.arpa. PTR s",
                f"_{'q' * 62}._tcp.s SRV 0 100 2 s",
                "s A 10.96.0.7",
            ],
            id="the port's name is longer than the DNS has, the others stay",
        ),
    ],
)  # fmt: skip
def test_of_a_service(item, behind, expected):
    assert lines(item, behind) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (pod("a", "10.233.0.9"), ["10-233-0-9.default.pod A 10.233.0.9"]),
        (pod("a"), None),
        (pod("a", "10.233.0.9", phase="Succeeded"), None),
        (pod("a", "10.233.0.9", phase="Failed"), None),
        (pod("a", "10.233.0.9", phase="Pending"), ["10-233-0-9.default.pod A 10.233.0.9"]),
    ],
)
def test_of_a_pod(item, expected):
    kept = objects.pod(item)
    if expected is None:
        assert kept is None
    else:
        found = records.of_pod(kept, DOMAIN)
        assert [" ".join(one).replace(f".{DOMAIN}", "") for one in found] == expected


def test_of_the_domain():
    found = records.of_domain(DOMAIN, IPv4Address("10.96.0.10"))
    assert [" ".join(one) for one in found] == [
        "cluster.local. NS ns.dns.cluster.local.",
        "ns.dns.cluster.local. A 10.96.0.10",
        'dns-version.cluster.local. TXT "1.1.0"',
    ]


def crowd(addresses, ports, name="p{}"):
    """Return Endpoints of a few KB, whose records are the product of two numbers."""
    ready = [f"10.233.{number >> 8}.{number & 255}" for number in range(addresses)]
    return endpoints("s", subset(ready, ports=[port(n, name.format(n)) for n in range(1, ports)]))


@pytest.mark.parametrize(
    ("item", "behind", "is_cut"),
    [
        pytest.param(headless("s"), crowd(700, 700), True, id="an address for each port"),
        pytest.param(headless("s"), crowd(1000, 7), False, id="as many as Kubernetes makes"),
        pytest.param(headless("s"), crowd(20_000, 0), True, id="addresses without ports"),
        pytest.param(service("s", "10.96.0.7", *(port(n, f"p{n}") for n in range(20_000))),
                     None, True, id="ports of an address of its own"),
    ],
)  # fmt: skip
def test_no_object_has_more_records_than_everybody_can_hold(item, behind, is_cut):
    made = records.of_service(objects.service(item), objects.endpoints(behind or {}) or (), DOMAIN)
    assert len(made.records) <= records.MOST
    assert made.is_cut is is_cut
    # What is there is as without a limit: the name has addresses.
    assert made.records[0].owner == f"s.default.svc.{DOMAIN}"


def test_records_are_not_made_beyond_the_most():
    """Also those that no zone can hold are not looked at without end."""

    def endless():
        one, *_ = objects.endpoints(crowd(1, 2, "x" * 63))
        for _ in range(records.MOST // 4 + 1):  # three of its address, one of its port
            yield one
        pytest.fail("more is looked at than is taken")

    assert records.of_service(objects.service(headless("s")), endless(), DOMAIN).is_cut


@pytest.mark.parametrize(
    ("network", "first", "count"),
    [
        ("10.0.0.0/8", "10.in-addr.arpa.", 1),
        ("10.96.0.0/12", "96.10.in-addr.arpa.", 16),
        ("10.233.0.0/16", "233.10.in-addr.arpa.", 1),
        ("10.233.64.0/18", "64.233.10.in-addr.arpa.", 64),
        ("10.233.1.0/24", "1.233.10.in-addr.arpa.", 1),
        ("10.233.1.64/26", "1.233.10.in-addr.arpa.", 1),
    ],
)
def test_zones_of_a_network(network, first, count):
    zones = names.reverse_zones(IPv4Network(network))
    assert (zones[0], len(zones)) == (first, count)


@given(st.ip_addresses(v=4), st.integers(1, 32))
def test_every_address_of_a_network_is_in_one_of_its_zones(one, length):
    network = IPv4Network((one, length), strict=False)
    zones = names.reverse_zones(network)
    assert len(zones) <= 128
    assert names.zone_of(names.reverse(one), frozenset(zones)) in zones
    assert sum(names.reverse(one).endswith(f".{zone}") for zone in zones) == 1


LABELS = st.sampled_from(["a", "b", "web-0", "x" * 63])
ADDRESSES = st.sampled_from([f"10.233.0.{number}" for number in range(5)])
PORTS = st.lists(
    st.builds(
        port,
        st.integers(1, 3),
        st.sampled_from(["", "http", "dns"]),
        st.sampled_from(["TCP", "UDP", "SCTP"]),
    ),
    max_size=3,
)
HOSTS = st.lists(st.builds("{} {}".format, ADDRESSES, st.sampled_from(["", "web-0"])), max_size=3)
SUBSETS = st.lists(st.builds(subset, HOSTS, HOSTS, PORTS), max_size=2)
SPACES = st.sampled_from(["default", "svc", "pod"])


@st.composite
def clusters(draw):
    """Give Services, Endpoints and Pods; names are few, so that they meet."""
    keys = draw(st.lists(st.tuples(LABELS, SPACES), unique=True, max_size=5))
    services, behind = [], []
    for name, space in keys:
        what = draw(st.integers(0, 3))
        if what == 0:
            services.append(external(name, "www.example.com", space))
        else:
            own = draw(st.sampled_from(["", "10.96.0.1", "10.96.0.2"])) if what == 1 else "None"
            shows = {"publishNotReadyAddresses": True} if draw(st.booleans()) else {}
            services.append(service(name, own, *draw(PORTS), namespace=space, **shows))
        behind.append(endpoints(name, *draw(SUBSETS), namespace=space))
    many = st.builds(
        pod,
        st.just("p"),
        ADDRESSES,
        namespace=SPACES,
        phase=st.sampled_from(["Running", "Succeeded", "Pending"]),
    )
    return services, behind, draw(st.lists(many, max_size=4))


def all_of(services, behind, pods):
    found = set()
    by_key = {tuple(sorted(one["metadata"].items())): one for one in behind}
    for one in services:
        kept = objects.service(one)
        shown = objects.endpoints(by_key[tuple(sorted(one["metadata"].items()))])
        if kept is not None:
            found |= set(records.of_service(kept, shown or (), DOMAIN).records)
    for one in pods:
        kept = objects.pod(one)
        if kept is not None:
            found |= set(records.of_pod(kept, DOMAIN))
    return found


@given(clusters())
def test_answers_are_those_of_the_specification(cluster):
    """Each question that one of the two has an answer to."""
    found = all_of(*cluster)
    asked = {(record.owner, record.kind) for record in found}
    for name in ("a", "b", "web-0"):
        for space in ("default", "svc", "pod"):
            owner = f"{name}.{space}.svc.{DOMAIN}"
            asked |= {(owner, kind) for kind in ("A", "CNAME", "SRV")}
            asked |= {(f"{host}.{owner}", "A") for host in ("web-0", "10-233-0-1")}
            asked |= {(f"_http._{one}.{owner}", "SRV") for one in ("tcp", "udp", "sctp")}
            asked.add((f"10-233-0-1.{space}.pod.{DOMAIN}", "A"))
    asked |= {
        (f"{number}.0.{net}.10.in-addr.arpa.", "PTR") for net in (233, 96) for number in (1, 2)
    }
    for owner, kind in asked:
        expected = reference.answer(owner, kind, *cluster)
        got = {record.data for record in found if (record.owner, record.kind) == (owner, kind)}
        assert got == expected, (owner, kind)


@given(clusters())
def test_what_a_zone_can_hold(cluster):
    """Names are in lower case and short enough; a CNAME is alone."""
    found = all_of(*cluster)
    aliases = {record.owner for record in found if record.kind == "CNAME"}
    for record in found:
        assert record.kind == "CNAME" or record.owner not in aliases
        for name in (record.owner, *re.findall(r"\S+\.$", record.data)):
            assert name == name.lower()
            assert len(name.encode()) + 1 <= 255
            assert all(0 < len(label) <= 63 for label in name[:-1].split("."))
