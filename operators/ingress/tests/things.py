"""Objects as the API has them."""

from __future__ import annotations

import base64
import subprocess

CONTROLLER = "metalk8s.scality.com/ingress"
CLASS = "metalk8s"


def ingress(name, *rules, namespace="shop", age=0, tls=(), default=None, notes=None, **spec):
    """Make an Ingress; the smaller its age, the older it is."""
    spec = {"ingressClassName": CLASS, **spec, "rules": list(rules), "tls": list(tls)}
    if default is not None:
        spec["defaultBackend"] = backend(default)
    prefix = "ingress.metalk8s.scality.com/"
    annotations = {
        key if "/" in key else prefix + key: value for key, value in (notes or {}).items()
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "creationTimestamp": f"2026-01-01T{age // 60:02}:{age % 60:02}:00Z",
            "annotations": annotations,
        },
        "spec": spec,
    }


def rule(host, *paths):
    """Make a rule of ``(path, kind, service)``."""
    made = [
        {"path": path, "pathType": kind, "backend": backend(service)}
        for path, kind, service in paths
    ]
    return {**({"host": host} if host else {}), "http": {"paths": made}}


def backend(service, port=80):
    key = "number" if isinstance(port, int) else "name"
    return {"service": {"name": service, "port": {key: port}}}


def ingress_class(name=CLASS, controller=CONTROLLER, default=False):
    notes = {"ingressclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"controller": controller},
    }


def service(name, namespace="shop", ports=None, **spec):
    ports = ports or [{"name": "http", "port": 80, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"ports": ports, **spec},
    }


def endpoints(name, *where, namespace="shop", port="http", node=None):
    subsets = [
        {
            "addresses": [{"ip": address, **({"nodeName": node} if node else {})}],
            "ports": [{"name": port, "port": number, "protocol": "TCP"}],
        }
        for address, number in where
    ]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"namespace": namespace, "name": name},
        "subsets": subsets,
    }


def node(name, workload, control):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"metalk8s.scality.com/workload-address": workload},
        },
        "status": {"addresses": [{"type": "InternalIP", "address": control}]},
    }


def secret(name, pair, namespace="shop", kind="kubernetes.io/tls"):
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": kind,
        "metadata": {"namespace": namespace, "name": name},
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    }


class Pair:
    """A certificate and its key."""

    def __init__(self, folder, file, name, bits=None):
        crt, key = folder / f"{file}.crt", folder / f"{file}.key"
        new = ["rsa", "-pkeyopt", f"rsa_keygen_bits:{bits}"] if bits else [
            "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        ]  # fmt: skip
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", *new, "-nodes", "-days", "30"),
                *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"),
                *("-keyout", key, "-out", crt),
            ],
            check=True,
            capture_output=True,
        )
        self.certificate, self.key = crt.read_text(), key.read_text()
