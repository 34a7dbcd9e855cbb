"""What the API says of network policies, read sentence by sentence: objects in, yes or no out.

Nothing here is the program's. Sources: the comments of ``networking.k8s.io/v1`` of Kubernetes 1.20,
and of its documentation, that a pod cannot cut itself off, nor from the machine that it is on.
"""

from __future__ import annotations

import ipaddress


class Reference:
    """A cluster: lists of Namespaces, Pods and NetworkPolicies; addresses of machines by name."""

    def __init__(self, namespaces, pods, policies, machines):
        self.labels = {one["metadata"]["name"]: labels_of(one) for one in namespaces}
        self.policies, self.machines = policies, machines
        self.by_address = {
            one["status"]["podIP"]: one
            for one in pods
            if one["status"].get("podIP")
            and not one["spec"].get("hostNetwork")
            and one["status"]["phase"] not in ("Succeeded", "Failed")
        }

    def permits(self, source, destination, protocol, port):
        """Tell whether a connection may be. ``port`` is ``None`` for ICMP."""
        sender, receiver = self.by_address.get(source), self.by_address.get(destination)
        if source == destination:
            return True
        for pod, other in ((sender, destination), (receiver, source)):
            if pod and self.machines[pod["spec"]["nodeName"]] == other:
                return True
        packet = (protocol, port)
        if receiver and not self._side("Ingress", receiver, source, sender, receiver, packet):
            return False
        return not (
            sender and not self._side("Egress", sender, destination, receiver, receiver, packet)
        )

    def _side(self, kind, subject, address, other, target, packet):
        """Allowed if no policy selects the pod, or if any rule of any of them matches."""
        rules, is_isolated = [], False
        for policy in self.policies:
            if policy["metadata"]["namespace"] != subject["metadata"]["namespace"]:
                continue
            spec = policy["spec"]
            if not selects(spec["podSelector"], labels_of(subject)):
                continue
            if kind in types_of(spec):
                is_isolated = True
                rules += [(policy, rule) for rule in spec.get(kind.lower()) or []]
        if not is_isolated:
            return True
        key = "from" if kind == "Ingress" else "to"
        return any(
            self._ports(rule.get("ports"), target, packet)
            and self._peers(policy, rule.get(key), address, other)
            for policy, rule in rules
        )

    def _ports(self, ports, target, packet):
        if not ports:
            return True
        return any(self._port(port, target, packet) for port in ports)

    def _port(self, item, target, packet):
        protocol, number = packet
        if item.get("protocol", "TCP") != protocol:
            return False
        wanted = item.get("port")
        if wanted is None:
            return True
        if isinstance(wanted, int):
            return wanted == number
        if target is None:
            return False
        ports = [port for one in target["spec"]["containers"] for port in one.get("ports", [])]
        return any(
            (one.get("name"), one.get("protocol", "TCP"), one["containerPort"])
            == (wanted, protocol, number)
            for one in ports
        )

    def _peers(self, policy, peers, address, other):
        if not peers:
            return True
        return any(self._peer(policy, peer, address, other) for peer in peers)

    def _peer(self, policy, peer, address, other):
        if "ipBlock" in peer:
            where = ipaddress.ip_address(address)
            block = peer["ipBlock"]
            outside = [ipaddress.ip_network(one, strict=False) for one in block.get("except", [])]
            inside = ipaddress.ip_network(block["cidr"], strict=False)
            return where in inside and not any(where in one for one in outside)
        if other is None:
            return False
        namespace = other["metadata"]["namespace"]
        if "namespaceSelector" in peer:
            if not selects(peer["namespaceSelector"], self.labels[namespace]):
                return False
        elif namespace != policy["metadata"]["namespace"]:
            return False
        return "podSelector" not in peer or selects(peer["podSelector"], labels_of(other))


def labels_of(item):
    return item["metadata"].get("labels", {})


def types_of(spec):
    if spec.get("policyTypes"):
        return spec["policyTypes"]
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def selects(selector, labels):
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions", []):
        key, operator = one["key"], one["operator"]
        if operator == "Exists" and key not in labels:
            return False
        if operator == "DoesNotExist" and key in labels:
            return False
        if operator == "In" and (key not in labels or labels[key] not in one["values"]):
            return False
        if operator == "NotIn" and key in labels and labels[key] in one["values"]:
            return False
    return True
