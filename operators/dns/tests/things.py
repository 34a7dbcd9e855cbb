"""Services, Endpoints and Pods as the API has them."""

from __future__ import annotations


def port(number, name="", protocol="TCP"):
    return {"port": number, "protocol": protocol, **({"name": name} if name else {})}


def service(name, address="", *ports, namespace="default", **spec):
    own = {"clusterIP": address, "clusterIPs": [address]} if address else {}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"type": "ClusterIP", **own, "ports": list(ports), **spec},
    }


def external(name, target, namespace="default"):
    return service(name, namespace=namespace, type="ExternalName", externalName=target)


def headless(name, *ports, namespace="default", **spec):
    return service(name, "None", *ports, namespace=namespace, **spec)


def subset(ready=(), unready=(), ports=()):
    def entries(addresses):
        return [
            {"ip": ip, **({"hostname": hostname} if hostname else {})}
            for ip, _, hostname in (text.partition(" ") for text in addresses)
        ]

    found = {"addresses": entries(ready), "notReadyAddresses": entries(unready)}
    return {**{key: value for key, value in found.items() if value}, "ports": list(ports)}


def endpoints(name, *subsets, namespace="default"):
    return {"metadata": {"namespace": namespace, "name": name}, "subsets": list(subsets)}


def pod(name, *addresses, namespace="default", phase="Running"):
    status = {"phase": phase}
    if addresses:
        status |= {"podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses]}
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}
