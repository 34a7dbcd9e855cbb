"""What a policy says is what passes: examples one by one, and any set against the API's words."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from pathlib import Path

import packet_filter
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from metalk8s_pod_network.isolation import filters, verdicts
from metalk8s_pod_network.isolation.filters import Table
from policy_sets import (
    HERE,
    MACHINES,
    OUTSIDE,
    PORTS,
    PROTOCOLS,
    RANGES,
    THERE,
    cluster,
    table,
)
from reference import Reference

EVERYWHERE = (*HERE, *THERE, *OUTSIDE, *MACHINES.values())
ON = dict.fromkeys(HERE, "one") | dict.fromkeys(THERE, "two")


def passes(tables, source, destination, protocol, port):
    """Follow a packet: forwarded by the machines of both ends, unless one of them is an end."""
    ways = {ON.get(source), ON.get(destination)} - {None}
    return all(
        packet_filter.passes(tables[way], source, destination, PROTOCOLS[protocol], port)
        for way in ways
        if MACHINES[way] not in (source, destination)
    )


def disagreements(namespaces, pods, policies):
    """Return the connections of which the table and the API think differently."""
    tables = {machine: table(namespaces, pods, policies, machine) for machine in MACHINES}
    api = Reference(namespaces, pods, policies, MACHINES)
    flows = [
        (source, destination, protocol, port)
        for source, destination in itertools.product(EVERYWHERE, repeat=2)
        if {source, destination} & ON.keys()
        for protocol in PROTOCOLS
        for port in (PORTS if protocol != "ICMP" else (None,))
    ]
    return [flow for flow in flows if passes(tables, *flow) != api.permits(*flow)]


@settings(max_examples=max(500, settings.default.max_examples))
@given(st.randoms(use_true_random=False))
def test_any_policies_mean_what_the_api_says(chance):
    found = cluster(chance)
    assert not disagreements(*found), found[2]


@given(st.randoms(use_true_random=False))
def test_old_rules_with_new_entries_let_nobody_in(chance):
    """The kernel judges so for a moment; what is new to it is empty then.

    It reads which rules hold when a packet comes, and which entries do when it looks one up.
    """
    spaces, pods, policies = cluster(chance)
    others = [{**one, "metadata": {**one["metadata"], "name": "other"}} for one in
              cluster(chance)[2]]  # fmt: skip
    for before, after in itertools.permutations(
        [table(spaces, pods, found, "one") for found in (policies, others)]
    ):
        chains = {**dict.fromkeys(after.chains, ()), **before.chains}
        mixed = Table(chains, {**before.collections, **after.collections})
        flows = list(itertools.product(EVERYWHERE, EVERYWHERE, (6,), PORTS[:2]))
        for way, end in (("egress", 0), ("ingress", 1)):
            for flow in flows:
                if flow[end] in HERE and packet_filter.lets(mixed, way, *flow):
                    assert any(packet_filter.lets(one, way, *flow) for one in (before, after)), flow


def test_policies_by_chance_allow_and_forbid():
    """Sets where everything or nothing passes would show little."""
    shares = []
    for seed in range(40):
        namespaces, pods, policies = cluster(random.Random(seed))
        api = Reference(namespaces, pods, policies, MACHINES)
        flows = list(itertools.product(HERE, HERE + THERE, ("TCP", "UDP"), PORTS))
        shares.append(sum(api.permits(*flow) for flow in flows) / len(flows))
    assert sum(0.1 < share < 0.9 for share in shares) > len(shares) / 2


def item(name, namespace, address, node="one", ports=(), **labels):
    named = [{"name": n, "containerPort": number, "protocol": p} for n, number, p in ports]
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"ports": named}]},
        "status": {"podIP": address, "phase": "Running"},
    }


WEB, DB, FAR, JOB = HERE[0], HERE[1], THERE[0], THERE[1]
PODS = [
    item("web", "shop", WEB, role="frontend", ports=[("http", 80, "TCP")]),
    item("db", "shop", DB, role="db", ports=[("sql", 443, "TCP"), ("dns", 5353, "UDP")]),
    item("far", "other", FAR, "two", role="client", ports=[("http", 443, "TCP")]),
    item("job", "shop", JOB, "two", role="client"),
]
NAMESPACES = [
    {"metadata": {"name": "shop", "labels": {"project": "shop"}}},
    {"metadata": {"name": "other", "labels": {"project": "other"}}},
]
TO_DB = (DB, "TCP", 443)
DENY = {"podSelector": {}}
POLICY = {"metadata": {"namespace": "shop", "name": "deny"}, "spec": DENY}
ROLE_DB = {"matchLabels": {"role": "db"}}


def ingress(*rules, who=ROLE_DB):
    return {"podSelector": who, "ingress": list(rules)}


def egress(*rules, who=ROLE_DB):
    return {"podSelector": who, "policyTypes": ["Egress"], "egress": list(rules)}


def yes(*flow):
    return (*flow, True)


def no(*flow):
    return (*flow, False)


CLIENTS = {"podSelector": {"matchLabels": {"role": "client"}}}
OTHER = {"namespaceSelector": {"matchLabels": {"project": "other"}}}
SHOP = {"namespaceSelector": {"matchLabels": {"project": "shop"}}}
HOLE = {"ipBlock": {"cidr": "198.51.100.0/16", "except": ["198.51.101.0/24"]}}
EXAMPLES = {
    "nobody is isolated": ([], [yes(WEB, *TO_DB), yes(OUTSIDE[0], *TO_DB)]),
    "default deny of what comes": (
        [DENY],
        [no(WEB, *TO_DB), no(OUTSIDE[0], *TO_DB), no(WEB, DB, "ICMP", None),
         yes(DB, FAR, "TCP", 80), yes(DB, OUTSIDE[0], "UDP", 80),
         yes(DB, *TO_DB), yes(MACHINES["one"], *TO_DB), no(MACHINES["two"], *TO_DB)],
    ),
    "allow all that comes": ([DENY, {"podSelector": {}, "ingress": [{}]}],
                             [yes(FAR, *TO_DB), yes(FAR, DB, "ICMP", None)]),
    "default deny of what goes": (
        [{"podSelector": {}, "policyTypes": ["Egress"]}],
        [no(DB, FAR, "TCP", 80), no(DB, OUTSIDE[0], "UDP", 80), no(DB, WEB, "SCTP", 80),
         yes(DB, MACHINES["one"], "TCP", 80), no(DB, MACHINES["two"], "TCP", 80),
         yes(OUTSIDE[0], *TO_DB), yes(FAR, *TO_DB)],
    ),
    "allow all that goes": ([{"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}],
                            [yes(DB, FAR, "TCP", 80), yes(DB, OUTSIDE[0], "ICMP", None)]),
    "default deny of both": ([{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}],
                             [no(WEB, *TO_DB), no(DB, FAR, "TCP", 80), yes(WEB, WEB, "TCP", 80)]),
    "an egress section makes it of both kinds": (
        [{"podSelector": ROLE_DB, "egress": [{}]}], [no(WEB, *TO_DB), yes(DB, FAR, "TCP", 1)]),
    "an empty egress section is none": (
        [{"podSelector": ROLE_DB, "egress": []}], [no(WEB, *TO_DB), yes(DB, FAR, "TCP", 80)]),
    "rules of a type that is not named do not count": (
        [{"podSelector": ROLE_DB, "policyTypes": ["Egress"], "ingress": [], "egress": [{}]}],
        [yes(WEB, *TO_DB)]),
    "pods of the own namespace": ([ingress({"from": [CLIENTS]})],
                                  [yes(JOB, *TO_DB), no(FAR, *TO_DB), no(WEB, *TO_DB)]),
    "all pods of the own namespace": ([ingress({"from": [{"podSelector": {}}]})],
                                      [yes(WEB, *TO_DB), yes(JOB, *TO_DB), no(FAR, *TO_DB)]),
    "namespaces": ([ingress({"from": [OTHER]})],
                   [yes(FAR, *TO_DB), no(JOB, *TO_DB)]),
    "all namespaces": ([ingress({"from": [{"namespaceSelector": {}}]})],
                       [yes(FAR, *TO_DB), yes(JOB, *TO_DB), no(OUTSIDE[0], *TO_DB)]),
    "pods and namespaces in one item are both": (
        [ingress({"from": [{**SHOP, **CLIENTS}]})],
        [yes(JOB, *TO_DB), no(FAR, *TO_DB), no(WEB, *TO_DB)]),
    "pods and namespaces in two items are either": (
        [ingress({"from": [OTHER, CLIENTS]})],
        [yes(JOB, *TO_DB), yes(FAR, *TO_DB), no(WEB, *TO_DB)]),
    "expressions": (
        [ingress({"from": [{"podSelector": {"matchExpressions": [
            {"key": "role", "operator": "NotIn", "values": ["frontend"]},
            {"key": "role", "operator": "Exists"}]}}]})],
        [yes(JOB, *TO_DB), no(WEB, *TO_DB)]),
    "a block with exceptions": (
        [ingress({"from": [HOLE]})],
        [yes(OUTSIDE[0], *TO_DB), no("198.51.101.1", *TO_DB), yes("198.51.102.0", *TO_DB),
         no(OUTSIDE[1], *TO_DB), no(WEB, *TO_DB)]),
    "what one block leaves out, another may have": (
        [ingress({"from": [{"ipBlock": {"cidr": "198.51.0.0/16", "except": ["198.51.100.0/24"]}},
                           {"ipBlock": {"cidr": "198.51.100.7/32"}}]})],
        [yes(OUTSIDE[0], *TO_DB), no("198.51.100.8", *TO_DB)]),
    "blocks that overlap, each with its port": (
        [ingress({"from": [{"ipBlock": {"cidr": "198.51.0.0/16"}}], "ports": [{"port": 80}]},
                 {"from": [{"ipBlock": {"cidr": "198.51.100.0/24"}}], "ports": [{"port": 443}]})],
        [yes(OUTSIDE[0], *TO_DB), yes(OUTSIDE[0], DB, "TCP", 80), no("198.51.9.9", *TO_DB),
         yes("198.51.9.9", DB, "TCP", 80)]),
    "a pod in a block": ([egress({"to": [{"ipBlock": {"cidr": f"{FAR}/32"}}]})],
                         [yes(DB, FAR, "TCP", 80), no(DB, JOB, "TCP", 80)]),
    "a block of IPv6 is nobody here": ([ingress({"from": [{"ipBlock": {"cidr": "::/0"}}]})],
                                       [no(WEB, *TO_DB)]),
    "a port": ([ingress({"ports": [{"port": 443}]})],
               [yes(FAR, *TO_DB), yes(OUTSIDE[0], *TO_DB), no(FAR, DB, "TCP", 80),
                no(FAR, DB, "UDP", 443), no(FAR, DB, "ICMP", None)]),
    "a port with pods": ([ingress({"ports": [{"port": 443}], "from": [CLIENTS]})],
                         [yes(JOB, *TO_DB), no(JOB, DB, "TCP", 80), no(WEB, *TO_DB)]),
    "rules are of one policy or of another": (
        [ingress({"ports": [{"port": 443}], "from": [CLIENTS]}),
         ingress({"ports": [{"port": 80}], "from": [{"podSelector": {}}]})],
        [yes(JOB, *TO_DB), yes(JOB, DB, "TCP", 80), no(WEB, *TO_DB), yes(WEB, DB, "TCP", 80)]),
    "all ports of a protocol": ([ingress({"ports": [{"protocol": "UDP"}, {"port": 443}]})],
                                [yes(FAR, DB, "UDP", 1), no(FAR, DB, "TCP", 1), yes(FAR, *TO_DB)]),
    "SCTP": ([ingress({"ports": [{"protocol": "SCTP", "port": 80}]})],
             [yes(FAR, DB, "SCTP", 80), no(FAR, DB, "TCP", 80), no(FAR, DB, "SCTP", 443)]),
    "a name of a port of the pod": (
        [ingress({"ports": [{"port": "sql"}, {"port": "dns", "protocol": "UDP"}]})],
        [yes(FAR, *TO_DB), yes(FAR, DB, "UDP", 5353), no(FAR, DB, "TCP", 5353)]),
    "a name that the pod has not": ([ingress({"ports": [{"port": "http"}]})],
                                    [no(FAR, DB, "TCP", 80), no(FAR, *TO_DB)]),
    "a name that is each peer's own": (
        [egress({"ports": [{"port": "http"}], "to": [{"namespaceSelector": {}}]})],
        [yes(DB, WEB, "TCP", 80), yes(DB, FAR, "TCP", 443), no(DB, FAR, "TCP", 80),
         no(DB, JOB, "TCP", 80)]),
    "a name towards anybody": (
        [egress({"ports": [{"port": "http"}]})],
        [yes(DB, FAR, "TCP", 443), no(DB, OUTSIDE[0], "TCP", 443)]),
    "a name in a block": (
        [egress({"ports": [{"port": "http"}], "to": [{"ipBlock": {"cidr": "10.233.2.0/24"}}]})],
        [yes(DB, FAR, "TCP", 443), no(DB, WEB, "TCP", 80)]),
    "both ends have to allow": (
        [DENY, egress({"to": [{"podSelector": {}}]})],
        [no(DB, WEB, "TCP", 80), no(DB, FAR, "TCP", 80)]),
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example):
    specs, flows = EXAMPLES[example]
    policies = [
        {"metadata": {"namespace": "shop", "name": f"p{number}"}, "spec": spec}
        for number, spec in enumerate(specs)
    ]
    tables = {one: table(NAMESPACES, PODS, policies, one) for one in MACHINES}
    api = Reference(NAMESPACES, PODS, policies, MACHINES)
    for *flow, expected in flows:
        assert passes(tables, *flow) is expected, flow
        assert api.permits(*flow) is expected, f"the reference is wrong about {flow}"


def test_who_is_not_known_is_not_heard():
    """As long as there is a policy that it might be under."""
    unknown = "10.233.1.99"
    for policies, expected in (([], True), ([DENY], False)):
        items = [{"metadata": {"namespace": "other", "name": "p"}, "spec": one} for one in policies]
        found = table(NAMESPACES, PODS, items, "one")
        for flow in ((unknown, OUTSIDE[0]), (OUTSIDE[0], unknown), (WEB, unknown), (unknown, WEB)):
            assert packet_filter.passes(found, *flow, 6, 80) is expected


def test_rules_of_a_packet_do_not_grow_with_policies():
    """However many policies select a pod, it passes the same few chains."""

    def size(count):
        rules = [{"from": [{"podSelector": {"matchLabels": {"n": str(n)}}}], "ports": [{"port": n}]}
                 for n in range(1, count)]  # fmt: skip
        policies = [
            {"metadata": {"namespace": "shop", "name": f"p{n}"}, "spec": ingress(rule)}
            for n, rule in enumerate([{"from": [CLIENTS]}, *rules])
        ]
        return {
            name.partition("_")[0]: len(lines)
            for name, lines in table(NAMESPACES, PODS, policies, "one").chains.items()
        }

    assert size(1) == size(1000)


def test_pods_under_the_same_rules_share_them():
    policies = [
        {"metadata": {"namespace": name, "name": "p"}, "spec": {"podSelector": {}, "ingress": [
            {"from": [{"namespaceSelector": {}}], "ports": [{"port": 80}]}]}}
        for name in ("shop", "other")
    ]  # fmt: skip
    pods = [*PODS, item("more", "other", HERE[2])]
    found = table(NAMESPACES, pods, policies, "one")
    assert len([name for name in found.chains if name.startswith("in_")]) == 1
    assert len(found.collections["ingress_pods"].entries) == 3


def test_names_are_the_same_in_each_run():
    found = cluster(random.Random(5))
    backwards = [list(reversed(items)) for items in found]
    assert table(*found, "one") == table(*backwards, "one")
    assert RANGES["one"] in " ".join(table(*found, "one").chains["egress"])


def test_nobody_finds_a_policy_whose_name_is_another_s_by_trying():
    """A name of 48 bits is found within hours; one of 128 is not."""
    digests = [
        name.partition("_")[2].removesuffix("_pods")
        for seed in range(20)
        for made in (table(*cluster(random.Random(seed)), "one"),)
        for name in (*made.chains, *made.collections)
        if name.startswith(("in_", "out_", "ports_", "blocks_"))
    ]
    assert digests
    assert {len(bytes.fromhex(one)) * 8 >= 128 for one in digests} == {True}


def test_rules_of_an_equal_name_are_kept_apart(monkeypatch):
    """With names of no digits at all, policies still mean what the API says."""
    for module in (verdicts, filters):
        monkeypatch.setattr(module, "DIGITS", 0)
    for seed in range(20):
        found = cluster(random.Random(seed))
        assert not disagreements(*found), seed


EVERYBODY = {"namespaceSelector": {}}
NUMBERS = [{"port": number} for number in range(1, 501)]


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([([EVERYBODY], NUMBERS)], id="one rule of many ports"),
        pytest.param([([EVERYBODY], [*NUMBERS, {"port": "http"}])], id="and one that has a name"),
        pytest.param([([EVERYBODY], [one]) for one in NUMBERS], id="many rules of one port"),
        pytest.param([([EVERYBODY], NUMBERS), ([CLIENTS], [{"port": 999}])], id="more for some"),
    ],
)
def test_many_ports_towards_many_pods_take_little(rules):
    """An agent has 128 MiB: a set of ports for each pod would be more than that."""
    pods = [
        item(f"p{n}", "shop", f"10.233.{2 + n // 250}.{n % 250 + 1}", "two", role="client",
             ports=[("http", 80, "TCP")])
        for n in range(1000)
    ]  # fmt: skip
    spec = egress(*({"to": parties, "ports": ports} for parties, ports in rules))
    policies = [{"metadata": {"namespace": "shop", "name": "p"}, "spec": spec}]
    tracemalloc.start()
    try:
        found = table(NAMESPACES, [*PODS, *pods], policies, "one")
        peak = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
    assert peak < 8
    sets = {name for name in found.chains if name.startswith("ports_")}
    assert len(sets) <= 3
    assert packet_filter.passes(found, DB, FAR, 6, 500)
    assert not packet_filter.passes(found, DB, FAR, 6, 501)


def test_a_pod_of_a_former_range_is_of_this_machine():
    """What finds nothing while the table changes is dropped: for this pod, too."""
    old = "10.233.9.9"
    found = table(NAMESPACES, [*PODS, item("old", "shop", old)], [POLICY], "one")
    assert all(old in found.chains[way][-1] for way in ("egress", "ingress"))
    assert all(old in line for line in found.chains["strange"])


def test_examples_of_the_manual():
    """The four of the page, together."""
    page = Path(__file__).parents[3] / "docs/explanation/network-policies.md"
    blocks = page.read_text(encoding="utf-8").split("```yaml")[1:]
    policies = [yaml.safe_load(block.partition("```")[0]) for block in blocks]
    assert [one["metadata"]["name"] for one in policies] == [
        "default-deny", "database", "web", "office",
    ]  # fmt: skip
    pods = [
        item("web", "shop", WEB, app="web", ports=[("metrics", 5353, "TCP")]),
        item("db", "shop", DB, app="database"),
        item("reader", "other", FAR, "two"),
        item("job", "shop", JOB, "two", app="job"),
    ]
    spaces = [
        {"metadata": {"name": "shop", "labels": {}}},
        {"metadata": {"name": "other", "labels": {"purpose": "monitoring"}}},
    ]
    tables = {one: table(spaces, pods, policies, one) for one in MACHINES}
    for *flow, expected in (
        yes(WEB, DB, "TCP", 5432), no(WEB, DB, "TCP", 80), no(JOB, DB, "TCP", 5432),
        yes(FAR, WEB, "TCP", 5353), no(FAR, WEB, "TCP", 80), no(FAR, DB, "TCP", 5432),
        yes("192.0.2.5", WEB, "TCP", 443), no("192.0.2.200", WEB, "TCP", 443),
        no(JOB, OUTSIDE[0], "TCP", 443), no(WEB, FAR, "TCP", 80),
    ):  # fmt: skip
        assert passes(tables, *flow) is expected, flow
