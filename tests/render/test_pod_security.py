"""Which pods the API server takes, and from whom; who may do anything without a name: nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .conftest import PLATFORMS
from .test_pods import pods
from .test_tree import files_of

pytestmark = pytest.mark.render

OBJECTS = "/metalk8s/pod-security/files/objects.yaml"
PRIVILEGED, RESTRICTED = "metalk8s-privileged", "metalk8s-restricted"
HOST = ("privileged", "hostIPC", "hostNetwork", "hostPID", "allowPrivilegeEscalation")
NOBODY = {"system:anonymous", "system:unauthenticated"}


@pytest.fixture(params=PLATFORMS)
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def objects(rendered: dict[str, Any], platform: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Give the objects by kind and name."""
    documents = yaml.safe_load_all(files_of(rendered, platform)[OBJECTS])
    return {(one["kind"], one["metadata"]["name"]): one for one in documents if one}


def users(objects: dict[tuple[str, str], dict[str, Any]], policy: str) -> Iterator[tuple[str, str]]:
    """Give who may use a policy: namespace (none: all of them) and name."""
    for (kind, _), one in objects.items():
        if not kind.endswith("Binding"):
            continue
        [rule] = objects[("ClusterRole", one["roleRef"]["name"])]["rules"]
        assert (rule["apiGroups"], rule["resources"], rule["verbs"]) == (
            *(["policy"], ["podsecuritypolicies"]),
            ["use"],
        )
        if policy in rule["resourceNames"]:
            for subject in one["subjects"]:
                yield one["metadata"].get("namespace", ""), subject["name"]


def test_who_may_use_which(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Whoever has system:masters may use all of them, and is named nowhere."""
    assert sorted(users(objects, RESTRICTED)) == [("", "system:authenticated")]
    assert sorted(users(objects, PRIVILEGED)) == [
        ("kube-system", "ingress"),
        ("kube-system", "ingress-control-plane"),
        ("kube-system", "kube-proxy"),
        ("kube-system", "load-balancer-speaker"),
        ("kube-system", "pod-network"),
        ("kube-system", "system:nodes"),
    ]
    assert {name for kind, name in objects if kind == "PodSecurityPolicy"} == {
        PRIVILEGED,
        RESTRICTED,
    }


def test_what_an_ordinary_pod_may(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Nothing of the host, no root, no capability."""
    policy = objects[("PodSecurityPolicy", RESTRICTED)]
    spec = policy["spec"]
    assert {spec[name] for name in HOST} == {False}
    assert spec["requiredDropCapabilities"] == ["ALL"]
    unset = ("allowedCapabilities", "defaultAddCapabilities", "hostPorts", "allowedUnsafeSysctls")
    assert not spec.keys() & {*unset, "allowedProcMountTypes", "allowedHostPaths"}
    assert not set(spec["volumes"]) & {"*", "hostPath", "csi", "flexVolume"}
    assert spec["runAsUser"] == {"rule": "MustRunAsNonRoot"}
    for groups in ("runAsGroup", "supplementalGroups", "fsGroup"):
        # any other rule would give a group to pods that want none
        assert spec[groups]["rule"] == "MayRunAs"
        assert min(one["min"] for one in spec[groups]["ranges"]) == 1
    seccomp = "seccomp.security.alpha.kubernetes.io"
    assert policy["metadata"]["annotations"] == {
        f"{seccomp}/allowedProfileNames": "runtime/default",
        f"{seccomp}/defaultProfileName": "runtime/default",
    }


def test_what_the_administrator_writes_is_run_as_written(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    """Of two policies that would do, the first that changes nothing is taken."""
    spec = objects[("PodSecurityPolicy", PRIVILEGED)]["spec"]
    assert sorted([RESTRICTED, PRIVILEGED])[0] == PRIVILEGED
    assert {spec[name] for name in HOST} == {True}
    groups = {spec[name]["rule"] for name in ("runAsUser", "seLinux", "supplementalGroups")}
    assert groups | {spec["fsGroup"]["rule"]} == {"RunAsAny"}
    assert not spec.keys() & {"requiredDropCapabilities", "defaultAddCapabilities"}


def test_our_own_pods_are_taken(
    rendered: dict[str, Any], platform: str, objects: dict[tuple[str, str], dict[str, Any]]
) -> None:
    """Those of files by their kubelet, which gives them no account; others by their account."""
    taken = {name for namespace, name in users(objects, PRIVILEGED) if namespace == "kube-system"}
    for metadata, spec in pods(rendered, platform):
        assert metadata["namespace"] == "kube-system"
        account = spec.get("serviceAccountName", "system:nodes")
        assert account in taken or is_ordinary(spec)


def is_ordinary(spec: dict[str, Any]) -> bool:
    """Tell whether everybody may have such a pod: it is the restricted policy's."""
    containers = spec["containers"] + spec.get("initContainers", [])
    return (
        not any(spec.get(name) for name in HOST)
        and spec["securityContext"]["runAsNonRoot"] is True
        and spec["securityContext"]["runAsGroup"] >= 1
        and all(volume.keys() & {"emptyDir", "projected"} for volume in spec["volumes"])
        and all(c["securityContext"]["capabilities"] == {"drop": ["ALL"]} for c in containers)
        and all(c["securityContext"]["allowPrivilegeEscalation"] is False for c in containers)
        and not any("hostPort" in port for c in containers for port in c.get("ports", []))
    )


def test_policies_are_there_before_who_needs_them(rendered: dict[str, Any], platform: str) -> None:
    """And go after kube-proxy. No state waits for an API server's word of a pod from a file."""
    ids = [state["id"] for state in rendered[platform]["sls"]["metalk8s.roles.bootstrap"]["states"]]
    policies = ids.index("Say which pods are taken from whom")
    assert ids.index("The API server answers") < policies < ids.index("Deploy kube-proxy")
    alone = [state["id"] for state in rendered[platform]["sls"]["metalk8s.kube-proxy"]["states"]]
    assert alone.index("Say which pods are taken from whom") < alone.index("Deploy kube-proxy")
    gone = rendered[platform]["sls"]["metalk8s.roles.bootstrap.absent"]["states"]
    ids = [state["id"] for state in gone]
    assert ids.index("Take kube-proxy away") < ids.index("Forget which pods are taken from whom")
    assert ids.index("Forget which pods are taken from whom") < ids.index("Stop the API server")


def test_the_api_server_asks_the_policies(rendered: dict[str, Any], platform: str) -> None:
    text = files_of(rendered, platform)["/etc/kubernetes/manifests/kube-apiserver.yaml"]
    [line] = [line for line in text.splitlines() if "--enable-admission-plugins=" in line]
    plugins = line.partition("=")[2].split(",")
    assert plugins == ["EventRateLimit", "NodeRestriction", "PodSecurityPolicy"]
    assert "--disable-admission-plugins" not in text


def test_nobody_without_a_name_gets_anything(rendered: dict[str, Any], platform: str) -> None:
    """The kubelet's probes need health without a name, which the API server gives by itself.

    What kubeadm lets strangers read for joining (kube-public, cluster-info) is not made.
    """
    for path, text in files_of(rendered, platform).items():
        if not path.startswith("/metalk8s/"):
            continue
        for document in filter(None, yaml.safe_load_all(text)):
            subjects = {subject["name"] for subject in document.get("subjects", [])}
            assert not subjects & NOBODY
            assert document["metadata"].get("namespace") != "kube-public"
    files = files_of(rendered, platform)
    kubelet = yaml.safe_load(files["/var/lib/kubelet/config.yaml"])
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    text = files["/etc/kubernetes/manifests/kube-apiserver.yaml"]
    assert "--authorization-mode=Node,RBAC\n" in text
    assert "--token-auth-file" not in text
