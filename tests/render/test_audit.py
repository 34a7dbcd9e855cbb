"""What the API server records, by its policy as rendered: who did what, and never the contents."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from .conftest import PLATFORMS
from .test_tree import files_of

pytestmark = pytest.mark.render

POLICY = "/etc/kubernetes/apiserver/audit-policy.yaml"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
FOLDER = "/var/log/kube-audit"
ADMINISTRATOR = ("kubernetes-admin", "system:masters", "system:authenticated")
ANONYMOUS = ("system:anonymous", "system:unauthenticated")
CONTROLLERS = ("system:kube-controller-manager", "system:authenticated")
SCHEDULER = ("system:kube-scheduler", "system:authenticated")
NODE = ("system:node:bootstrap", "system:nodes", "system:authenticated")
SERVER = ("system:apiserver", "system:masters")
PROXY = (
    "system:serviceaccount:kube-system:kube-proxy",
    *("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
POD = (
    "system:serviceaccount:default:default",
    *("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
)
LEASES = "leases.coordination.k8s.io"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request, with what an audit policy looks at.

    :param who: name of the user, then the groups.
    :param what: ``/path`` of what is no object; else ``resource[.group][/subresource]``.
    """

    who: tuple[str, ...]
    verb: str
    what: str

    def fits(self, rule: dict[str, Any]) -> bool:
        """Tell whether a rule of a policy is about it (checker.go of Kubernetes 1.20)."""
        if "users" in rule and self.who[0] not in rule["users"]:
            return False
        if "userGroups" in rule and not set(self.who[1:]) & set(rule["userGroups"]):
            return False
        if "verbs" in rule and self.verb not in rule["verbs"]:
            return False
        if "resources" in rule:
            return any(self._is_of(group) for group in rule["resources"])
        if "nonResourceURLs" in rule:
            return any(
                self.what == url or (url.endswith("*") and self.what.startswith(url.rstrip("*")))
                for url in rule["nonResourceURLs"]
            )
        return True

    def _is_of(self, group: dict[str, Any]) -> bool:
        if self.what.startswith("/"):
            return False
        kind, _, subresource = self.what.partition("/")
        resource, _, of = kind.partition(".")
        named = f"{resource}/{subresource}" if subresource else resource
        return group["group"] == of and named in group["resources"]


@pytest.fixture(params=PLATFORMS)
def policy(request: pytest.FixtureRequest, rendered: dict[str, Any]) -> dict[str, Any]:
    document = yaml.safe_load(files_of(rendered, request.param)[POLICY])
    assert isinstance(document, dict)
    return document


def level(policy: dict[str, Any], request: Request) -> str:
    """Say how much of a request is recorded: the first rule that fits decides."""
    return next(str(rule["level"]) for rule in policy["rules"] if request.fits(rule))


@pytest.mark.parametrize(
    "request_",
    [
        # whoever asks, however often
        *(
            Request(who, verb, what)
            for who in (ADMINISTRATOR, ANONYMOUS, CONTROLLERS, SCHEDULER, NODE, PROXY, POD, SERVER)
            for verb in ("get", "list", "watch", "create", "update", "patch", "delete")
            for what in ("secrets", "configmaps", "serviceaccounts/token", "pods/exec")
        ),
        Request(NODE, "create", "tokenreviews.authentication.k8s.io"),
        # what changes something
        Request(ADMINISTRATOR, "create", "pods"),
        Request(CONTROLLERS, "create", "pods"),
        Request(NODE, "create", "pods"),
        Request(NODE, "patch", "nodes"),
        Request(PROXY, "update", "services"),
        Request(ADMINISTRATOR, "patch", "clusterroles.rbac.authorization.k8s.io"),
        Request(ADMINISTRATOR, "delete", "podsecuritypolicies.policy"),
        Request(POD, "delete", "events"),
        Request(ADMINISTRATOR, "deletecollection", "events.events.k8s.io"),
        Request(POD, "update", LEASES),
        Request(ADMINISTRATOR, "patch", "nodes/status"),
        # what people, pods, and strangers look at
        Request(ADMINISTRATOR, "list", "pods"),
        Request(POD, "list", "pods"),
        Request(NODE, "list", "clusterroles.rbac.authorization.k8s.io"),
        Request(PROXY, "list", "pods"),
        Request(CONTROLLERS, "get", "nodes/proxy"),
        Request(ANONYMOUS, "get", "/api"),
        Request(ANONYMOUS, "get", "/apis"),
        Request(ANONYMOUS, "get", "/healthz/etcd"),
        Request(POD, "get", "/metrics"),
        Request(ANONYMOUS, "post", "/healthz"),
    ],
    ids=lambda one: f"{one.who[0]} {one.verb} {one.what}",
)
def test_recorded_without_contents(policy: dict[str, Any], request_: Request) -> None:
    assert level(policy, request_) == "Metadata"


@pytest.mark.parametrize(
    "request_",
    [
        *(Request(ANONYMOUS, "get", path) for path in ("/livez", "/readyz", "/healthz")),
        Request(NODE, "get", "/version"),
        Request(POD, "get", "/apis/apps/v1"),
        Request(POD, "create", "events"),
        Request(CONTROLLERS, "patch", "events.events.k8s.io"),
        Request(NODE, "patch", "nodes/status"),
        Request(NODE, "patch", "pods/status"),
        Request(NODE, "update", LEASES),
        Request(CONTROLLERS, "update", LEASES),
        Request(SCHEDULER, "update", LEASES),
        Request(CONTROLLERS, "watch", "deployments.apps"),
        Request(SCHEDULER, "list", "pods"),
        Request(SERVER, "list", "namespaces"),
        Request(PROXY, "watch", "endpointslices.discovery.k8s.io"),
        Request(NODE, "watch", "services"),
    ],
    ids=lambda one: f"{one.who[0]} {one.verb} {one.what}",
)
def test_noise_is_left_out(policy: dict[str, Any], request_: Request) -> None:
    assert level(policy, request_) == "None"


def test_the_policy_is_one(policy: dict[str, Any]) -> None:
    """No rule records contents, the last one takes what is left, each request is told of once."""
    assert (policy["apiVersion"], policy["kind"]) == ("audit.k8s.io/v1", "Policy")
    assert {rule["level"] for rule in policy["rules"]} == {"None", "Metadata"}
    assert policy["rules"][-1] == {"level": "Metadata"}
    assert policy["omitStages"] == ["RequestReceived"]
    known = {"level", "users", "userGroups", "verbs", "resources", "nonResourceURLs"}
    for rule in policy["rules"]:
        assert rule.keys() <= known
        assert not rule.keys() >= {"resources", "nonResourceURLs"}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_log_ends(rendered: dict[str, Any], platform: str) -> None:
    """It is rotated, takes half a gigabyte at most, and is the API server's alone."""
    spec = yaml.safe_load(files_of(rendered, platform)[MANIFEST])["spec"]
    [container] = spec["containers"]
    flags = dict(word[2:].split("=", 1) for word in container["command"][1:])
    assert flags["audit-policy-file"] == POLICY
    assert flags["audit-log-path"] == f"{FOLDER}/audit.log"
    size = int(flags["audit-log-maxsize"]) * (int(flags["audit-log-maxbackup"]) + 1)
    assert 100 <= size <= 500
    assert flags["audit-log-maxage"] == "30"
    states = rendered[platform]["sls"]["metalk8s.kube-apiserver.configured"]["states"]
    found = {state["arguments"]["name"]: state["arguments"] for state in states}
    for path, mode in ((FOLDER, "0700"), (f"{FOLDER}/audit.log", "0600")):
        arguments = found[path]
        assert (arguments["user"], arguments["mode"]) == ("metalk8s-apiserver", mode)
    assert found[f"{FOLDER}/audit.log"]["replace"] is False
    assert (found[POLICY]["user"], found[POLICY]["mode"]) == ("root", "0644")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_api_server_reads_its_rules_anew(rendered: dict[str, Any], platform: str) -> None:
    """It is started again when they change; and they go with it."""
    [run] = [
        state
        for state in rendered[platform]["sls"]["metalk8s.kube-apiserver.running"]["states"]
        if state["id"] == "Run the API server"
    ]
    assert POLICY in run["arguments"]["config_files"]
    absent = rendered[platform]["sls"]["metalk8s.kube-apiserver.absent"]["states"]
    gone = {state["arguments"]["name"] for state in absent}
    assert gone >= {POLICY.rpartition("/")[0], FOLDER}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_events_are_limited(rendered: dict[str, Any], platform: str) -> None:
    """For everybody together, each namespace and each user; one user takes but a part."""
    files = files_of(rendered, platform)
    [container] = yaml.safe_load(files[MANIFEST])["spec"]["containers"]
    flags = dict(word[2:].split("=", 1) for word in container["command"][1:])
    assert "EventRateLimit" in flags["enable-admission-plugins"].split(",")
    document = yaml.safe_load(files[flags["admission-control-config-file"]])
    assert document["apiVersion"] == "apiserver.config.k8s.io/v1"
    [plugin] = document["plugins"]
    assert plugin["name"] == "EventRateLimit"
    limits = {one.pop("type"): one for one in plugin["configuration"]["limits"]}
    assert limits.keys() == {"Server", "Namespace", "User"}
    for part in ("qps", "burst"):
        assert limits["Server"][part] > limits["Namespace"][part] > limits["User"][part] > 0


def test_a_site_has_it_otherwise(rendered: dict[str, Any]) -> None:
    """What it does not say stays as it is."""
    states = rendered["etcd master"]["sls"]["metalk8s.roles.master"]["states"]
    files = {state["file"]["path"]: state["file"]["text"] for state in states if "file" in state}
    assert "--audit-log-maxsize=7\n" in files[MANIFEST]
    assert "--audit-log-maxbackup=9\n" in files[MANIFEST]
    document = yaml.safe_load(files["/etc/kubernetes/apiserver/admission.yaml"])
    limits = document["plugins"][0]["configuration"]["limits"]
    assert {"type": "User", "qps": 3, "burst": 200} in limits
