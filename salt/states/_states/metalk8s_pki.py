"""Private keys, and certificates of authorities, which sign themselves.

``x509.private_key_managed`` and ``x509.certificate_managed`` do the same, and compile the pillar
and load every module of Salt anew for each file: two thirds of what a run took. Keys and
certificates are Salt's own here, too.
"""

from __future__ import annotations

import pathlib
from typing import Any

# Of an authority, as RFC 5280 has it (4.2.1.3, 4.2.1.9).
CONSTRAINTS = "critical, CA:TRUE, pathlen:0"
USAGE = "critical, digitalSignature, keyEncipherment, keyCertSign"
REMEDY = (
    "Restore the two that belong together from a backup. To begin anew with others, apply "
    "metalk8s.authorities.absent first."
)


def private_key(
    name: str, key_bits: int, user: str, group: str = "", mode: str = "0600", *, kept: bool = False
) -> dict[str, Any]:
    """Write an RSA key; one of that length stays.

    A file that is none stays, too, and is a failure: what it was may have signed a lot.

    :param group: the user's own, unless said otherwise.
    :param kept: a key of another length stays, too: it is an authority's.
    """
    path = pathlib.Path(name)
    text = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
    reason = "there is none"
    if text:
        try:
            found = __salt__["metalk8s_keys.bits"](name)
        except Exception as error:
            return _result(name, False, {}, f"{name} is no private key: {error}")
        reason = "" if kept or found == key_bits else f"it has {found} bits, not {key_bits}"
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    if reason:
        text = __salt__["x509.create_private_key"](keysize=key_bits)
    return _keep(name, text, reason, user=user, group=group or user, mode=mode)


def authority(name: str, private_key: str, common_name: str, days_valid: int) -> dict[str, Any]:
    """Write the certificate by which others know what a key has signed.

    A new one makes everything that was signed before a stranger's. So one of this key is kept until
    it ends, and one of another key is a failure, not replaced.

    :param private_key: path of the key.
    :param days_valid: of a new one.
    """
    path = pathlib.Path(name)
    there = pathlib.Path(private_key).is_file()
    if not there and not __opts__["test"]:
        return _result(name, False, {}, f"{name} needs {private_key}: not there")
    text = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
    reason = "there is none"
    if text:
        try:
            fits = not there or _certifies(text, private_key)
            reason = "it has ended" if __salt__["x509.expires"](text, days=0) else ""
        except Exception as error:
            return _result(name, False, {}, f"{name} is no certificate: {error}")
        if not fits:
            return _result(name, False, {}, f"{name} is not of {private_key}. {REMEDY}")
    if reason and __opts__["test"]:
        return _result(name, None, {name: reason}, f"{name} would be written: {reason}")
    if reason:
        text = __salt__["x509.create_certificate"](
            signing_private_key=private_key,
            days_valid=days_valid,
            CN=common_name,
            basicConstraints=CONSTRAINTS,
            keyUsage=USAGE,
            subjectKeyIdentifier="hash",
        )
    return _keep(name, text, reason, user="root", group="root", mode="0644")


def _certifies(certificate: str, private_key: str) -> bool:
    read = __salt__["x509.read_certificate"](certificate)
    public: str = __salt__["metalk8s_keys.public"](private_key)
    return bool(read["public_key"].strip() == public.strip())


def _keep(name: str, text: str, reason: str, **attributes: str) -> dict[str, Any]:
    result: dict[str, Any] = __states__["file.managed"](
        name, contents=text, show_changes=False, **attributes
    )
    if reason and result["result"]:
        result["changes"], result["comment"] = {name: reason}, f"{name} was written: {reason}"
    return result


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
