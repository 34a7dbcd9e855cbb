"""Keys by which a Salt master and a minion on the same machine know each other from the start."""

from __future__ import annotations

import pathlib
from typing import Any


def exchanged(
    name: str, master_keys: str, minion_keys: str, account: str, key_bits: int
) -> dict[str, Any]:
    """Give the master and the minion of this machine keys, and to each the public one of the other.

    Neither has to believe what the network says: both are known before either is started.

    :param name: the minion's id.
    :param master_keys: the master's ``pki_dir``.
    :param minion_keys: the minion's ``pki_dir``.
    :param account: whose the master's files are.
    """
    master, minion = pathlib.Path(master_keys), pathlib.Path(minion_keys)
    results = []
    public = {}
    for folder, kind, user in ((master, "master", account), (minion, "minion", "root")):
        key = folder / f"{kind}.pem"
        if not key.is_file():
            made = __salt__["x509.create_private_key"](keysize=key_bits)
            results.append(_managed(key, made, user, "0400"))
            if not key.is_file():  # in a test
                continue
        text = __salt__["metalk8s_keys.public"](str(key))
        public[kind] = text.strip() + "\n"
        results += _published(folder / f"{kind}.pub", public[kind], user)
    if "minion" in public:
        results += _published(master / "minions" / name, public["minion"], account)
    if "master" in public:
        results += _published(minion / "minion_master.pub", public["master"], "root")
    failed = [result["comment"] for result in results if result["result"] is False]
    changes = {result["name"]: result["changes"] for result in results if result["changes"]}
    comment = " ".join(failed) or (
        f"Written: {', '.join(changes)}" if changes else f"The master and {name} know each other"
    )
    result = False if failed else None if changes and __opts__["test"] else True
    return {"name": name, "result": result, "changes": changes, "comment": comment}


def _published(path: pathlib.Path, text: str, user: str) -> list[dict[str, Any]]:
    # Salt writes its own without a last newline, and through a link to the file of its id.
    if path.is_file() and path.read_text(encoding="ascii").strip() == text.strip():
        return []
    return [_managed(path, text, user, "0644")]


def _managed(path: pathlib.Path, text: str, user: str, mode: str) -> dict[str, Any]:
    result = __states__["file.managed"](
        name=str(path), contents=text, user=user, group=user, mode=mode, show_changes=False
    )
    assert isinstance(result, dict)
    return result
