"""Who gets which certificate. Salt's own x509 is stood in for; ``tests/render`` signs for real."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .loader import STATES, load

TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (STATES / "metalk8s/parameters/certificates.yaml").read_text(encoding="utf-8")
)
DOCUMENT = STATES.parents[1] / "docs/reference/certificates.md"
KEY = "-----BEGIN PUBLIC KEY-----\nMIIB+A==\n-----END PUBLIC KEY-----\n"
KNOWN = {
    "machine": {"id": "first", "roles": ["bootstrap"], "address": "10.0.0.1"},
    "cluster": {
        "api_host": "api.example",
        "api_service": "10.96.0.1",
        "domain": "cluster.local",
        "registry": "registry.invalid",
    },
    "key_bits": 2048,
    "days_valid": 90,
    "days_remaining": 45,
    "authorities": {
        policy["authority"]: f"/pki/{policy['authority']}" for policy in TABLE.values()
    },
    "policies": TABLE,
}
NODES = {
    "worker": {"metadata": {"labels": {"node-role.kubernetes.io/node": "", "zone": "here"}}},
    "master": {"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}},
    "odd": {"metadata": {"labels": {"role": "bootstrap"}}},
    "bare": {"metadata": {}},
    "third": {"metadata": {"labels": {"node-role.kubernetes.io/etcd": ""}}},
}
PINNED = {"third": {"address": "10.0.0.3"}}
ALMIGHTY = sorted(
    n for n, policy in TABLE.items() if policy["subject"].get("O") == "system:masters"
)

GIVEN = sorted(n for n, policy in TABLE.items() if policy.get("through_master"))


class X509:
    """Salt's module, for certificates that are what was asked for as JSON."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.lie: dict[str, Any] = {}
        self.signed = True
        self.days_left = 80
        self.api: dict[str, Any] | None = NODES

    def functions(self) -> dict[str, Any]:
        return {
            "x509.create_certificate": self.create,
            "x509.read_certificate": lambda text: json.loads(text) | self.lie,
            "x509.get_public_key": lambda key: key.strip(),
            "x509.verify_signature": lambda certificate, signing_pub_key: self.signed,
            "x509.expires": lambda certificate, days: self.days_left < days,
            "metalk8s_kubernetes.get": self.node,
        }

    def node(self, api_version: str, kind: str, name: str) -> Any:
        assert (api_version, kind) == ("v1", "Node")
        if self.api is None:
            raise OSError("it does not answer")
        return self.api.get(name)

    def create(self, **asked: Any) -> str:
        self.asked.append(asked)
        usages = asked["keyUsage"].split(", ")
        extensions: dict[str, Any] = {
            "keyUsage": {name: name in usages for name in (*usages, "keyCertSign")},
            "extendedKeyUsage": {"value": asked["extendedKeyUsage"].split(", ")},
        }
        if "subjectAltName" in asked:
            long = [n.replace("::1", "0:0:0:0:0:0:0:1") for n in asked["subjectAltName"]]
            extensions["subjectAltName"] = {"value": long}
        subject = {part: asked[part] for part in ("CN", "O") if part in asked}
        kind = {"key_type": "rsa", "key_size": 2048, "public_key": asked["public_key"]}
        return json.dumps({"subject": subject, "extensions": extensions, **kind})


@pytest.fixture
def x509() -> X509:
    return X509()


def module(x509: X509, folder: pathlib.Path, **changes: Any) -> Any:
    found = load("_modules/metalk8s_certificates", salt=x509.functions())
    file = folder / "policies.yaml"
    machines = folder / "machines.json"
    machines.write_text(json.dumps(PINNED), encoding="utf-8")
    known = {**KNOWN, "machines": str(machines), **changes}
    file.write_text(json.dumps(known), encoding="utf-8")
    found.POLICIES = str(file)
    return found


def test_policies_are_documented() -> None:
    """Whoever looks them up sees what holds."""
    rows = []
    for name, policy in TABLE.items():
        assert set(policy) - {"names", "through_master"} == {
            *("what", "authority", "roles"),
            "subject",
            "usages",
            "days",
        }
        subject = ", ".join(
            f"{part}={policy['subject'][part]}" for part in sorted(policy["subject"])
        )
        columns = (
            *(f"`{name}`", policy["what"], policy["authority"].replace("_", " ")),
            *(", ".join(policy["roles"]), f"`{subject}`", ", ".join(policy["usages"])),
            *(", ".join(policy.get("names", [])) or "none", str(policy["days"])),
            "yes" if name in GIVEN else "no",
        )
        rows.append(f"| {' | '.join(columns)} |")
    text = DOCUMENT.read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| `[a-z_]+` \|.*$", text) == rows


def test_own_certificates(x509: X509, tmp_path: pathlib.Path) -> None:
    """The machine with the authorities gets each of them, and what was made is found to be fine."""
    certificates = module(x509, tmp_path)
    own = [name for name, policy in TABLE.items() if "bootstrap" in policy["roles"]]
    for name in own:
        answer = certificates.issue(name, KEY)
        assert certificates.why_new(name, answer["certificate"], KEY) == ""
    asked = dict(zip(own, x509.asked, strict=True))
    assert asked["apiserver"] == {
        "public_key": KEY,
        "signing_private_key": "/pki/kubernetes.key",
        "signing_cert": "/pki/kubernetes.crt",
        "days_valid": 90,
        "keyUsage": "critical, digitalSignature, keyEncipherment",
        "extendedKeyUsage": "serverAuth",
        "authorityKeyIdentifier": "keyid",
        "subjectAltName": [
            *("DNS:first", "DNS:kubernetes", "DNS:kubernetes.default"),
            *("DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"),
            *("IP:10.96.0.1", "IP:10.0.0.1", "IP:127.0.0.1", "DNS:api.example"),
        ],
        "CN": "kube-apiserver",
    }
    assert asked["etcd_peer"]["subjectAltName"][-1] == "IP:::1"
    assert asked["kubelet_to_apiserver"]["CN"] == "system:node:first"
    assert asked["kubelet_to_apiserver"]["O"] == "system:nodes"
    assert "subjectAltName" not in asked["kubelet_to_apiserver"]
    assert certificates.described("kubelet")["authority"] == "/pki/kubernetes"


@pytest.mark.parametrize("name", TABLE)
def test_own_roles_count(x509: X509, tmp_path: pathlib.Path, name: str) -> None:
    """A machine does not get what its role has no use for."""
    for role in ("node", "infra", "etcd", "master", "bootstrap"):
        machine = {**KNOWN["machine"], "roles": [role]}
        answer = module(x509, tmp_path, machine=machine).issue(name, KEY)
        assert ("certificate" in answer) is (role in TABLE[name]["roles"])


def test_lifetime(x509: X509, tmp_path: pathlib.Path) -> None:
    """The site's, unless that is longer than the policy's."""
    cases = ((30, "kubelet", 30), (400, "kubelet", 365), (400, "administrator", 90))
    for site, policy, days in cases:
        module(x509, tmp_path, days_valid=site).issue(policy, KEY)
        assert x509.asked[-1]["days_valid"] == days


def test_days_left_fit_into_a_short_policy(x509: X509, tmp_path: pathlib.Path) -> None:
    """A certificate of 90 days is not made anew every day where 120 are to be left."""
    certificates = module(x509, tmp_path, days_valid=365, days_remaining=120)
    text = certificates.issue("administrator", KEY)["certificate"]
    assert certificates.why_new("administrator", text, KEY) == ""
    text = certificates.issue("kubelet", KEY)["certificate"]
    assert certificates.why_new("kubelet", text, KEY) == "it ends in less than 120 days"


OTHER = KEY.replace("MIIB", "MIIC")
USAGES = {"keyUsage": {"digitalSignature": True, "keyEncipherment": True}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": OTHER}, "the key is another's"),
        ({"lie": {"key_size": 1024}}, "the key is not of 2048 bits (RSA) or more"),
        ({"lie": {"key_type": "ec"}}, "the key is not of 2048 bits (RSA) or more"),
        ({"lie": {"subject": {"CN": "root"}}}, "the subject is another"),
        ({"lie": {"extensions": {}}}, "the usages are others"),
        (
            {"lie": {"extensions": USAGES | {"extendedKeyUsage": {"value": ["clientAuth"]}}}},
            "the usages are others",
        ),
        (
            {"lie": {"extensions": USAGES | {"extendedKeyUsage": {"value": ["serverAuth"]}}}},
            "the names are others",
        ),
        ({"signed": False}, "the authority did not sign it"),
        ({"days_left": 400}, "it lasts for more than 365 days"),
        ({"days_left": 44}, "it ends in less than 45 days"),
        ({"text": ""}, "there is none"),
        ({"text": "{"}, "it can't be read: JSONDecodeError"),
        ({"policy": "none"}, "there is no such policy"),
    ],
)
def test_certificate_that_does_not_do(
    x509: X509, tmp_path: pathlib.Path, change: dict[str, Any], reason: str
) -> None:
    """Each with its reason; of those that fit stay, a second look finds nothing."""
    certificates = module(x509, tmp_path)
    text = certificates.issue("kubelet", KEY)["certificate"]
    for attribute in set(change) & {"lie", "signed", "days_left"}:
        setattr(x509, attribute, change[attribute])
    found = certificates.why_new(
        change.get("policy", "kubelet"), change.get("text", text), change.get("key", KEY)
    )
    assert found == reason


def test_what_is_signed_is_looked_at(x509: X509, tmp_path: pathlib.Path) -> None:
    """Nothing is handed out that the policy does not say, such as for a key that is too short."""
    x509.lie = {"key_size": 1024}
    assert module(x509, tmp_path).issue("kubelet", KEY) == {
        "refused": "first gets no certificate by the policy kubelet: it would not be as it has to: "
        "the key is not of 2048 bits (RSA) or more"
    }


def test_no_authorities(x509: X509, tmp_path: pathlib.Path) -> None:
    """Another machine says so."""
    certificates = module(x509, tmp_path)
    (tmp_path / "policies.yaml").unlink()
    why = "gets no certificate by the policy kubelet: there are no certificate policies here"
    assert certificates.issue("kubelet", KEY) == {"refused": f"This machine {why}"}
    assert certificates.issue_to_minion("kubelet", KEY, __pub_id="x") == {"refused": f"x {why}"}


def test_signing_that_fails(x509: X509, tmp_path: pathlib.Path) -> None:
    """The sentence has the reason."""

    def fail(**_: Any) -> str:
        raise ValueError("no such key")

    certificates = module(x509, tmp_path)
    certificates.__salt__["x509.create_certificate"] = fail
    assert certificates.issue("kubelet", KEY)["refused"].endswith("can't be signed: no such key")


@pytest.mark.parametrize(
    ("minion", "policy", "refused"),
    [
        ("first", "kubelet", ""),
        ("first", "apiserver", ""),
        ("worker", "kubelet_to_apiserver", ""),
        ("worker", "salt_minion", ""),
        ("master", "scheduler", ""),
        ("worker", "scheduler", "it is for the roles master, bootstrap, the machine's: node"),
        ("worker", "kubelet", "the cluster does not know the machine's address"),
        ("odd", "salt_minion", ""),
        ("odd", "scheduler", "it is for the roles master, bootstrap, the machine's: node"),
        ("bare", "salt_minion", ""),
        ("bare", "apiserver_to_extensions", "roles master, bootstrap, the machine's: node"),
        ("unknown", "salt_minion", "infra, etcd, master, bootstrap, the machine's: none"),
        ("third", "etcd_peer", ""),
        ("master", "apiserver_to_extensions", ""),
        ("worker", "apiserver_to_extensions", "roles master, bootstrap, the machine's: node"),
        ("master", "administrator_elsewhere", ""),
        ("worker", "administrator_elsewhere", "it is for the roles master, the machine's: node"),
        ("../nodes/worker", "salt_minion", "no node can have that name"),
        ("first", "everything", "there is no such policy"),
        ("first", ["kubelet"], "there is no such policy"),
        (None, "kubelet", "the Salt master does not say who it is"),
        *(("first", policy, "gets none of the group system:masters") for policy in ALMIGHTY),
        ("first", "salt_master", "it is not given through the Salt master"),
    ],
)
def test_minions(
    x509: X509, tmp_path: pathlib.Path, minion: str, policy: str, refused: str
) -> None:
    """By what the cluster knows of them."""
    publication = {"__pub_id": minion} if minion else {}
    answer = module(x509, tmp_path).issue_to_minion(policy, KEY, **publication, __pub_jid="1")
    if not refused:
        assert set(answer) == {"certificate"}
        assert json.loads(answer["certificate"])["public_key"] == KEY
    else:
        assert refused in answer["refused"]
        assert "gets no certificate by the policy" in answer["refused"]
        assert not x509.asked


@pytest.mark.parametrize("name", TABLE)
def test_what_may_do_anything(x509: X509, tmp_path: pathlib.Path, name: str) -> None:
    """It is computed, whatever the table says; what the table does not say is for nobody else."""
    for said in (True, False, "true", 1, None):
        policies = {**TABLE, name: {**TABLE[name], "through_master": said}}
        certificates = module(x509, tmp_path, policies=policies)
        answer = certificates.issue_to_minion(name, KEY, __pub_id="first")
        is_given = said is True and name not in ALMIGHTY and "bootstrap" in TABLE[name]["roles"]
        assert ("certificate" in answer) == is_given, answer
    policies = {**TABLE, name: {k: v for k, v in TABLE[name].items() if k != "through_master"}}
    certificates = module(x509, tmp_path, policies=policies)
    assert "refused" in certificates.issue_to_minion(name, KEY, __pub_id="first")


def test_the_table_offers_nothing_that_is_refused() -> None:
    assert ALMIGHTY
    assert not set(GIVEN) & set(ALMIGHTY)
    assert all(TABLE[name]["roles"] != ["bootstrap"] for name in GIVEN)


def test_address_is_what_an_operator_deployed(x509: X509, tmp_path: pathlib.Path) -> None:
    """Neither the Node's annotations nor the minion say it: a kubelet can change those."""
    NODES["third"]["metadata"]["annotations"] = {"metalk8s.scality.com/ssh-host": "10.0.0.1"}
    module(x509, tmp_path).issue_to_minion("etcd_peer", KEY, __pub_id="third")
    assert "IP:10.0.0.3" in x509.asked[0]["subjectAltName"]
    assert "IP:10.0.0.1" not in x509.asked[0]["subjectAltName"]


ASKED = ("first", "metalk8s_certificates.issue_to_minion", ["kubelet", KEY])


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"first": {"certificate": "text"}}, {"certificate": "text"}),
        ({"first": {"refused": "it says no"}}, {"refused": "it says no"}),
        ({}, "first did not answer through the Salt master"),
        (None, "first did not answer through the Salt master"),
        ({"first": "Passed invalid arguments"}, "Passed invalid arguments"),
    ],
)
def test_another_machine_asks(
    x509: X509, tmp_path: pathlib.Path, answers: Any, expected: dict[str, str] | str
) -> None:
    """It signs nothing itself; whatever comes is an answer or a sentence."""
    machine = {"id": "worker", "roles": ["node"], "address": "10.0.0.9"}
    certificates = module(x509, tmp_path, signer="first", machine=machine)
    asked = []

    def publish(*words: Any, timeout: int) -> Any:
        assert timeout
        asked.append(words)
        return answers

    certificates.__salt__["publish.publish"] = publish
    answer = certificates.issue("kubelet", KEY)
    if isinstance(expected, str):
        assert answer["refused"].startswith("worker gets no certificate by the policy kubelet: ")
        expected = {"refused": answer["refused"]} if expected in answer["refused"] else {}
    assert answer == expected
    assert asked == [ASKED]
    assert not x509.asked


def test_machine_without_a_minion_yet(x509: X509, tmp_path: pathlib.Path) -> None:
    """Root of the machine with the authorities signs for it; by its roles, all the same."""
    certificates = module(x509, tmp_path)
    assert "certificate" in certificates.issue_for("worker", "salt_minion", KEY)
    assert x509.asked[0]["CN"] == "worker"
    for minion, policy in (("worker", "scheduler"), ("worker", "salt_master"), ("no", "kubelet")):
        assert "refused" in certificates.issue_for(minion, policy, KEY)
    assert len(x509.asked) == 1


def test_api_server_does_not_answer(x509: X509, tmp_path: pathlib.Path) -> None:
    """The machine itself gets its certificates, nobody else does."""
    x509.api = None
    certificates = module(x509, tmp_path)
    assert "certificate" in certificates.issue_to_minion("kubelet", KEY, __pub_id="first")
    refused = certificates.issue_to_minion("salt_minion", KEY, __pub_id="worker")["refused"]
    assert refused.endswith("the API server does not say what it is: it does not answer")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/pki/kubernetes.key",
        KEY.replace("PUBLIC", "PRIVATE"),
        f"{KEY}{KEY}",
        f" {KEY}",
        KEY.replace("MIIB", "MI/../"),
        5,
        None,
    ],
)
def test_no_public_key(x509: X509, tmp_path: pathlib.Path, key: str) -> None:
    """Above all, no path of a file of the machine."""
    answer = module(x509, tmp_path).issue_to_minion("kubelet", key, __pub_id="first")
    if key == KEY.replace("MIIB", "MI/../"):  # a dot is in no key
        assert "no public key" in answer["refused"]
    assert "refused" in answer
    assert not x509.asked


WORDS = st.text(max_size=80)
WISHES = st.dictionaries(
    st.one_of(
        st.sampled_from(["CN", "O", "subject", "csr", "days_valid", "extendedKeyUsage", "minion"]),
        st.from_regex(r"__pub_[a-z]{1,8}", fullmatch=True).filter(lambda key: key != "__pub_id"),
    ),
    st.one_of(WORDS, st.integers()),
    max_size=3,
)


@given(
    minion=st.one_of(st.sampled_from(["first", "worker", "master", "third"]), WORDS),
    policy=st.one_of(st.sampled_from(sorted(TABLE)), WORDS),
    key=st.one_of(st.just(KEY), WORDS),
    wishes=WISHES,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_request_says_what_is_in_it(
    tmp_path: pathlib.Path, minion: str, policy: str, key: str, wishes: dict[str, Any]
) -> None:
    """Whatever is asked: a sentence, or the policy's certificate, where only the key is theirs."""
    x509 = X509()
    certificates = module(x509, tmp_path)
    answer = certificates.issue_to_minion(policy, key, **wishes, __pub_id=minion)
    if "refused" in answer:
        assert not x509.asked
        assert answer["refused"].isprintable()
        return
    assert all(wish.startswith("__pub_") for wish in wishes)
    [asked] = x509.asked
    address = {"first": "10.0.0.1", "third": "10.0.0.3"}.get(minion, "")
    words = {"node": minion, "address": address, **KNOWN["cluster"]}
    subject = {part: text.format(**words) for part, text in TABLE[policy]["subject"].items()}
    assert {part: asked[part] for part in ("CN", "O") if part in asked} == subject
    assert "system:masters" not in subject.values()
    assert asked["extendedKeyUsage"] == ", ".join(TABLE[policy]["usages"])
    assert asked["days_valid"] == 90
    names = [text.format(**words) for text in TABLE[policy].get("names", [])]
    assert [name.partition(":")[2] for name in asked.get("subjectAltName", [])] == names
    assert asked["public_key"] == key
