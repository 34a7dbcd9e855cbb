"""Files made of keys: certificates, kubeconfigs, encryption keys. None is shown in a log."""

from __future__ import annotations

import base64
import pathlib
import re
import secrets
from typing import Any

import yaml

CLUSTER = "kubernetes"
KEY_BYTES = 32  # what secretbox takes
NONCE = re.compile(r"(?m)^# Nonce: ([0-9a-f]{32})$")


def certificate(name: str, policy: str, private_key: str) -> dict[str, Any]:
    """Write the certificate that a key gets by a policy; it is renewed before it ends.

    :param name: the file, which everybody may read.
    :param policy: its name in ``parameters/certificates.yaml``.
    :param private_key: path of the key.
    """
    path = pathlib.Path(name)
    there = pathlib.Path(private_key).is_file()
    if not there and not __opts__["test"]:
        return _result(name, False, {}, f"{name} needs {private_key}: not there")
    text = path.read_text(encoding="ascii") if path.is_file() else ""
    public = __salt__["metalk8s_keys.public"](private_key) if there else ""
    reason = __salt__["metalk8s_certificates.why_new"](policy, text, public)
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    if reason:
        answer = __salt__["metalk8s_certificates.issue"](policy, public)
        if "refused" in answer:
            return _result(name, False, {}, answer["refused"])
        text = answer["certificate"]
    return _keep(name, text, reason, "root", "0644")


def kubeconfig(
    name: str, server: str, policy: str, header: str, key_bits: int = 2048, user: str = "root"
) -> dict[str, Any]:
    """Write a kubeconfig with a client certificate of its own; it is renewed before it ends.

    :param name: the file.
    :param server: URL of the API server.
    :param policy: name in ``parameters/certificates.yaml`` of what the certificate is.
    :param user: who may read the file.
    """
    path = pathlib.Path(name)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    reason = why_new(text, server, policy)
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    if reason:
        key = __salt__["x509.create_private_key"](keysize=key_bits)
        public = __salt__["metalk8s_keys.public"](key)
        answer = __salt__["metalk8s_certificates.issue"](policy, public)
        if "refused" in answer:
            return _result(name, False, {}, answer["refused"])
        policy_says = __salt__["metalk8s_certificates.described"](policy)
        trusted = _certificate_of(policy_says["authority"])
        common_name = policy_says["subject"]["CN"]
        document = compose(server, trusted, common_name, answer["certificate"], key)
        text = f"# {header}\n{yaml.safe_dump(document)}"
    return _keep(name, text, reason, user, "0600")


def why_new(text: str, server: str, policy: str) -> str:
    """Say why a kubeconfig does not do, or nothing when it does."""
    if not text:
        return "there is none"
    try:
        policy_says = __salt__["metalk8s_certificates.described"](policy)
        document = yaml.safe_load(text)
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]
        certificate = _decoded(user["user"]["client-certificate-data"])
        key = _decoded(user["user"]["client-key-data"])
        if cluster["server"] != server:
            return "the server is another"
        trusted = _decoded(cluster["certificate-authority-data"])
        if trusted != _certificate_of(policy_says["authority"]):
            return "the authority is another"
        public = __salt__["metalk8s_keys.public"](key)
        return str(__salt__["metalk8s_certificates.why_new"](policy, certificate, public))
    except Exception as error:  # whatever is wrong with it, a new one is right
        return f"it can't be read: {type(error).__name__}"


def compose(server: str, trusted: str, user: str, certificate: str, key: str) -> dict[str, Any]:
    """Lay out a kubeconfig as kubeadm does."""
    context = f"{user}@{CLUSTER}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {
                "name": CLUSTER,
                "cluster": {"server": server, "certificate-authority-data": _encoded(trusted)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(certificate),
                    "client-key-data": _encoded(key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": CLUSTER, "user": user}}],
        "current-context": context,
    }


def public_key(name: str, private_key: str) -> dict[str, Any]:
    """Write the public half of a private key."""
    if not pathlib.Path(private_key).is_file():
        result = None if __opts__["test"] else False
        return _result(name, result, {}, f"{name} needs {private_key}: not there")
    text = __salt__["metalk8s_keys.public"](private_key).strip() + "\n"
    result: dict[str, Any] = __states__["file.managed"](
        name, contents=text, user="root", group="root", mode="0644"
    )
    return result


def shared(name: str, secret: str, user: str, group: str, mode: str) -> dict[str, Any]:
    """Write a secret that the bootstrap machine shares with this one.

    :param secret: its name, as ``metalk8s_secrets`` knows it.
    """
    path = pathlib.Path(name)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    answer = __salt__["metalk8s_secrets.ask"](secret)
    if "refused" in answer:
        return _result(name, False, {}, answer["refused"])
    reason = "" if before == answer["text"] else "it is out of date" if before else "there is none"
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    return _keep(name, answer["text"], reason, user, mode, group)


def encryption_configuration(name: str, keys: list[str], header: str, user: str) -> dict[str, Any]:
    """Write how the API server encrypts Secrets, with keys made here; those that are there stay.

    To change the key: name a second one behind the first, so that every API server can read what it
    will write; name it first; write every Secret anew; name it alone.

    :param keys: names of the keys. The first encrypts, all of them decrypt, others go.
    :param user: who may read the file.
    """
    path = pathlib.Path(name)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    there = _encryption_keys(before)
    made = {key: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode() for key in keys}
    wanted = [{"name": key, "secret": there.get(key, made[key])} for key in keys]
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [
            {
                "resources": ["secrets"],
                "providers": [{"secretbox": {"keys": wanted}}, {"identity": {}}],
            }
        ],
    }
    reason = (
        "" if list(there) == keys else f"keys {', '.join(there) or 'none'} become {', '.join(keys)}"
    )
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    return _keep(name, f"# {header}\n{yaml.safe_dump(document)}", reason, user, "0600")


def vrrp_password(name: str, where: str, header: str) -> dict[str, Any]:
    """Write the password that keepalived sends along, for its configuration to include.

    A nonce is beside it: a digest of the file may be shown, and eight characters are soon guessed.

    :param where: key of the password in the pillar; itself, it would be logged as an argument.
    """
    path = pathlib.Path(name)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    # States get asterisks in place of the pillar, unless they ask.
    password = __salt__["pillar.get"](where, unmask=True)
    nonce = NONCE.search(before)
    if nonce and before == _authentication(header, nonce[1], password):
        return _keep(name, before, "", "root", "0600")
    reason = "it is out of date" if before else "there is none"
    if __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    text = _authentication(header, secrets.token_hex(16), password)
    return _keep(name, text, reason, "root", "0600")


def _authentication(header: str, nonce: str, password: str) -> str:
    block = f"authentication {{\n    auth_type PASS\n    auth_pass {password}\n}}\n"
    return f"# {header}\n# Nonce: {nonce}\n{block}"


def _encryption_keys(text: str) -> dict[str, str]:
    if not text:
        return {}
    [resource] = yaml.safe_load(text)["resources"]
    return {key["name"]: key["secret"] for key in resource["providers"][0]["secretbox"]["keys"]}


def _keep(
    name: str, text: str, reason: str, user: str, mode: str, group: str = ""
) -> dict[str, Any]:
    result: dict[str, Any] = __states__["file.managed"](
        name, contents=text, user=user, group=group or user, mode=mode, show_changes=False
    )
    if reason and result["result"]:
        result["changes"], result["comment"] = {name: reason}, f"{name} was written: {reason}"
    return result


def _certificate_of(authority: str) -> str:
    return pathlib.Path(f"{authority}.crt").read_text(encoding="ascii")


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("ascii")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("ascii")).decode("ascii")


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
