"""The specification read the other way: from a question and the API's objects to the answer."""

from __future__ import annotations

import ipaddress


def answer(question, kind, services, endpoints, pods, domain="cluster.local."):
    """Return what a server has to say of a name, as a set of data."""
    if question.endswith(".in-addr.arpa.") and kind == "PTR":
        return pointers(question, services, endpoints, domain)
    if not question.endswith(f".{domain}"):
        return set()
    labels = question.removesuffix(f".{domain}").split(".")
    if labels[-1] == "pod" and len(labels) == 3 and kind == "A":
        return {
            ip
            for one in pods
            if one["metadata"]["namespace"] == labels[1]
            and one["status"].get("phase") not in ("Succeeded", "Failed")
            and (ip := one["status"].get("podIP", "")).replace(".", "-") == labels[0]
        }
    if labels[-1] != "svc" or len(labels) < 3:
        return set()
    for one in services:
        if [one["metadata"]["name"], one["metadata"]["namespace"]] == labels[-3:-1]:
            return of(one, labels[:-3], kind, endpoints, domain)
    return set()


def of(service, below, kind, endpoints, domain):
    spec = service["spec"]
    owner = full(service, domain)
    if spec["type"] == "ExternalName":
        return {f"{spec['externalName']}."} if not below and kind == "CNAME" else set()
    if spec.get("clusterIP") is None:
        return set()
    if spec["clusterIP"] != "None":
        if not below and kind == "A":
            return {spec["clusterIP"]}
        if len(below) == 2 and kind == "SRV":
            return {
                f"0 100 {port['port']} {owner}"
                for port in spec["ports"]
                if below == [f"_{port.get('name')}", f"_{port['protocol'].lower()}"]
            }
        return set()
    found = set()
    for ip, hostname, ports in shown(service, endpoints):
        if kind == "A" and below in ([], [hostname]):
            found.add(ip)
        if kind == "SRV" and len(below) == 2:
            found |= {
                f"0 100 {port['port']} {hostname}.{owner}"
                for port in ports
                if below == [f"_{port.get('name')}", f"_{port['protocol'].lower()}"]
            }
    return found


def shown(service, endpoints):
    """Give address, hostname and ports of what a Service shows."""
    for one in endpoints:
        if any(one["metadata"][key] != service["metadata"][key] for key in ("namespace", "name")):
            continue
        for group in one["subsets"]:
            entries = list(group.get("addresses", []))
            if service["spec"].get("publishNotReadyAddresses"):
                entries += group.get("notReadyAddresses", [])
            for entry in entries:
                yield (
                    entry["ip"],
                    entry.get("hostname") or entry["ip"].replace(".", "-"),
                    group["ports"],
                )


def pointers(question, services, endpoints, domain):
    octets = question.removesuffix(".in-addr.arpa.").split(".")
    wanted = str(ipaddress.IPv4Address(".".join(reversed(octets))))
    found = set()
    for one in services:
        if one["spec"]["type"] == "ExternalName":
            continue
        if one["spec"].get("clusterIP") == wanted:
            found.add(full(one, domain))
        if one["spec"].get("clusterIP") == "None":
            for ip, hostname, _ in shown(one, endpoints):
                if ip == wanted:
                    found.add(f"{hostname}.{full(one, domain)}")
    return found


def full(service, domain):
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.{domain}"
