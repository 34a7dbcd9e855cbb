"""Files made of keys. Who signs is stood in for; ``test_certificates.py`` is about that."""

from __future__ import annotations

import base64
import pathlib
from typing import Any

import pytest
import yaml

from .loader import load

SUBJECT = {"CN": "kubernetes-admin", "O": "system:masters"}


class Signer:
    """Keys and certificates that are only words, and what is said of them."""

    def __init__(self) -> None:
        self.made = 0
        self.reason = self.refused = ""

    def functions(self) -> dict[str, Any]:
        return {
            "x509.create_private_key": lambda keysize: f"key {keysize}",
            "metalk8s_keys.public": lambda key: f"public half of {key}\n\n",
            "metalk8s_certificates.described": self.described,
            "metalk8s_certificates.issue": self.issue,
            "metalk8s_certificates.why_new": self.why_new,
        }

    def described(self, policy: str) -> dict[str, Any]:
        assert policy == "administrator"
        return {"authority": self.authority, "subject": SUBJECT}

    def why_new(self, policy: str, certificate: str, public_key: str) -> str:
        if not certificate:
            return "there is none"
        assert certificate.endswith(f"for {public_key.strip()}\n")
        return self.reason

    def issue(self, policy: str, public_key: str) -> dict[str, str]:
        if self.refused:
            return {"refused": self.refused}
        self.made += 1
        return {"certificate": f"{policy} {self.made} for {public_key.strip()}\n"}

    authority = ""


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
def signer() -> Signer:
    return Signer()


def credentials(signer: Signer, test: bool = False) -> Any:
    return load(
        "_states/metalk8s_credentials",
        salt=signer.functions(),
        states={"file.managed": manage},
        opts={"test": test},
    )


def kubeconfig(
    folder: pathlib.Path, signer: Signer, test: bool = False, **more: Any
) -> dict[str, Any]:
    if not (folder / "ca.crt").exists():
        (folder / "ca.crt").write_text("authority")
    signer.authority = str(folder / "ca")
    arguments = {
        "server": "https://10.0.0.1:6443",
        "policy": "administrator",
        "header": "Generated.",
        **more,
    }
    answer: dict[str, Any] = credentials(signer, test).kubeconfig(
        str(folder / "admin.conf"), **arguments
    )
    return answer


def test_kubeconfig_is_laid_out_as_kubeadm_does(tmp_path: pathlib.Path, signer: Signer) -> None:
    """One cluster, one user, one context, everything inside."""
    answer = kubeconfig(tmp_path, signer)
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
    certificate = base64.b64decode(user["client-certificate-data"])
    assert certificate == b"administrator 1 for public half of key 2048\n"
    assert base64.b64decode(user["client-key-data"]) == b"key 2048"


def test_kubeconfig_that_does_is_kept(tmp_path: pathlib.Path, signer: Signer) -> None:
    """No new key without a reason."""
    kubeconfig(tmp_path, signer)
    before = (tmp_path / "admin.conf").read_text()
    assert kubeconfig(tmp_path, signer)["changes"] == {}
    assert kubeconfig(tmp_path, signer, test=True)["changes"] == {}
    assert (tmp_path / "admin.conf").read_text() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"server": "https://10.0.0.2:6443"}, "the server is another"),
        ({"authority": "other"}, "the authority is another"),
        ({"reason": "it ends in less than 45 days"}, "it ends in less than 45 days"),
        ({"text": "users: []"}, "it can't be read: KeyError"),
        ({"text": "users: [\0"}, "it can't be read: ReaderError"),
        ({"text": ""}, "there is none"),
    ],
)
def test_kubeconfig_is_renewed(
    tmp_path: pathlib.Path, signer: Signer, change: dict[str, Any], reason: str
) -> None:
    """Each with its reason, which test mode foresees without writing."""
    kubeconfig(tmp_path, signer)
    more = {"server": change["server"]} if "server" in change else {}
    if "authority" in change:
        (tmp_path / "ca.crt").write_text("another authority")
    if "text" in change:
        (tmp_path / "admin.conf").write_text(change["text"])
    signer.reason = change.get("reason", "")
    before = (tmp_path / "admin.conf").read_text()
    foreseen = kubeconfig(tmp_path, signer, test=True, **more)
    assert foreseen["result"] is None
    assert foreseen["changes"] == {str(tmp_path / "admin.conf"): reason}
    assert (tmp_path / "admin.conf").read_text() == before
    assert kubeconfig(tmp_path, signer, **more)["changes"] == foreseen["changes"]
    assert signer.made == 2


def test_kubeconfig_that_is_refused(tmp_path: pathlib.Path, signer: Signer) -> None:
    """In the signer's own words."""
    signer.refused = "first gets no certificate"
    answer = kubeconfig(tmp_path, signer)
    assert (answer["result"], answer["comment"]) == (False, "first gets no certificate")
    assert not (tmp_path / "admin.conf").exists()


def test_certificate(tmp_path: pathlib.Path, signer: Signer) -> None:
    """Made once, kept while it does, made anew with a reason, which test mode foresees."""
    key, path = tmp_path / "etcd.key", tmp_path / "etcd.crt"
    arguments = {"name": str(path), "policy": "etcd_server", "private_key": str(key)}
    assert credentials(signer).certificate(**arguments)["result"] is False
    assert credentials(signer, test=True).certificate(**arguments)["result"] is None
    key.write_text("private")
    foreseen = credentials(signer, test=True).certificate(**arguments)
    assert (foreseen["result"], foreseen["changes"]) == (None, {str(path): "there is none"})
    assert credentials(signer).certificate(**arguments)["changes"] == foreseen["changes"]
    assert path.read_text() == f"etcd_server 1 for public half of {key}\n"
    assert credentials(signer).certificate(**arguments)["changes"] == {}
    signer.reason = "the names are others"
    answer = credentials(signer).certificate(**arguments)
    assert answer["changes"] == {str(path): "the names are others"}
    signer.refused = "first gets no certificate"
    answer = credentials(signer).certificate(**arguments)
    assert (answer["result"], answer["comment"]) == (False, "first gets no certificate")
    assert path.read_text().startswith("etcd_server 2 ")


def test_public_key(tmp_path: pathlib.Path, signer: Signer) -> None:
    """The half that everybody may read."""
    key = tmp_path / "sa.key"
    state = credentials(signer)
    assert state.public_key(str(tmp_path / "sa.pub"), private_key=str(key))["result"] is False
    key.write_text("private")
    assert state.public_key(str(tmp_path / "sa.pub"), private_key=str(key))["result"] is True
    assert (tmp_path / "sa.pub").read_text() == f"public half of {key}\n"


def keys_of(text: str) -> dict[str, str]:
    [resource] = yaml.safe_load(text)["resources"]
    assert resource["resources"] == ["secrets"]
    return {key["name"]: key["secret"] for key in resource["providers"][0]["secretbox"]["keys"]}


def test_encryption_key_is_made_once(tmp_path: pathlib.Path, signer: Signer) -> None:
    """A new one would make everything unreadable that the old one wrote."""
    path = tmp_path / "configuration.yaml"
    arguments = {"keys": ["key1"], "header": "Generated.", "user": "metalk8s-apiserver"}
    foreseen = credentials(signer, test=True).encryption_configuration(str(path), **arguments)
    assert (foreseen["result"], path.exists()) == (None, False)
    answer = credentials(signer).encryption_configuration(str(path), **arguments)
    assert answer["changes"] == {str(path): "keys none become key1"}
    text = path.read_text()
    [secret] = keys_of(text).values()
    assert len(base64.b64decode(secret)) == 32
    assert secret not in str(answer)
    assert credentials(signer).encryption_configuration(str(path), **arguments)["changes"] == {}
    assert path.read_text() == text


def test_encryption_key_is_changed_in_steps(tmp_path: pathlib.Path, signer: Signer) -> None:
    """Added behind, moved to the front, then alone; no secret changes on the way."""
    path = tmp_path / "configuration.yaml"
    seen: dict[str, str] = {}
    for keys in (["key1"], ["key1", "key2"], ["key2", "key1"], ["key2"]):
        answer = credentials(signer).encryption_configuration(
            str(path), keys=keys, header="Generated.", user="root"
        )
        assert answer["changes"]
        found = keys_of(path.read_text())
        assert list(found) == keys
        assert all(seen.setdefault(name, secret) == secret for name, secret in found.items())


def test_password_of_vrrp_is_shown_nowhere(tmp_path: pathlib.Path) -> None:
    """Neither in an answer, nor by a digest of the file: that of the same password is another."""
    pillar = {"metalk8s:password": "s3cret"}
    files = [tmp_path / "one.conf", tmp_path / "two.conf"]

    def write(path: pathlib.Path, test: bool = False) -> dict[str, Any]:
        module = load(
            "_states/metalk8s_credentials",
            salt={"pillar.get": lambda key, unmask: pillar[key] if unmask else "**********"},
            states={"file.managed": manage},
            opts={"test": test},
        )
        answer: dict[str, Any] = module.vrrp_password(str(path), "metalk8s:password", "Generated.")
        assert pillar["metalk8s:password"] not in str(answer)
        return answer

    foreseen = write(files[0], test=True)
    assert (foreseen["result"], files[0].exists()) == (None, False)
    for file in files:
        assert write(file)["changes"] == {str(file): "there is none"}
        assert write(file)["changes"] == {}
        assert file.read_text().startswith("# Generated.\n")
        assert "    auth_pass s3cret\n" in file.read_text()
    assert files[0].read_text() != files[1].read_text()
    before = files[0].read_text()
    pillar["metalk8s:password"] = "an0ther"
    assert write(files[0])["changes"] == {str(files[0]): "it is out of date"}
    # Nor does a digest tell that the password is the former one again.
    pillar["metalk8s:password"] = "s3cret"
    assert write(files[0])["changes"]
    assert files[0].read_text() != before
