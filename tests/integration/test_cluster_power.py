"""The power of certificates: what each role can get is taken to the API server and to etcd.

Every policy of the table × every role: given or refused as the table says; and what is given can do
what its owner has to, and no more, whatever headers come with it.

Runs ``docker``. The fixture ``cluster`` comes from ``conftest.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.integration.conftest import ROOT
from tests.integration.questions import ALMIGHTY, DATA, FRONT_PROXY, PKI, asked, review
from tests.testbed.machine import LOCAL, SALT_CALL, Machine

pytestmark = pytest.mark.integration

TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (ROOT / "salt/states/metalk8s/parameters/certificates.yaml").read_text(encoding="utf-8")
)
# Other machines that the cluster knows as nothing but that, by name; the first machine is all else.
STRANGERS = {f"stranger-{role}": role for role in ("etcd", "master", "node")}
MACHINES = {**STRANGERS, "bootstrap": "bootstrap"}
FOLDER = "/root/power"
LIBRARIES = "/opt/metalk8s/salt/lib/python3.11/site-packages"
SECRET = "/api/v1/namespaces/default/secrets/power"
# What a component never has, or only with a reason, which is its role.
ANYTHING = "anything"
REVIEWS = {
    ANYTHING: review("*", "*", group="*", namespace=""),
    "list Secrets": review("list", "secrets", namespace=""),
    "get Secrets": review("get", "secrets"),
    "make tokens": review("create", "serviceaccounts", "token"),
    "be others": review("impersonate", "users", namespace=""),
    "be groups": review("impersonate", "groups", namespace=""),
    "give rights": review(
        "create", "clusterrolebindings", group="rbac.authorization.k8s.io", namespace=""
    ),
    "have more rights": review(
        "escalate", "clusterroles", group="rbac.authorization.k8s.io", namespace=""
    ),
    "change policies of pods": review(
        "update", "podsecuritypolicies", group="policy", namespace=""
    ),
    "ask kubelets": review("get", "nodes", "proxy", namespace=""),
    "look into pods": review("create", "pods", "exec"),
    "approve requests": review(
        "update", "certificatesigningrequests", "approval", "certificates.k8s.io", ""
    ),
}
# By policy, of those that the API server knows. The controller manager makes accounts' tokens.
POWERS: dict[str, set[str]] = {
    "controller_manager": {"list Secrets", "get Secrets", "make tokens"},
    "kubelet_to_apiserver": set(),
    "scheduler": set(),
}
HEADERS: dict[str, dict[str, str]] = {
    "nothing": {},
    "front proxy": {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"},
    "front proxy, extra": {
        "X-Remote-User": "system:apiserver",
        "X-Remote-Group": "system:masters",
        "X-Remote-Extra-Scopes": "all",
    },
}
IMPERSONATION = {"Impersonate-User": "kubernetes-admin", "Impersonate-Group": "system:masters"}


@pytest.fixture(scope="module")
def answers(cluster: Machine) -> Iterator[dict[tuple[str, str], dict[str, str]]]:
    """Ask by every policy as a machine of every role: role and policy → answer."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {f"node-role.kubernetes.io/{role}": ""}},
        }
        for name, role in STRANGERS.items()
    ]
    cluster.kubectl("apply -f -", json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    cluster.kubectl("create secret generic power --from-literal=word=xyzzy")
    cluster.shell(f"mkdir -m 700 {FOLDER}; openssl genrsa -out {FOLDER}/key 2048 2>/dev/null")
    try:
        yield issued(cluster)
    finally:
        cluster.kubectl(f"delete node {' '.join(STRANGERS)} --wait=false")
        cluster.kubectl("delete secret power")
        cluster.shell(f"rm -r {FOLDER}")


def issued(cluster: Machine) -> dict[tuple[str, str], dict[str, str]]:
    """Ask, and keep on the machine what is given."""
    pairs = [(machine, policy) for machine in MACHINES for policy in TABLE]
    key = cluster.shell(f"openssl rsa -in {FOLDER}/key -pubout 2>/dev/null")
    cluster.shell(f"{SALT_CALL} saltutil.sync_modules saltenv=metalk8s-{cluster.version}")
    cluster.send(DATA / "issue.py", f"{FOLDER}/issue.py")
    issue = f"python3 {FOLDER}/issue.py {LIBRARIES} {LOCAL}/minion"
    said = cluster.shell(issue, json.dumps({"key": key, "asked": pairs}))
    found = {}
    for (machine, policy), answer in zip(pairs, json.loads(said), strict=True):
        role = MACHINES[machine]
        found[(role, policy)] = answer
        if "certificate" in answer:
            cluster.write(f"{FOLDER}/{role}-{policy}.crt", answer["certificate"])
    return found


def given(answers: dict[tuple[str, str], dict[str, str]]) -> list[tuple[str, str]]:
    """Name the role and the policy of each certificate that was given."""
    return [pair for pair, answer in answers.items() if "certificate" in answer]


def pair_of_files(role: str, policy: str) -> dict[str, str]:
    """Say where a certificate is."""
    return {"certificate": f"{FOLDER}/{role}-{policy}.crt", "key": f"{FOLDER}/key"}


def is_known(policy: str) -> bool:
    """Tell whether the API server takes a certificate for a name at all."""
    entry = TABLE[policy]
    return entry["authority"] == "kubernetes" and "clientAuth" in entry["usages"]


def test_who_gets_which(answers: dict[tuple[str, str], dict[str, str]]) -> None:
    """Nobody else's, nothing almighty, nothing of the front proxy, no address that is only said."""
    expected = {
        (role, name)
        for role in MACHINES.values()
        for name, policy in TABLE.items()
        if role in policy["roles"]
        and policy.get("through_master")
        and "system:masters" not in policy["subject"].values()
        and policy["authority"] != "front_proxy"
        and (role == "bootstrap" or "{address}" not in policy.get("names", []))
    }
    assert set(given(answers)) == expected
    assert len(answers) == len(MACHINES) * len(TABLE)
    # What follows is about each of them.
    assert {policy for _, policy in expected if is_known(policy)} == set(POWERS)


def test_what_each_may_in_the_api(
    cluster: Machine, answers: dict[tuple[str, str], dict[str, str]]
) -> None:
    """Its role's, with and without headers that the front proxy would be believed; nothing more."""
    cases = [
        (role, policy, headers, wish)
        for role, policy in given(answers)
        for headers in HEADERS
        for wish in REVIEWS
    ]
    found = asked(
        cluster,
        [
            {**REVIEWS[wish], "headers": HEADERS[headers], **pair_of_files(role, policy)}
            for role, policy, headers, wish in cases
        ],
    )
    wrong = {}
    for case, answer in zip(cases, found, strict=True):
        _, policy, _, wish = case
        if is_known(policy):
            assert answer["status"] == 201, (case, answer)
            allowed = json.loads(answer["body"])["status"]["allowed"]
            if allowed is not (wish in POWERS[policy]):
                wrong[case] = allowed
        elif answer["status"] != 401:
            wrong[case] = answer
    assert wrong == {}


def test_what_each_gets_of_a_secret(
    cluster: Machine, answers: dict[tuple[str, str], dict[str, str]]
) -> None:
    """Reviews are words: this reads one, as oneself and as somebody else."""
    every = {**HEADERS, "impersonation": IMPERSONATION}
    cases = [(*pair, headers) for pair in given(answers) for headers in every]
    found = asked(
        cluster,
        [
            {"path": SECRET, "headers": every[headers], **pair_of_files(role, policy)}
            for role, policy, headers in cases
        ],
    )
    expected = {}
    for role, policy, headers in cases:
        reads = "get Secrets" in POWERS.get(policy, set()) and headers != "impersonation"
        status = (200 if reads else 403) if is_known(policy) else 401
        expected[(role, policy, headers)] = status
    statuses = {case: answer["status"] for case, answer in zip(cases, found, strict=True)}
    assert statuses == expected
    assert 403 in statuses.values()


def test_a_node_makes_no_pods_and_no_tokens_but_its_own(
    cluster: Machine, answers: dict[tuple[str, str], dict[str, str]]
) -> None:
    """What the review of a node says is said of its own pods: others are refused."""
    assert ("node", "kubelet_to_apiserver") in given(answers)
    node = pair_of_files("node", "kubelet_to_apiserver")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "power", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "one", "image": "registry.metalk8s.invalid/one"}]},
    }
    label = {"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}
    patch = {"Content-Type": "application/merge-patch+json"}
    token = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    here = "/api/v1/nodes/stranger-node"
    bodies: list[dict[str, Any]] = [
        {"method": "POST", "path": "/api/v1/namespaces/kube-system/pods", "body": pod},
        {"method": "POST", "path": token, "body": request},
        {"method": "PATCH", "path": here, "body": label, "headers": patch},
        {"method": "PATCH", "path": "/api/v1/nodes/bootstrap", "body": {}, "headers": patch},
        {"path": f"{here}/proxy/pods"},
    ]
    found = asked(cluster, [{**body, **node} for body in bodies])
    assert [one["status"] for one in found] == [403] * len(bodies), found
    assert "can only create mirror pods" in found[0]["body"]


def test_these_questions_can_be_answered_otherwise(cluster: Machine) -> None:
    """By who may do anything; and the front proxy's certificate makes one of whoever has it."""
    anything, secret = REVIEWS[ANYTHING], {"path": "/api/v1/namespaces/kube-system/secrets"}
    as_master = {"headers": HEADERS["front proxy"]}
    found = asked(
        cluster,
        [
            {**anything, **ALMIGHTY},
            {**secret, **ALMIGHTY},
            {**anything, **as_master, **FRONT_PROXY},
            {**secret, **as_master, **FRONT_PROXY},
            {**secret, **FRONT_PROXY},
        ],
    )
    assert [one["status"] for one in found] == [201, 200, 201, 200, 401]
    for number in (0, 2):
        assert json.loads(found[number]["body"])["status"]["allowed"] is True


def test_who_reaches_etcd(cluster: Machine, answers: dict[tuple[str, str], dict[str, str]]) -> None:
    """Whoever does has all of it: API servers, and machines with a member. No mere node does."""
    pairs = given(answers)
    server = {"server": f"{cluster.address}:2379", "path": "/version"}
    found = asked(cluster, [{**server, **pair_of_files(*pair)} for pair in pairs])
    reached = {pair for pair, answer in zip(pairs, found, strict=True) if answer["status"] == 200}
    assert reached == {pair for pair in pairs if TABLE[pair[1]]["authority"] == "etcd"}
    assert {role for role, _ in reached} == {"bootstrap", "etcd", "master"}
    assert {policy for role, policy in reached if role == "master"} == {"apiserver_to_etcd"}
    name = f"{PKI}/apiserver-etcd-client"
    own = {"certificate": f"{name}.crt", "key": f"{name}.key"}
    [accepted, nobody] = asked(cluster, [{**server, **own}, server])
    assert (accepted["status"], nobody["status"]) == (200, 0)
