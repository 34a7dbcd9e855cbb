"""Sign certificates by rendered policies, with Salt's own x509 and real keys.

Run by the Python that has Salt: one request (JSON) on standard input, one answer (JSON) on standard
output.

Request: ``modules`` (the tree's ``_modules``), ``policies`` (text of the rendered file),
``scratch`` (folder), ``days_valid`` of what is signed.

Answer: ``own``: policy → ``{"read": what the certificate says, "why": why it would not do}``,
``asked``: what was asked through the master → ``{"read": …}`` or ``{"refused": sentence}``,
``keys``: what ``metalk8s_keys`` and Salt say of the same keys, ``authorities``: name → whether
its certificate is of its key.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pathlib
import shutil
import sys
from typing import Any

import salt.config
import salt.loader
import salt.minion
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ASK = "metalk8s_certificates.issue_to_minion"
EVIL = {"CN": "kubernetes-admin", "O": "system:masters"}


def loaded(scratch: pathlib.Path, modules: str) -> Any:
    """Load the modules of a minion, the tree's own included."""
    shutil.copytree(modules, scratch / "extmods/modules")
    options: dict[str, Any] = salt.config.minion_config(None, minion_id="node")
    options.update(
        file_client="local",
        cachedir=str(scratch / "cache"),
        root_dir=str(scratch),
        extension_modules=str(scratch / "extmods"),
        grains={"id": "node", "os_family": "Debian"},
    )
    return salt.loader.minion_mods(options)


def authorities(call: Any, known: dict[str, Any], scratch: pathlib.Path) -> None:
    """Make the authorities, as ``authorities/created.sls`` does, in the scratch folder."""
    key = call["x509.create_private_key"](keysize=2048)
    for name in known["authorities"]:
        known["authorities"][name] = str(scratch / name)
        (scratch / f"{name}.key").write_text(key, encoding="ascii")
        certificate = call["x509.create_certificate"](
            signing_private_key=key,
            CN=name,
            basicConstraints="critical, CA:TRUE",
            keyUsage="critical, digitalSignature, keyEncipherment, keyCertSign",
            subjectKeyIdentifier="hash",
            days_valid=3650,
        )
        (scratch / f"{name}.crt").write_text(certificate, encoding="ascii")


def asked(call: Any, minion: str, *arguments: Any) -> dict[str, Any]:
    """Ask as a minion does through the master: Salt itself makes arguments of the publication."""
    publication = {"id": minion, "fun": ASK, "jid": "1", "tgt": "node", "arg": arguments}
    args, kwargs = salt.minion.load_args_and_kwargs(call[ASK], arguments, publication)
    answer: dict[str, Any] = call[ASK](*args, **kwargs)
    if "certificate" in answer:
        return {"read": call["x509.read_certificate"](answer["certificate"])}
    return answer


def pem(key: rsa.RSAPublicKey) -> str:
    """Write a public key as text."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def keys(call: Any, path: pathlib.Path) -> dict[str, Any]:
    """Read keys by ``metalk8s_keys``, as text and as file, and by Salt."""
    text = path.read_text(encoding="ascii")
    curve = call["x509.create_private_key"](algo="ec")
    locked = call["x509.create_private_key"](keysize=2048, passphrase="secret")
    refused = []
    for wrong in ("-----BEGIN nothing", locked, call["x509.get_public_key"](text)):
        try:
            call["metalk8s_keys.public"](wrong)
        except ValueError:
            refused.append(True)
    return {
        "public": [call["metalk8s_keys.public"](key) for key in (text, str(path), curve)],
        "bits": [call["metalk8s_keys.bits"](key) for key in (text, str(path), curve)],
        "as Salt says": [call["x509.get_public_key"](key) for key in (text, text, curve)],
        "refused": refused,
    }


def is_authority(modules: str, call: Any, path: pathlib.Path) -> bool:
    """Ask ``metalk8s_pki`` whether an authority's certificate is of its key."""
    file = pathlib.Path(modules).parent / "_states" / "metalk8s_pki.py"
    specification = importlib.util.spec_from_file_location("metalk8s_pki", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    module.__salt__ = call  # type: ignore[attr-defined]
    specification.loader.exec_module(module)
    certificate = path.with_suffix(".crt").read_text(encoding="ascii")
    return bool(module._certifies(certificate, f"{path}.key"))


def main() -> None:
    """Answer the request."""
    logging.disable(logging.CRITICAL)
    request = json.load(sys.stdin)
    scratch = pathlib.Path(request["scratch"])
    call = loaded(scratch, request["modules"])
    known = yaml.safe_load(request["policies"])
    authorities(call, known, scratch)
    known["days_valid"] = request["days_valid"]
    (scratch / "policies.yaml").write_text(json.dumps(known), encoding="utf-8")
    call[ASK].__globals__["POLICIES"] = str(scratch / "policies.yaml")
    key = call["x509.create_private_key"](keysize=2048)
    public = call["x509.get_public_key"](key)
    own = {}
    for policy, said in known["policies"].items():
        if not set(said["roles"]) & set(known["machine"]["roles"]):
            continue
        answer = call["metalk8s_certificates.issue"](policy, public)
        own[policy] = {
            "read": call["x509.read_certificate"](answer["certificate"]),
            "why": call["metalk8s_certificates.why_new"](policy, answer["certificate"], public),
        }
    # Salt itself makes none as short as that.
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    curve = call["x509.get_public_key"](call["x509.create_private_key"](algo="ec"))
    answers = {
        "plain": asked(call, "node", "kubelet", public),
        "wishes": asked(call, "node", "kubelet", public, {"__kwarg__": True, **EVIL}),
        "wish in a word": asked(call, "node", "kubelet", public, "CN=kubernetes-admin"),
        "id in a word": asked(call, "stranger", "kubelet", public, "__pub_id=node"),
        "id": asked(call, "stranger", "kubelet", public, {"__kwarg__": True, "__pub_id": "node"}),
        "request": asked(call, "node", "kubelet", call["x509.create_csr"](private_key=key, **EVIL)),
        "path": asked(call, "node", "kubelet", str(scratch / "kubernetes.key")),
        "private key": asked(call, "node", "kubelet", key),
        "short key": asked(call, "node", "kubelet", pem(short)),
        "elliptic curve": asked(call, "node", "kubelet", curve),
        "almighty": asked(call, "node", "administrator", public),
    }
    json.dump(
        {
            "own": own,
            "asked": answers,
            "keys": keys(call, scratch / "kubernetes.key"),
            "authorities": {
                name: is_authority(request["modules"], call, pathlib.Path(path))
                for name, path in known["authorities"].items()
            },
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
