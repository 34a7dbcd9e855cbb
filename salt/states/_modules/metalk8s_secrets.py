"""Secrets that machines of the control plane share, handed out by the bootstrap machine.

They pass through the Salt master, which keeps what minions answer: so they are encrypted for a key
that only the machine that asks has, and has only while it asks.
"""

from __future__ import annotations

import base64
import logging
import pathlib
from typing import Any

import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

log = logging.getLogger(__name__)

POLICIES = "/etc/metalk8s/pki/policies.yaml"
BITS, EXPONENT = 3072, 65537
OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
PATIENCE = 60  # seconds until another machine has answered
PEM = serialization.Encoding.PEM


def ask(name: str) -> dict[str, str]:
    """Get a secret from the machine that has it.

    :return: ``text``, or ``refused``: a sentence that says what, and why not.
    """
    signer = _known().get("signer")
    if not signer:
        return {"refused": f"This machine hands out the secret {name}, it does not ask for it"}
    key = rsa.generate_private_key(EXPONENT, BITS)
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    answers = __salt__["publish.publish"](
        signer, "metalk8s_secrets.hand_to_minion", [name, public.decode()], timeout=PATIENCE
    )
    answer = (answers or {}).get(signer)
    if not isinstance(answer, dict):
        said = f": {answer}" if answer else " through the Salt master"
        return {"refused": f"{signer} did not hand over the secret {name}{said}"}
    if "refused" in answer:
        return {"refused": str(answer["refused"])}
    try:
        return {"text": decrypted(answer, key)}
    except (KeyError, TypeError, ValueError, InvalidToken):
        return {"refused": f"What {signer} sent for the secret {name} cannot be decrypted"}


def hand_to_minion(name: str, public_key: str, **publication: Any) -> dict[str, str]:
    """Encrypt a secret for the minion that asks through the Salt master, if its role may have it.

    Salt passes what it knows of a publication as ``__pub_…``; the master has the id from the
    minion's key and session, not from what it says.

    :return: ``key`` and ``text``, encrypted, or ``refused``: a sentence.
    """
    minion = str(publication.get("__pub_id"))
    reason = _objection(name, minion, publication)
    path = pathlib.Path(_known().get("secrets", {}).get(name, {}).get("path", ""))
    try:
        answer = {} if reason else encrypted(path.read_text(encoding="utf-8"), public_key)
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    except (TypeError, ValueError, AttributeError, UnsupportedAlgorithm):
        reason = "what it sent is no public RSA key in PEM"
    if reason:
        answer = {"refused": f"{minion} does not get the secret {name}: {reason}"}
        log.warning(answer["refused"])
    else:
        log.info("%s got the secret %s", minion, name)
    return answer


def _objection(name: str, minion: str, publication: dict[str, Any]) -> str:
    secrets = _known().get("secrets", {})
    if not isinstance(name, str) or name not in secrets:
        return "there is no such secret"
    if any(not key.startswith("__pub_") for key in publication):
        return "only its name and a key may be sent"
    try:
        roles = __salt__["metalk8s_certificates.roles_of"](minion)
    except Exception as error:  # whatever it is, nobody vouches for the machine
        return str(error)
    allowed = secrets[name]["roles"]
    if not set(allowed) & set(roles):
        return (
            f"it is for the roles {', '.join(allowed)}, the machine's: {', '.join(roles) or 'none'}"
        )
    return ""


def encrypted(text: str, public_key: str) -> dict[str, str]:
    """Encrypt a text for the holder of a private key.

    :param public_key: RSA, PEM.
    :raises ValueError: it is none.
    """
    key = serialization.load_pem_public_key(public_key.encode("ascii"))
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < BITS:
        raise ValueError("not an RSA key, or too short a one")
    once = Fernet.generate_key()
    wrapped = base64.b64encode(key.encrypt(once, OAEP)).decode("ascii")
    return {"key": wrapped, "text": Fernet(once).encrypt(text.encode("utf-8")).decode("ascii")}


def decrypted(answer: dict[str, str], key: rsa.RSAPrivateKey) -> str:
    """Reverse ``encrypted``.

    :raises ValueError: the key is another.
    :raises InvalidToken: the text is not what was encrypted.
    """
    once = key.decrypt(base64.b64decode(answer["key"]), OAEP)
    return Fernet(once).decrypt(answer["text"].encode("ascii")).decode("utf-8")


def _known() -> dict[str, Any]:
    file = pathlib.Path(POLICIES)
    known = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    assert isinstance(known, dict)
    return known
