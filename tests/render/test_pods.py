"""Every pod that the tree brings keeps the house rules for containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .conftest import MACHINES, VARIANT, VERSIONS
from .test_tree import files_of

pytestmark = pytest.mark.render

# Containers that must be root on their node, by pod, and what of root they are left.
AS_ROOT = {
    # Ports below 1024; setpriv makes another account of it before HAProxy is there.
    "ingress": {"haproxy": {"NET_BIND_SERVICE", "SETGID", "SETUID"}},
    # Addresses and packet filter of the node, raw sockets for VRRP and ARP, groups of its scripts.
    "keepalived": {"keepalived": {"NET_ADMIN", "NET_RAW", "SETGID"}},
    "kube-proxy": {"kube-proxy": {"NET_ADMIN", "NET_RAW"}},
    # As keepalived, without scripts; and the port of BGP.
    "load-balancer-speaker": {"speaker": {"NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"}},
    # Routes, a tunnel and the packet filter of the node.
    "pod-network": {"pod-network": {"NET_ADMIN"}},
}
# Folders of the node that a pod may write to.
WRITABLE = {
    "etcd": {"/var/lib/etcd"},
    "kube-apiserver": {"/var/log/kube-audit"},
    "kube-proxy": {"/run/xtables.lock"},
    "load-balancer-speaker": {"/run/metalk8s-load-balancer"},
    "pod-network": {"/etc/cni/net.d"},
    "salt-master": {"/etc/salt/pki/master", "/var/cache/salt/master"},
}
# Pods of the API server's, which read nothing here.
DEPLOYED = {
    *("ingress", "ingress-control-plane", "kube-dns", "kube-proxy", "load-balancer-allocator"),
    *("load-balancer-speaker", "pod-network"),
}
# Pods that do without a machine: another one runs them.
MOVING = {"kube-dns", "load-balancer-allocator"}
# Arguments that would open a port without TLS, or to everybody.
PLAIN = ("--insecure-port=", "--port=", "--insecure-bind-address=")
# The one port without TLS, on loopback, where kubeadm has it for probes.
PLAIN_URLS = {"etcd": {"--listen-metrics-urls=http://127.0.0.1:2381"}}


def pods(
    rendered: dict[str, Any], platform: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give metadata and specification of each pod."""
    for text in files_of(rendered, platform).values():
        if "\nkind: " not in text:
            continue
        for document in yaml.safe_load_all(text):
            if document["kind"] == "Pod":
                yield document["metadata"], document["spec"]
            elif "template" in document.get("spec", {}):
                template = document["spec"]["template"]
                yield {**document["metadata"], **template["metadata"]}, template["spec"]


@pytest.fixture(params=MACHINES)
def found(request: pytest.FixtureRequest, rendered: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Give all pods of a platform."""
    return list(pods(rendered, request.param))


@pytest.mark.parametrize("platform", MACHINES)
def test_all_are_looked_at(rendered: dict[str, Any], platform: str) -> None:
    """A pod that these tests do not find is one that nobody checks."""
    assert sorted(metadata["name"] for metadata, _ in pods(rendered, platform)) == [
        "balancer",
        "etcd",
        "ingress",
        "ingress-control-plane",
        *(["keepalived"] if platform.endswith(VARIANT) else []),
        "kube-apiserver",
        "kube-controller-manager",
        "kube-dns",
        "kube-proxy",
        "kube-scheduler",
        "load-balancer-allocator",
        "load-balancer-speaker",
        "pod-network",
        "repositories",
        "salt-master",
    ]


def test_containers_have_no_privileges(found: list[tuple[Any, Any]]) -> None:
    """Said where it takes effect: of the container, not of the pod."""
    for metadata, spec in found:
        for container in spec["containers"] + spec.get("initContainers", []):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, metadata["name"]
            assert context["allowPrivilegeEscalation"] is False, metadata["name"]
            assert context["capabilities"]["drop"] == ["ALL"], metadata["name"]
            added = set(context["capabilities"].get("add", []))
            roots: dict[str, set[str]] = AS_ROOT.get(metadata["name"], {})
            assert added == roots.get(container["name"], set())
            assert not context.get("privileged")


def test_users_are_their_own(found: list[tuple[Any, Any]]) -> None:
    """No two programs share an account, and none is root without need."""
    users: list[int] = []
    for metadata, spec in found:
        context = spec.get("securityContext", {})
        contexts = [
            {**context, **c["securityContext"]}
            for c in spec["containers"]
            if c["name"] not in AS_ROOT.get(metadata["name"], {})
        ]
        assert all(own["runAsNonRoot"] is True for own in contexts)
        assert all(own["runAsUser"] == own["runAsGroup"] for own in contexts)
        users += {own["runAsUser"] for own in contexts}
    assert len(users) == len(set(users))
    assert all(user >= 1000 for user in users)
    assert {spec["securityContext"]["seccompProfile"]["type"] for _, spec in found} == {
        "RuntimeDefault"
    }


def test_pods_see_little_of_the_node(found: list[tuple[Any, Any]]) -> None:
    """Folders of the node are read-only, but for what a program is there to write."""
    for metadata, spec in found:
        assert not spec.get("hostPID")
        assert not spec.get("hostIPC")
        from_node = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
        for container in spec["containers"]:
            mounted = {
                mount["mountPath"]
                for mount in container["volumeMounts"]
                if mount["name"] in from_node and not mount.get("readOnly")
            }
            assert mounted == WRITABLE.get(metadata["name"], set())


def test_nobody_else_has_the_keys_of_the_salt_master(found: list[tuple[Any, Any]]) -> None:
    """Whoever has them is the master of all machines."""
    holders = []
    for _, spec in found:
        paths = {v["name"]: v.get("hostPath", {}).get("path", "") for v in spec["volumes"]}
        for container in spec["containers"]:
            mounted = {paths[mount["name"]] for mount in container["volumeMounts"]}
            if any("/etc/metalk8s/pki/salt-master".startswith(path) for path in mounted if path):
                holders.append(container["name"])
    assert holders == ["salt-master"]


def test_images_are_those_of_the_iso(found: list[tuple[Any, Any]]) -> None:
    """By the registry's name, and with a tag that the ISO has."""
    prefix = f"registry.metalk8s.invalid/metalk8s-{VERSIONS['metalk8s']['version']}/"
    for _, spec in found:
        for container in spec["containers"]:
            name, _, tag = container["image"].removeprefix(prefix).partition(":")
            assert VERSIONS["images"][name]["version"] == tag
            assert container["imagePullPolicy"] == "IfNotPresent"


def test_no_port_is_insecure(found: list[tuple[Any, Any]]) -> None:
    """What listens speaks TLS, on one address."""
    for metadata, spec in found:
        for argument in spec["containers"][0].get("command", []):
            if argument.startswith(PLAIN):
                assert argument.endswith("=0"), metadata["name"]
            if "http://" in argument:
                assert argument in PLAIN_URLS[metadata["name"]]
            assert "0.0.0.0" not in argument


def test_pods_restart_with_their_configuration(found: list[tuple[Any, Any]]) -> None:
    """The kubelet runs a pod anew when its manifest changes: the digest is part of it."""
    for metadata, spec in found:
        annotations = metadata["annotations"]
        assert len(annotations["metalk8s.scality.com/config-digest"]) == 64
        if metadata["name"] not in DEPLOYED:
            assert annotations["metalk8s.scality.com/config-files"].startswith("/etc/")
        kind = "cluster" if metadata["name"] in MOVING else "node"
        assert spec["priorityClassName"] == f"system-{kind}-critical"
        asks = all("requests" in c.get("resources", {}) for c in spec["containers"])
        assert asks or metadata["name"] == "kube-proxy"  # as kubeadm has it
