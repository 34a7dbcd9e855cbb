"""What the API server of a cluster records and refuses: docs/reference/guards.md.

Runs ``docker``. The fixture ``cluster`` comes from ``conftest.py``.
"""

from __future__ import annotations

import base64
import datetime
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.questions import ALMIGHTY, asked
from tests.testbed.machine import KUBECTL, Machine

pytestmark = pytest.mark.integration

LOG = "/var/log/kube-audit"
WORD = "quxly-7264-not-for-the-log"
SPACE = "ordinary"
# Who may make everything that a namespace has, in its own.
ACCOUNT = f"system:serviceaccount:{SPACE}:default"
ORDINARY = f"{KUBECTL} --as={ACCOUNT} --namespace={SPACE}"
PSP = "kubernetes.io/psp"


@pytest.fixture(scope="module")
def ordinary(cluster: Machine) -> Iterator[Machine]:
    """Make a namespace, with an account that may make pods there."""
    cluster.kubectl(f"create namespace {SPACE}")
    cluster.kubectl(
        f"--namespace={SPACE} create rolebinding edit --clusterrole=edit "
        f"--serviceaccount={SPACE}:default"
    )
    cluster.wait(f"{KUBECTL} -n {SPACE} get serviceaccount default -o 'jsonpath={{.secrets}}'")
    yield cluster
    cluster.kubectl(f"delete namespace {SPACE} --wait=false")


@pytest.fixture(scope="module")
def image(cluster: Machine, iso_tree: pathlib.Path) -> str:
    """Name an image of the ISO that does not run as root."""
    [nginx] = (path.name for path in (iso_tree / "images/nginx").iterdir())
    return f"registry.metalk8s.invalid/metalk8s-{cluster.version}/nginx:{nginx}"


def log_of(cluster: Machine) -> str:
    """Read the audit log, without what is being written at the moment."""
    text = cluster.shell(f"cat {LOG}/audit*.log")
    return text[: text.rfind("\n") + 1]


def recorded(cluster: Machine) -> list[dict[str, Any]]:
    """Read the events of the audit log."""
    return [json.loads(line) for line in log_of(cluster).splitlines()]


def who(event: dict[str, Any]) -> str:
    """Name the user of an event; who showed something that is not believed has no name."""
    return str(event["user"].get("username", ""))


# -- the audit log ---------------------------------------------------------------------------------
def test_audit_log_says_who_did_what_and_no_contents(cluster: Machine) -> None:
    """Of Secrets, ConfigMaps and tokens: that they were read and written, not what is in them."""
    token = "create --raw /api/v1/namespaces/default/serviceaccounts/default/token -f -"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    cluster.kubectl(f"create secret generic audited --from-literal=word={WORD}")
    cluster.kubectl(f"create configmap audited --from-literal=word={WORD}")
    made = json.loads(cluster.kubectl(token, json.dumps(request)))["status"]["token"]
    try:
        assert base64.b64encode(WORD.encode()).decode() in cluster.kubectl(
            "get secret audited -o yaml"
        )
        patch = json.dumps({"stringData": {"another": WORD[::-1]}})
        cluster.kubectl(f"patch secret audited --patch '{patch}'")
    finally:
        cluster.kubectl("delete secret/audited configmap/audited")
    text = log_of(cluster)
    for secret in (WORD, WORD[::-1]):
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in text
    assert made.rpartition(".")[2] not in text
    events = [json.loads(line) for line in text.splitlines()]
    ours = [e for e in events if e.get("objectRef", {}).get("name") == "audited"]
    found = {(who(e), e["verb"], e["objectRef"]["resource"]) for e in ours}
    expected = [("create", "secrets"), ("get", "secrets"), ("patch", "secrets")]
    expected += [("delete", "secrets"), ("create", "configmaps"), ("delete", "configmaps")]
    assert found >= {("kubernetes-admin", *one) for one in expected}
    tokens = [e for e in events if e.get("objectRef", {}).get("subresource") == "token"]
    assert "kubernetes-admin" in {who(e) for e in tokens}
    assert {e["level"] for e in events} == {"Metadata"}
    assert not [e for e in events if e.keys() & {"requestObject", "responseObject"}]


def test_audit_log_is_its_writers_and_ends(cluster: Machine) -> None:
    """Nobody else reads it, and it is rotated."""
    modes = cluster.shell(f"stat -c '%a %U %n' {LOG} {LOG}/audit*.log").splitlines()
    assert modes[0] == f"700 metalk8s-apiserver {LOG}"
    assert {line.rpartition(" ")[0] for line in modes[1:]} == {"600 metalk8s-apiserver"}
    arguments = cluster.shell("tr '\\0' '\\n' </proc/$(pgrep -x kube-apiserver)/cmdline")
    flags = dict(word[2:].split("=", 1) for word in arguments.split() if word.startswith("--"))
    assert flags["audit-log-path"] == f"{LOG}/audit.log"
    assert (flags["audit-log-maxsize"], flags["audit-log-maxbackup"]) == ("50", "9")
    assert flags["audit-log-maxage"] == "30"


def test_audit_log_leaves_noise_out(cluster: Machine) -> None:
    """Health, signs of life and events are none of its business; what is left is little."""
    events = recorded(cluster)
    paths = {e["requestURI"].partition("?")[0] for e in events if "objectRef" not in e}
    assert not paths & {"/livez", "/readyz", "/healthz", "/version"}
    routine = [
        (who(e), e["verb"], target["resource"])
        for e in events
        if (target := e.get("objectRef"))
        and who(e).startswith("system:node:")
        and e["verb"] in ("patch", "update")
        and (target["resource"] == "leases" or target.get("subresource") == "status")
    ]
    assert routine == []
    times = sorted(moment(e["stageTimestamp"]) for e in events)
    assert len(events) / (times[-1] - times[0]).total_seconds() < 20


def moment(text: str) -> datetime.datetime:
    """Read a time as the log has it."""
    return datetime.datetime.fromisoformat(text)


# -- pods ------------------------------------------------------------------------------------------
def pod(name: str, image: str, spec: dict[str, Any], container: dict[str, Any]) -> str:
    """Describe a pod."""
    only = {"name": "one", "image": image, "command": ["sh", "-c", "exec sleep infinity"]}
    tolerations = [{"operator": "Exists"}]
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"tolerations": tolerations, "containers": [{**only, **container}], **spec},
        }
    )


HOST_PATH = {"volumes": [{"name": "host", "hostPath": {"path": "/etc"}}]}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "privileged": (
        {},
        {"securityContext": {"privileged": True}},
        "Privileged containers are not allowed",
    ),
    "path": (HOST_PATH, {}, "hostPath volumes are not allowed to be used"),
    "network": ({"hostNetwork": True}, {}, "Host network is not allowed to be used"),
    "processes": ({"hostPID": True}, {}, "Host PID is not allowed to be used"),
    "ipc": ({"hostIPC": True}, {}, "Host IPC is not allowed to be used"),
    "port": (
        {},
        {"ports": [{"containerPort": 80, "hostPort": 80}]},
        "Host port 80 is not allowed to be used",
    ),
    "root": (
        {},
        {"securityContext": {"runAsUser": 0}},
        "running with the root UID is forbidden",
    ),
    "escalation": (
        {},
        {"securityContext": {"allowPrivilegeEscalation": True}},
        "Allowing privilege escalation for containers is not allowed",
    ),
    "capability": (
        {},
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        "capability may not be added",
    ),
    "seccomp": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {},
        "unconfined is not an allowed seccomp profile",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_ordinary_account_gets_nothing_of_the_host(
    ordinary: Machine, image: str, what: str
) -> None:
    """It is told which field is wrong; the administrator may."""
    spec, container, reason = REFUSED[what]
    manifest = pod("greedy", image, spec, container)
    said = ordinary.shell(f"{ORDINARY} create -f - 2>&1 || echo refused", manifest)
    assert said.endswith("refused\n")
    assert "PodSecurityPolicy: unable to admit pod" in said
    assert reason in said
    taken = ordinary.kubectl(f"--namespace={SPACE} create --dry-run=server -f -", manifest)
    assert "created" in taken


def test_an_ordinary_pod_is_taken(ordinary: Machine, image: str) -> None:
    """And has what it left out, and runs; the log names the policy."""
    ordinary.shell(f"{ORDINARY} create -f -", pod("modest", image, {}, {}))
    try:
        ordinary.shell(f"{ORDINARY} wait --for=condition=Ready pod/modest --timeout=60s")
        found = json.loads(ordinary.shell(f"{ORDINARY} get pod modest -o json"))
        assert found["metadata"]["annotations"][PSP] == "metalk8s-restricted"
        context = found["spec"]["containers"][0]["securityContext"]
        profile = found["spec"]["securityContext"]["seccompProfile"]
        assert profile == {"type": "RuntimeDefault"}
        assert context == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
        }
        status = ordinary.kubectl(f"--namespace={SPACE} exec modest -- cat /proc/1/status")
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(lines["Uid"].split()) == {"8080"}
        assert int(lines["CapBnd"], 16) == 0
    finally:
        ordinary.kubectl(f"--namespace={SPACE} delete pod modest --wait=false")
    annotations = [
        e.get("annotations", {})
        for e in recorded(ordinary)
        if e["verb"] == "create" and e.get("objectRef", {}).get("name") == "modest"
    ]
    policy = "podsecuritypolicy.policy.k8s.io/admit-policy"
    assert "metalk8s-restricted" in {one.get(policy) for one in annotations}


def test_our_own_pods_are_taken(cluster: Machine) -> None:
    """Those of files, of which the API server learns from their kubelet, and those of its own."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    for name in names:
        cluster.wait(f"{KUBECTL} -n kube-system get pod {name}-bootstrap --no-headers")
    pods = json.loads(cluster.kubectl("-n kube-system get pods -o json"))["items"]
    policies = {p["metadata"]["name"]: p["metadata"]["annotations"].get(PSP) for p in pods}
    for daemon in ("ingress-", "kube-proxy-", "pod-network-", "load-balancer-speaker-"):
        assert [name for name in policies if name.startswith(daemon)]
    restricted = ("kube-dns-", "load-balancer-allocator-")
    names = {name for name in policies if name.startswith(restricted)}
    assert {policies.pop(name) for name in names} == {"metalk8s-restricted"}
    assert set(policies.values()) == {"metalk8s-privileged"}


def test_policies_are_applied_once(cluster: Machine) -> None:
    """And are what the administrator could change, but nobody else."""
    results = cluster.apply("metalk8s.pod-security")
    assert not [one for one in results.values() if not one["result"] or one["changes"]]
    for verb in ("create", "update", "patch", "delete"):
        able = f"{KUBECTL} --as={ACCOUNT} auth can-i {verb} podsecuritypolicies"
        assert cluster.shell(f"{able} 2>/dev/null || true") == "no\n"


# -- strangers -------------------------------------------------------------------------------------
def test_strangers_see_health_and_version_only(cluster: Machine) -> None:
    """Who has no certificate; and one that shows a word that is no token gets 401 for it."""
    paths = {
        **dict.fromkeys(("/livez", "/readyz", "/healthz", "/version"), 200),
        **dict.fromkeys(("/", "/api", "/apis", "/api/v1", "/openapi/v2", "/metrics", "/logs"), 403),
        **dict.fromkeys(("/debug/pprof/", "/livez/ping", "/.well-known/openid-configuration"), 403),
        "/api/v1/namespaces": 403,
        "/api/v1/namespaces/kube-public/configmaps/cluster-info": 403,
        "/api/v1/namespaces/kube-system/secrets": 403,
        "/apis/policy/v1beta1/podsecuritypolicies": 403,
    }
    answers = asked(cluster, [{"path": path} for path in paths])
    assert {p: a["status"] for p, a in zip(paths, answers, strict=True)} == paths
    masters = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
    as_others = {"Impersonate-User": "kubernetes-admin", "Impersonate-Group": "system:masters"}
    [headers, impersonating, token] = asked(
        cluster,
        [
            {"path": "/api/v1/namespaces/kube-system/secrets", "headers": masters},
            {"path": "/api/v1/namespaces/kube-system/secrets", "headers": as_others},
            {"path": "/version", "headers": {"Authorization": "Bearer abcdef.0123456789abcdef"}},
        ],
    )
    assert [one["status"] for one in (headers, impersonating, token)] == [403, 403, 401]
    refused = [e for e in recorded(cluster) if who(e) == "system:anonymous"]
    assert {"/apis", "/metrics"} <= {e["requestURI"] for e in refused}


# -- events ----------------------------------------------------------------------------------------
def test_a_flood_of_events_is_refused(ordinary: Machine) -> None:
    """One user's goes no further than what is that user's; others still have theirs."""

    def event(number: int) -> dict[str, Any]:
        reference = {"kind": "Pod", "name": "flood", "namespace": SPACE}
        metadata = {"name": f"flood-{number}", "namespace": SPACE}
        body = {"apiVersion": "v1", "kind": "Event", "metadata": metadata}
        body |= {"involvedObject": reference, "reason": "Flood", "message": "again"}
        path = f"/api/v1/namespaces/{SPACE}/events"
        return {"method": "POST", "path": path, "body": body, **ALMIGHTY}

    many = 480  # fewer than a namespace may have
    begin = time.monotonic()
    answers = asked(ordinary, [event(number) for number in range(many)])
    seconds = time.monotonic() - begin
    taken = [one for one in answers if one["status"] == 201]
    refused = [one for one in answers if one["status"] == 429]
    assert len(taken) + len(refused) == many
    assert 200 <= len(taken) <= 200 + 20 * (seconds + 1)
    assert refused
    assert "limit reached on type User" in refused[0]["body"]
    one = event(many)["body"]
    ordinary.kubectl("create -f -", json.dumps(one))
