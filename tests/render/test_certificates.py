"""The policies of certificates, as rendered: what they sign, and for whom states ask by them."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from .conftest import HERE, PLATFORMS, TREE
from .test_tree import ROLES, files_of

pytestmark = pytest.mark.render

TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (TREE / "states/metalk8s/parameters/certificates.yaml").read_text(encoding="utf-8")
)
POLICIES = "/etc/metalk8s/pki/policies.yaml"
DAYS = 90
OWN = [name for name, policy in TABLE.items() if "bootstrap" in policy["roles"]]


@pytest.fixture(scope="module")
def known(rendered: dict[str, Any]) -> dict[str, Any]:
    """Return what the machine with the authorities knows."""
    document = yaml.safe_load(files_of(rendered, "debian-12")[POLICIES])
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def signed(
    rendered: dict[str, Any], salt_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Sign by every policy, and ask for what is nobody's to have."""
    scratch = tmp_path_factory.mktemp("sign")
    request = {
        "modules": str(TREE / "states/_modules"),
        "policies": files_of(rendered, "debian-12")[POLICIES],
        "scratch": str(scratch),
        "days_valid": DAYS,
    }
    run = subprocess.run(
        [salt_python, str(HERE / "salt_sign.py")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(scratch)},
    )
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("role", ROLES)
def test_roles_ask_for_what_they_may_have(
    rendered: dict[str, Any], platform: str, role: str
) -> None:
    """No state asks by a policy that its role is not in; the first machine asks by all of its."""
    states = rendered[platform]["sls"][f"metalk8s.roles.{role}"]["states"]
    asked = {state["arguments"].get("policy") for state in states} - {None}
    assert asked <= {name for name, policy in TABLE.items() if role in policy["roles"]}
    if role == "bootstrap":
        assert asked == set(OWN)


def test_states_say_nothing_of_certificates(rendered: dict[str, Any]) -> None:
    """But for those of the authorities, which sign themselves."""
    for sls in rendered["debian-12"]["sls"].values():
        for state in sls["states"]:
            assert not state["function"].startswith("x509.")
            if state["function"] == "metalk8s_pki.authority":
                assert state["sls"] == "metalk8s.authorities.created"


@pytest.mark.parametrize("name", OWN)
def test_certificate(signed: dict[str, Any], known: dict[str, Any], name: str) -> None:
    """What Salt signs is what the table says, and is found to be fine."""
    policy, read = TABLE[name], signed["own"][name]["read"]
    facts = {**known["cluster"], **known["machine"], "node": known["machine"]["id"]}
    assert signed["own"][name]["why"] == ""
    assert read["subject"] == {part: v.format(**facts) for part, v in policy["subject"].items()}
    assert read["issuer"] == {"CN": policy["authority"]}
    extensions = read["extensions"]
    usages = extensions["keyUsage"]
    assert {usage for usage, given in usages.items() if given} == {
        *("critical", "digitalSignature", "keyEncipherment")
    }
    assert extensions["extendedKeyUsage"]["value"] == policy["usages"]
    assert "basicConstraints" not in extensions
    found = extensions.get("subjectAltName", {"value": []})["value"]
    assert {plain(one) for one in found} == {v.format(**facts) for v in policy.get("names", [])}
    begin, end = (datetime.datetime.fromisoformat(read[k]) for k in ("not_before", "not_after"))
    assert end - begin == datetime.timedelta(days=DAYS)


def plain(name: str) -> str:
    """Write a name as the table does."""
    kind, _, value = name.partition(":")
    return str(ipaddress.ip_address(value)) if kind == "IP" else value


def test_through_the_master(signed: dict[str, Any]) -> None:
    """The id is what Salt knows of the publication, whatever arguments say; nothing else counts."""
    answers = signed["asked"]
    assert answers.pop("plain")["read"]["subject"] == {
        "CN": "system:node:node",
        "O": "system:nodes",
    }
    start = "node gets no certificate by the policy kubelet: "
    stranger = start.replace("node", "stranger", 1)
    wish = "the policy says what is in it, not who asks"
    unknown = "the API server does not say what it is: "
    assert {case: answer["refused"] for case, answer in answers.items()} == {
        "wishes": f"{start}{wish} (CN, O)",
        "wish in a word": f"{start}{wish} (CN)",
        "id in a word": Beginning(f"{stranger}{unknown}"),
        "id": Beginning(f"{stranger}{unknown}"),
        "request": f"{start}what it sent is no public key in PEM",
        "path": f"{start}what it sent is no public key in PEM",
        "private key": f"{start}what it sent is no public key in PEM",
        "short key": Beginning(start),
        "elliptic curve": Beginning(start),
        "almighty": "node gets no certificate by the policy administrator: the Salt master gets "
        "none of the group system:masters for anybody",
    }


def test_keys_are_read_as_salt_reads_them(signed: dict[str, Any]) -> None:
    """From text and from a file; what is no RSA key has no length, and what is none is refused."""
    keys = signed["keys"]
    assert [text.strip() for text in keys["public"]] == [
        text.strip() for text in keys["as Salt says"]
    ]
    assert keys["bits"] == [2048, 2048, 0]
    assert keys["refused"] == [True] * 3


def test_authorities_of_salts_own_states_are_kept(signed: dict[str, Any]) -> None:
    """Those of machines that were installed when these states made them."""
    assert set(signed["authorities"].values()) == {True}


class Beginning(str):
    """A text that is equal to each that begins with it."""

    def __eq__(self, other: object) -> bool:
        return str(other).startswith(str(self))

    __hash__ = str.__hash__


def test_path_is_the_modules() -> None:
    """The states write where the module reads."""
    module = pathlib.Path(TREE / "states/_modules/metalk8s_certificates.py")
    assert f'POLICIES = "{POLICIES}"' in module.read_text(encoding="utf-8")
