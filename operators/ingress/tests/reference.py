"""What the API says of requests, read a second time: for one request, over all rules.

Of ``k8s.io/api/networking/v1`` 1.20, ``IngressSpec`` and ``HTTPIngressPath``: a rule
without a host is for all requests; ``*.`` stands for one label; a prefix is compared by elements;
the longest path comes first, and of two that are equally long the exact one.
"""

from __future__ import annotations

import re


def service(ingresses, host, path):
    """Return who has a request: ``namespace/service``; ``None``: nobody."""
    asked = host.rsplit(":", 1)[0] if re.search(r":\d+$", host) else host
    asked = asked.rstrip(".").lower()
    if not re.fullmatch(r"[a-z0-9._-]+", asked):
        asked = None
    path = path.partition("?")[0]
    oldest = sorted(
        ingresses,
        key=lambda one: (
            one["metadata"]["creationTimestamp"],
            one["metadata"]["namespace"],
            one["metadata"]["name"],
        ),
    )
    found = []
    for one in oldest:
        namespace = one["metadata"]["namespace"]
        for rule in one["spec"].get("rules") or []:
            rank = _host(rule.get("host", ""), asked)
            for entry in (rule.get("http") or {}).get("paths") or []:
                length = _length(entry["pathType"], entry["path"], path)
                if rank is None or length is None:
                    continue
                kind = 0 if entry["pathType"] == "Exact" else 1
                name = entry["backend"]["service"]["name"]
                found.append((rank, -length, kind, len(found), f"{namespace}/{name}"))
    if found:
        return min(found)[-1]
    for one in oldest:
        if one["spec"].get("defaultBackend"):
            name = one["spec"]["defaultBackend"]["service"]["name"]
            return f"{one['metadata']['namespace']}/{name}"
    return None


def _host(rule, asked):
    """Return how exactly a rule names a host; ``None``: not at all."""
    if not rule:
        return 2
    if asked is None:
        return None
    if rule == asked:
        return 0
    labels, others = asked.split("."), rule.split(".")
    if others[0] == "*" and len(labels) == len(others) and labels[1:] == others[1:] and labels[0]:
        return 1
    return None


def _length(kind, rule, path):
    """Return the elements of a path that fits; ``None``: it does not."""
    if kind == "Exact":
        return len(path.split("/")) if rule == path else None
    own = rule.rstrip("/").split("/")
    return len(own) if path.split("/")[: len(own)] == own else None
