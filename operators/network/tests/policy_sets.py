"""Clusters with policies, from a source of chance: two machines, pods of three namespaces."""

from __future__ import annotations

from ipaddress import IPv4Network

from metalk8s_pod_network.isolation import filters
from metalk8s_pod_network.isolation.pods import labels, pod
from metalk8s_pod_network.isolation.policies import policy
from metalk8s_pod_network.isolation.verdicts import compile_

MACHINES = {"one": "10.1.0.1", "two": "10.1.0.2"}
RANGES = {"one": "10.233.1.0/24", "two": "10.233.2.0/24"}
HERE = ("10.233.1.2", "10.233.1.3", "10.233.1.4", "10.233.1.5")
THERE = ("10.233.2.2", "10.233.2.3", "10.233.2.4")
OUTSIDE = ("198.51.100.7", "203.0.113.9")
PORTS = (80, 443, 5353)
PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132, "ICMP": 1}
NAMES, VALUES = ("app", "tier", "env"), ("a", "b", "c")
BLOCKS = (
    ("0.0.0.0/0", ()),
    ("10.233.0.0/16", ("10.233.2.0/24",)),
    ("10.233.1.2/31", ()),
    ("10.233.1.7/24", ("10.233.1.4/32", "10.233.1.2/31")),
    ("198.51.100.0/24", ("198.51.100.0/29",)),
    ("203.0.113.9/32", ()),
    ("0.0.0.0/0", ("10.0.0.0/8", "10.233.0.0/16", "203.0.113.0/24")),
    ("2001:db9::/64", ("2001:db9::/80",)),
)


class Chance:
    """Draws from ``random.Random``, or from what Hypothesis gives in its place."""

    def __init__(self, random):
        self.random = random

    def often(self, percent):
        return self.random.randrange(100) < percent

    def some(self, least, most, make):
        return [make() for _ in range(self.random.randint(least, most))]

    def labels(self):
        return {name: self.random.choice(VALUES) for name in NAMES if self.often(60)}

    def namespace(self, name):
        return {"metadata": {"name": name, "labels": self.labels()}}

    def pod(self, number, address, node):
        ports = [
            {"name": name, "containerPort": self.random.choice(PORTS), "protocol": protocol}
            for name in ("web", "dns")
            for protocol in ("TCP", "UDP", "SCTP")
            if self.often(40)
        ]
        if ports and self.often(20):
            del ports[0]["protocol"]
            ports[0]["name"] = "web"
        spec = {"nodeName": node, "containers": [{"ports": ports}, {}]}
        if address == MACHINES[node]:
            spec["hostNetwork"] = True
        return {
            "metadata": {
                "namespace": self.random.choice("xyz"),
                "name": f"p{number}",
                "labels": self.labels(),
                "creationTimestamp": "2026-11-01T00:00:00Z",
            },
            "spec": spec,
            "status": {"podIP": address, "phase": "Running"},
        }

    def selector(self):
        if self.often(25):
            return {}
        found = {}
        if self.often(70):
            found["matchLabels"] = {self.random.choice(NAMES): self.random.choice(VALUES)}
        if self.often(50):
            found["matchExpressions"] = self.some(1, 2, self.expression)
        return found

    def expression(self):
        operator = self.random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        found = {"key": self.random.choice(NAMES), "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = self.some(1, 2, lambda: self.random.choice(VALUES))
        return found

    def port(self):
        found = {}
        if self.often(70):
            found["protocol"] = self.random.choice(("TCP", "UDP", "SCTP"))
        if self.often(85):
            found["port"] = self.random.choice((*PORTS, "web", "web", "dns", "nobodys"))
        return found

    def peer(self):
        if self.often(40):
            cidr, without = self.random.choice(BLOCKS)
            return {"ipBlock": {"cidr": cidr, **({"except": list(without)} if without else {})}}
        found = {}
        if self.often(60):
            found["podSelector"] = self.selector()
        if self.often(50) or not found:
            found["namespaceSelector"] = self.selector()
        return found

    def rule(self, key):
        found = {}
        if self.often(60):
            found["ports"] = self.some(0, 3, self.port)
        if self.often(75):
            found[key] = self.some(0, 3, self.peer)
        return found

    def policy(self):
        spec = {"podSelector": self.selector()}
        if self.often(65):
            spec["ingress"] = self.some(0, 2, lambda: self.rule("from"))
        if self.often(55):
            spec["egress"] = self.some(0, 2, lambda: self.rule("to"))
        if self.often(60):
            spec["policyTypes"] = self.random.choice(
                (["Ingress"], ["Egress"], ["Ingress", "Egress"])
            )
        return {
            "metadata": {"namespace": self.random.choice("xyz"), "name": "policy"},
            "spec": spec,
        }


def cluster(random):
    """Return lists of Namespaces, Pods and NetworkPolicies."""
    chance = Chance(random)
    pods = [chance.pod(n, one, "one") for n, one in enumerate((*HERE, MACHINES["one"]))]
    pods += [chance.pod(n + 9, one, "two") for n, one in enumerate((*THERE, MACHINES["two"]))]
    # One that is over, and whose address is another's by now; one that has none yet.
    over = chance.pod(90, HERE[0], "one")
    over["status"]["phase"] = chance.random.choice(("Succeeded", "Failed"))
    young = chance.pod(91, "", "one")
    young["status"] = {"phase": "Pending"}
    policies = chance.some(1, 6, chance.policy)
    if chance.often(40):
        # The same words in another namespace mean others.
        spaces = [{**policies[0]["metadata"], "namespace": name} for name in "xyz"]
        policies += [{**policies[0], "metadata": metadata} for metadata in spaces]
    return [chance.namespace(name) for name in "xyz"], [*pods, over, young], policies


def table(namespaces, pods, policies, machine):
    """Return the table that our program makes of objects, on a machine."""
    kept = [one for item in pods if (one := pod(item))]
    own = {one.address: one for one in kept if one.node == machine and one.address}
    spaces = {item["metadata"]["name"]: labels(item) for item in namespaces}
    read = [policy(item) for item in policies]
    verdicts = compile_(spaces, [one for one in kept if one.address], read, own) if read else None
    return filters.table(verdicts, [IPv4Network(RANGES[machine])])
