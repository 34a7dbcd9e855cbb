"""Files made of keys. Salt's own x509 module is stood in for; it is tried on real nodes."""

from __future__ import annotations

import base64
import pathlib
from typing import Any

import pytest
import yaml

from .loader import load

VALIDITY = {"days_valid": 90, "days_remaining": 45}
SUBJECT = {"CN": "kubernetes-admin", "O": "system:masters"}


class X509:
    """What Salt's module would say of a certificate that is only a word."""

    def __init__(self) -> None:
        self.made = 0
        self.subject: dict[str, str] = SUBJECT
        self.key_fits = self.signed = True
        self.ends = False

    def functions(self) -> dict[str, Any]:
        return {
            "x509.create_private_key": lambda keysize: f"key {keysize}",
            "x509.create_certificate": self.create,
            "x509.read_certificate": lambda certificate: {"subject": self.subject},
            "x509.verify_private_key": lambda key, certificate: self.key_fits,
            "x509.verify_signature": lambda certificate, signing_pub_key: self.signed,
            "x509.expires": lambda certificate, days: self.ends,
            "x509.get_public_key": lambda key: f"public half of {key}\n\n",
        }

    def create(self, **arguments: Any) -> str:
        self.made += 1
        assert arguments["signing_private_key"].endswith("/ca.key")
        assert arguments["extendedKeyUsage"] == "clientAuth"
        assert {k: v for k, v in arguments.items() if k in ("CN", "O")} == SUBJECT
        return f"certificate {self.made}"


def manage(name: str, contents: str, **arguments: Any) -> dict[str, Any]:
    """Stand in for ``file.managed``."""
    path = pathlib.Path(name)
    changed = not path.exists() or path.read_text() != contents
    path.write_text(contents)
    if arguments["mode"] == "0600":
        assert arguments["show_changes"] is False
    changes = {"diff": "<show_changes=False>"} if changed else {}
    return {"name": name, "result": True, "changes": changes, "comment": "as it should be"}


@pytest.fixture
def x509() -> X509:
    return X509()


def credentials(x509: X509, test: bool = False) -> Any:
    return load(
        "_states/metalk8s_credentials",
        salt=x509.functions(),
        states={"file.managed": manage},
        opts={"test": test},
    )


def kubeconfig(folder: pathlib.Path, x509: X509, test: bool = False, **more: Any) -> dict[str, Any]:
    if not (folder / "ca.crt").exists():
        (folder / "ca.crt").write_text("authority")
    arguments = {
        "server": "https://10.0.0.1:6443",
        "authority": str(folder / "ca"),
        "common_name": SUBJECT["CN"],
        "organization": SUBJECT["O"],
        "header": "Generated.",
        "validity": VALIDITY,
        **more,
    }
    answer: dict[str, Any] = credentials(x509, test).kubeconfig(
        str(folder / "admin.conf"), **arguments
    )
    return answer


def test_kubeconfig_is_laid_out_as_kubeadm_does(tmp_path: pathlib.Path, x509: X509) -> None:
    """One cluster, one user, one context, everything inside."""
    answer = kubeconfig(tmp_path, x509)
    assert answer["changes"] == {str(tmp_path / "admin.conf"): "there is none"}
    text = (tmp_path / "admin.conf").read_text()
    assert text.startswith("# Generated.\n")
    document = yaml.safe_load(text)
    assert document["current-context"] == "kubernetes-admin@kubernetes"
    assert document["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(b"authority").decode(),
    }
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"certificate 1"
    assert base64.b64decode(user["client-key-data"]) == b"key 2048"


def test_kubeconfig_that_does_is_kept(tmp_path: pathlib.Path, x509: X509) -> None:
    """No new key without a reason."""
    kubeconfig(tmp_path, x509)
    before = (tmp_path / "admin.conf").read_text()
    assert kubeconfig(tmp_path, x509)["changes"] == {}
    assert kubeconfig(tmp_path, x509, test=True)["changes"] == {}
    assert (tmp_path / "admin.conf").read_text() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"server": "https://10.0.0.2:6443"}, "the server is another"),
        ({"authority": "other"}, "the authority is another"),
        ({"subject": {"CN": "somebody"}}, "the user is another"),
        ({"key_fits": False}, "the key is another's"),
        ({"signed": False}, "the authority did not sign it"),
        ({"ends": True}, "it ends in less than 45 days"),
        ({"text": "users: []"}, "it can't be read: KeyError"),
        ({"text": "users: [\0"}, "it can't be read: ReaderError"),
        ({"text": ""}, "there is none"),
    ],
)
def test_kubeconfig_is_renewed(
    tmp_path: pathlib.Path, x509: X509, change: dict[str, Any], reason: str
) -> None:
    """Each with its reason, which test mode foresees without writing."""
    kubeconfig(tmp_path, x509)
    more = {"server": change["server"]} if "server" in change else {}
    if "authority" in change:
        (tmp_path / "ca.crt").write_text("another authority")
    if "text" in change:
        (tmp_path / "admin.conf").write_text(change["text"])
    for attribute in set(change) & {"subject", "key_fits", "signed", "ends"}:
        setattr(x509, attribute, change[attribute])
    before = (tmp_path / "admin.conf").read_text()
    foreseen = kubeconfig(tmp_path, x509, test=True, **more)
    assert foreseen["result"] is None
    assert foreseen["changes"] == {str(tmp_path / "admin.conf"): reason}
    assert (tmp_path / "admin.conf").read_text() == before
    assert kubeconfig(tmp_path, x509, **more)["changes"] == foreseen["changes"]
    assert x509.made == 2


def test_public_key(tmp_path: pathlib.Path, x509: X509) -> None:
    """The half that everybody may read."""
    key = tmp_path / "sa.key"
    state = credentials(x509)
    assert state.public_key(str(tmp_path / "sa.pub"), private_key=str(key))["result"] is False
    key.write_text("private")
    assert state.public_key(str(tmp_path / "sa.pub"), private_key=str(key))["result"] is True
    assert (tmp_path / "sa.pub").read_text() == f"public half of {key}\n"


def keys_of(text: str) -> dict[str, str]:
    [resource] = yaml.safe_load(text)["resources"]
    assert resource["resources"] == ["secrets"]
    return {key["name"]: key["secret"] for key in resource["providers"][0]["secretbox"]["keys"]}


def test_encryption_key_is_made_once(tmp_path: pathlib.Path, x509: X509) -> None:
    """A new one would make everything unreadable that the old one wrote."""
    path = tmp_path / "configuration.yaml"
    arguments = {"keys": ["key1"], "header": "Generated.", "user": "metalk8s-apiserver"}
    foreseen = credentials(x509, test=True).encryption_configuration(str(path), **arguments)
    assert (foreseen["result"], path.exists()) == (None, False)
    answer = credentials(x509).encryption_configuration(str(path), **arguments)
    assert answer["changes"] == {str(path): "keys none become key1"}
    text = path.read_text()
    [secret] = keys_of(text).values()
    assert len(base64.b64decode(secret)) == 32
    assert secret not in str(answer)
    assert credentials(x509).encryption_configuration(str(path), **arguments)["changes"] == {}
    assert path.read_text() == text


def test_encryption_key_is_changed_in_steps(tmp_path: pathlib.Path, x509: X509) -> None:
    """Added behind, moved to the front, then alone; no secret changes on the way."""
    path = tmp_path / "configuration.yaml"
    seen: dict[str, str] = {}
    for keys in (["key1"], ["key1", "key2"], ["key2", "key1"], ["key2"]):
        answer = credentials(x509).encryption_configuration(
            str(path), keys=keys, header="Generated.", user="root"
        )
        assert answer["changes"]
        found = keys_of(path.read_text())
        assert list(found) == keys
        assert all(seen.setdefault(name, secret) == secret for name, secret in found.items())
