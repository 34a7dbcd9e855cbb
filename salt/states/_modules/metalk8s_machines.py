"""What this machine has pinned of others when they joined: address, machine-id, SSH host keys.

A kubelet may change the annotations of its own Node; what is pinned, only root here changes. The
authorities sign for the pinned address and no other.

On disk: ``machines.json``, ``{name: {"address": …, "machine_id": …}}``, and ``known_hosts`` as
``ssh`` reads it, by the names of machines.
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

PINS = "/etc/metalk8s/pki/machines.json"
KNOWN_HOSTS = "/etc/metalk8s/pki/known_hosts"
# Of the Salt master, whose folders of keys these are.
ACCEPTED, REJECTED = "minions", "minions_rejected"


def pinned() -> dict[str, dict[str, str]]:
    """Return what is pinned of each machine."""
    file = pathlib.Path(PINS)
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    assert isinstance(found, dict)
    return found


def host_keys(name: str, known_hosts: str = "") -> list[str]:
    """Return the SSH host keys that are known of a machine, as ``ssh-ed25519 AAAA…``.

    :param known_hosts: another file than the pinned one.
    """
    rows = [line.split(None, 1) for line in _lines(pathlib.Path(known_hosts or KNOWN_HOSTS))]
    return [row[1].strip() for row in rows if len(row) > 1 and row[0] == name]


def pin(name: str, address: str, machine_id: str, keys: list[str]) -> list[str]:
    """Keep what a machine is known by; return the files that changed.

    :param keys: SSH host keys, as ``host_keys`` gives them.
    """
    others = [line for line in _lines(pathlib.Path(KNOWN_HOSTS)) if line.split()[0] != name]
    known = [*others, *(f"{name} {key}" for key in keys)]
    pins = {**pinned(), name: {"address": address, "machine_id": machine_id}}
    return _keep(pins, known)


def unpin(name: str) -> list[str]:
    """Forget what a machine is known by; return the files that changed."""
    pins = {other: facts for other, facts in pinned().items() if other != name}
    known = [line for line in _lines(pathlib.Path(KNOWN_HOSTS)) if line.split()[0] != name]
    return _keep(pins, known)


def accepted(name: str, folder: str) -> str:
    """Return the public key of a minion that the Salt master accepts, or nothing.

    :param folder: the master's ``pki_dir``.
    """
    file = pathlib.Path(folder) / ACCEPTED / name
    return file.read_text(encoding="ascii", errors="replace").strip() if file.is_file() else ""


def rejected(name: str, folder: str) -> bool:
    """Tell whether somebody has rejected a key of that name at the Salt master."""
    return (pathlib.Path(folder) / REJECTED / name).exists()


def accept(name: str, folder: str, public_key: str, account: int) -> list[str]:
    """Let the Salt master know a minion before it asks; return the files that changed.

    :param account: number of the master's account.
    """
    file = pathlib.Path(folder) / ACCEPTED / name
    if accepted(name, folder) == public_key.strip():
        return []
    # Made where the master's account cannot write: it could put a link there meanwhile.
    return [write(file, public_key.strip() + "\n", beside=pathlib.Path(PINS), account=account)]


def unaccept(name: str, folder: str) -> list[str]:
    """Let the Salt master know a minion no more; return the files that went."""
    found = [file for file in pathlib.Path(folder).glob("minions*/*") if file.name == name]
    for file in found:
        file.unlink()
    return [str(file) for file in found]


def _lines(file: pathlib.Path) -> list[str]:
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return [line for line in text.splitlines() if line.strip()]


def _keep(pins: dict[str, dict[str, str]], known: list[str]) -> list[str]:
    changed = []
    if pins != pinned():
        text = json.dumps(pins, indent=1, sort_keys=True) + "\n"
        changed.append(write(pathlib.Path(PINS), text))
    file = pathlib.Path(KNOWN_HOSTS)
    if sorted(known) != sorted(_lines(file)):
        changed.append(write(file, "".join(f"{line}\n" for line in known)))
    return changed


def write(
    file: pathlib.Path, text: str, beside: pathlib.Path | None = None, account: int = 0
) -> str:
    """Write a file whole or not at all; return its path.

    :param beside: in whose folder it is made; of the same file system.
    :param account: number of who owns it.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=(beside or file).parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
            if os.geteuid() == 0:
                os.fchown(stream.fileno(), account, account)
            stream.flush()
            os.fsync(stream.fileno())
        pathlib.Path(name).replace(file)
    except BaseException:
        pathlib.Path(name).unlink()
        raise
    return str(file)
