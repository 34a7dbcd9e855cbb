"""Objects of the API, as short as tests need them."""

from __future__ import annotations

from metalk8s_load_balancer.objects import POOL, ROUTER, WORKLOAD_ADDRESS


def service(name, created=1, *, kind="LoadBalancer", asks="", has="", local=False, **more):
    """Make a Service.

    :param more: ``pool`` and ``router``, beside what it has; ``labels``; ``namespace``.
    """
    notes = {POOL: more.get("pool"), ROUTER: more.get("router")}
    return {
        "metadata": {
            "namespace": more.get("namespace", "default"),
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
            "labels": more.get("labels", {}),
            "annotations": {key: str(value) for key, value in notes.items() if value},
        },
        "spec": {
            "type": kind,
            **({"loadBalancerIP": asks} if asks else {}),
            **({"externalTrafficPolicy": "Local"} if local else {}),
        },
        "status": {"loadBalancer": {"ingress": [{"ip": has}]} if has else {}},
    }


def pool(name, *addresses, **spec):
    return {
        "apiVersion": "metalk8s.scality.com/v1alpha1",
        "kind": "LoadBalancerPool",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"addresses": list(addresses), **spec},
    }


def node(name, address, *, ready="True", cordoned=False, labels=None):
    return {
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {WORKLOAD_ADDRESS: address},
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def endpoints(name, *nodes, unready=()):
    return {
        "metadata": {"namespace": "default", "name": name},
        "subsets": [
            {
                "addresses": [{"ip": "10.233.0.1", "nodeName": one} for one in nodes],
                "notReadyAddresses": [{"ip": "10.233.0.2", "nodeName": one} for one in unready],
            }
        ],
    }
