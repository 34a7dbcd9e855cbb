"""Certificates, each by a policy: who may have it, who it says that is, and what it is good for.

The policies are a file, which states write out of ``parameters/certificates.yaml``. Whoever asks
brings the name of a policy and a public key, and nothing else: subject, usages, names and lifetime
are the policy's. The machine with the authorities signs; every other one asks it.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import pathlib
import re
from typing import Any

import yaml

log = logging.getLogger(__name__)

POLICIES = "/etc/metalk8s/pki/policies.yaml"
KEY_USAGES = ("digitalSignature", "keyEncipherment")
# May do anything, whatever the API server's rules say.
ALMIGHTY = "system:masters"
ROLE = "node-role.kubernetes.io/"
PLAIN = "node"  # what a machine without a role's label is
PATIENCE = 60  # seconds until another machine has answered
# Salt takes paths of files in the place of keys: this is neither one nor a private key.
PUBLIC_KEY = re.compile(
    r"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=]{1,76}\n){1,50}-----END PUBLIC KEY-----\n?"
)
NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # RFC 1123, as Kubernetes has it
SHOWN = 60  # characters of what a stranger wrote


class RefusedError(Exception):
    """There is no certificate for this; the text says why."""


def issue(policy: str, public_key: str) -> dict[str, str]:
    """Get a certificate for this machine itself.

    :param policy: its name in the table.
    :param public_key: PEM.
    :return: ``certificate`` (PEM), or ``refused``: a sentence that says who, what and why.
    """
    minion = "This machine"
    try:
        known = _known()
        minion = known["machine"]["id"]
        if "signer" in known:
            return _asked(known["signer"], policy, public_key)
        return {"certificate": _signed(known, policy, known["machine"], public_key)}
    except RefusedError as reason:
        return {"refused": _sentence(minion, policy, reason)}


def issue_for(minion: str, policy: str, public_key: str) -> dict[str, str]:
    """Sign a certificate for another machine, before there is a minion on it that could ask.

    No peer may call it: the Salt master passes only ``issue_to_minion`` on.

    :return: as for ``issue``.
    """
    try:
        known = _known()
        if not _policy(known, policy).get("through_master"):
            raise RefusedError("it is not given to other machines")
        return {"certificate": _signed(known, policy, _stranger(known, minion), public_key)}
    except RefusedError as reason:
        return {"refused": _sentence(_short(minion), policy, reason)}


def issue_to_minion(policy: str, public_key: str, **publication: Any) -> dict[str, str]:
    """Sign a certificate for the minion that asks through the Salt master.

    Salt passes what it knows of a publication as ``__pub_…``, over whatever the minion has put
    there. The master has the id from the minion's key and session, not from what it says.

    :return: as for ``issue``.
    """
    minion = publication.get("__pub_id")
    try:
        if not isinstance(minion, str):
            raise RefusedError("the Salt master does not say who it is")
        _refuse_wishes(publication)
        known = _known()
        _refuse_almighty(known, policy)
        machine = known["machine"] if minion == known["machine"]["id"] else _stranger(known, minion)
        certificate = _signed(known, policy, machine, public_key)
    except RefusedError as reason:
        refused = _sentence(_short(minion or "Somebody"), policy, reason)
        log.warning(refused)
        return {"refused": refused}
    log.info("%s got a certificate by the policy %s", minion, policy)
    return {"certificate": certificate}


def described(policy: str) -> dict[str, Any]:
    """Say what a certificate of this machine by a policy has in it.

    :return: ``authority`` (path without suffix), ``subject``, ``usages``, ``names`` (as in
        ``DNS:node``), ``days`` of a new one, ``longest`` of any.
    :raises RefusedError: this machine may not have one.
    """
    known = _known()
    return _wanted(known, policy, known["machine"])


def why_new(policy: str, certificate: str, public_key: str) -> str:
    """Say why a certificate of this machine does not do, or nothing when it does.

    :param certificate: PEM; may be empty.
    :param public_key: PEM of the key that it has to be for.
    """
    if not certificate:
        return "there is none"
    try:
        known = _known()
        wanted = _wanted(known, policy, known["machine"])
        reason = _difference(certificate, wanted, public_key)
    except RefusedError as refused:
        return str(refused)
    except Exception as error:  # whatever is wrong with it, a new one is right
        return f"it can't be read: {type(error).__name__}"
    remaining = known["days_remaining"]
    if remaining >= wanted["days"]:  # the policy's certificates are too short for the site's wish
        remaining = wanted["days"] // 2
    if not reason and __salt__["x509.expires"](certificate, days=remaining):
        reason = f"it ends in less than {remaining} days"
    return reason


def _known() -> dict[str, Any]:
    file = pathlib.Path(POLICIES)
    if not file.is_file():
        raise RefusedError("there are no certificate policies here")
    known = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(known, dict)
    return known


def _policy(known: dict[str, Any], name: object) -> dict[str, Any]:
    if not isinstance(name, str) or name not in known["policies"]:
        raise RefusedError("there is no such policy")
    policy = known["policies"][name]
    assert isinstance(policy, dict)
    return policy


def _refuse_wishes(publication: dict[str, Any]) -> None:
    wishes = sorted(_short(name) for name in publication if not name.startswith("__pub_"))
    if wishes:
        raise RefusedError(f"the policy says what is in it, not who asks ({', '.join(wishes)})")


def _refuse_almighty(known: dict[str, Any], name: str) -> None:
    """Refuse what may do anything, whatever the table says, and what it does not give away."""
    policy = _policy(known, name)
    if ALMIGHTY in policy["subject"].values():
        raise RefusedError(f"the Salt master gets none of the group {ALMIGHTY} for anybody")
    if policy.get("through_master") is not True:
        raise RefusedError("it is not given through the Salt master")


def roles_of(minion: str) -> list[str]:
    """Name the roles that the Node of a machine is labelled with.

    A kubelet cannot change these labels of its own Node (NodeRestriction).

    :raises RefusedError: there is no such Node, or nobody says.
    """
    if not NODE.fullmatch(minion):
        raise RefusedError("no node can have that name")
    try:
        node = __salt__["metalk8s_kubernetes.get"]("v1", "Node", minion)
    except Exception as error:
        raise RefusedError(f"the API server does not say what it is: {error}") from error
    if node is None:
        return []
    labels = node["metadata"].get("labels") or {}
    roles = sorted(label.removeprefix(ROLE) for label in labels if label.startswith(ROLE))
    return roles or [PLAIN]


def _stranger(known: dict[str, Any], minion: str) -> dict[str, Any]:
    """Say what the cluster knows of another machine.

    Its address is what an operator deployed it at: a kubelet can change the annotations of its own
    Node, and would get a certificate for the address of another machine.
    """
    file = pathlib.Path(known["machines"])
    pinned = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    address = pinned.get(minion, {}).get("address", "")
    return {"id": minion, "roles": roles_of(minion), "address": address}


def _asked(signer: str, policy: str, public_key: str) -> dict[str, str]:
    """Let the machine with the authorities sign, through the Salt master."""
    answers = __salt__["publish.publish"](
        signer, "metalk8s_certificates.issue_to_minion", [policy, public_key], timeout=PATIENCE
    )
    answer = (answers or {}).get(signer)
    if not isinstance(answer, dict):
        said = f"{signer} did not answer through the Salt master" if not answer else str(answer)
        raise RefusedError(said)
    return answer


def _wanted(known: dict[str, Any], name: str, machine: dict[str, Any]) -> dict[str, Any]:
    policy = _policy(known, name)
    if not set(policy["roles"]) & set(machine["roles"]):
        roles = ", ".join(machine["roles"]) or "none"
        raise RefusedError(
            f"it is for the roles {', '.join(policy['roles'])}, the machine's: {roles}"
        )
    templates = policy.get("names", [])
    if not machine["address"] and "{address}" in templates:
        raise RefusedError("the cluster does not know the machine's address")
    facts = {**known["cluster"], "node": machine["id"], "address": machine["address"]}
    names = [_general_name(template.format(**facts)) for template in templates]
    return {
        "authority": known["authorities"][policy["authority"]],
        "subject": {part: text.format(**facts) for part, text in policy["subject"].items()},
        "usages": policy["usages"],
        "names": list(dict.fromkeys(names)),
        "days": min(known["days_valid"], policy["days"]),
        "longest": policy["days"],
        "key_bits": known["key_bits"],
    }


def _signed(known: dict[str, Any], name: str, machine: dict[str, Any], public_key: str) -> str:
    wanted = _wanted(known, name, machine)
    if not isinstance(public_key, str) or not PUBLIC_KEY.fullmatch(public_key):
        raise RefusedError("what it sent is no public key in PEM")
    names = {"subjectAltName": wanted["names"]} if wanted["names"] else {}
    try:
        certificate = __salt__["x509.create_certificate"](
            public_key=public_key,
            signing_private_key=f"{wanted['authority']}.key",
            signing_cert=f"{wanted['authority']}.crt",
            days_valid=wanted["days"],
            keyUsage=", ".join(("critical", *KEY_USAGES)),
            extendedKeyUsage=", ".join(wanted["usages"]),
            authorityKeyIdentifier="keyid",
            **names,
            **wanted["subject"],
        )
        difference = _difference(certificate, wanted, public_key)
    except Exception as error:
        raise RefusedError(f"it can't be signed: {error}") from error
    if difference:  # of the key, or Salt has other ideas of what a certificate is
        raise RefusedError(f"it would not be as it has to: {difference}")
    assert isinstance(certificate, str)
    return certificate


def _difference(certificate: str, wanted: dict[str, Any], public_key: str) -> str:
    """Say in what a certificate is not what the policy makes of this key, its end left aside."""
    read = __salt__["x509.read_certificate"](certificate)
    extensions = read["extensions"]
    allowed = {usage for usage, given in extensions.get("keyUsage", {}).items() if given is True}
    own = __salt__["x509.get_public_key"](public_key)
    authority = f"{wanted['authority']}.crt"
    checks = {
        "the key is another's": read["public_key"].strip() == own.strip(),
        f"the key is not of {wanted['key_bits']} bits (RSA) or more": (
            read["key_type"] == "rsa" and read["key_size"] >= wanted["key_bits"]
        ),
        "the subject is another": dict(read["subject"]) == wanted["subject"],
        "the usages are others": (
            allowed - {"critical"} == set(KEY_USAGES)
            and set(_values(extensions, "extendedKeyUsage")) == set(wanted["usages"])
            and not extensions.get("basicConstraints", {}).get("ca")
        ),
        "the names are others": (
            {_normal(name) for name in _values(extensions, "subjectAltName")}
            == {_normal(name) for name in wanted["names"]}
        ),
        "the authority did not sign it": (
            __salt__["x509.verify_signature"](certificate, signing_pub_key=authority)
        ),
        f"it lasts for more than {wanted['longest']} days": (  # one more: clocks are put right
            __salt__["x509.expires"](certificate, days=wanted["longest"] + 1)
        ),
    }
    return next((reason for reason, fine in checks.items() if not fine), "")


def _values(extensions: dict[str, Any], name: str) -> list[str]:
    values: list[str] = extensions.get(name, {}).get("value", [])
    return values


def _general_name(text: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(text)}"
    except ValueError:
        return f"DNS:{text}"


def _normal(name: str) -> str:
    """Write an address in one way; Salt reads IPv6 at full length."""
    kind, _, value = name.partition(":")
    return _general_name(value) if kind == "IP" else name


def _sentence(minion: str, policy: object, reason: RefusedError) -> str:
    return f"{minion} gets no certificate by the policy {_short(policy)}: {reason}"


def _short(said: object) -> str:
    text = str(said)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return text if text.isprintable() else repr(text)
