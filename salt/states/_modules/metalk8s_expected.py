"""What a machine that is to join is compared with: the cluster's addresses, keys, ports, accounts.

Files: the authorities of this machine, the key of the Salt master as its own minion believes it.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
from typing import Any

MACHINE_ID = pathlib.Path("/etc/machine-id")
# Whose a port is, by the beginning of its name in parameters/ports.yaml; others are everybody's.
PORTS = {
    "etcd_": "etcd",
    "salt_": "bootstrap",
    **dict.fromkeys(
        (
            "ingress_control",
            "keepalived",
            "kube_apiserver",
            "kube_controller",
            "kube_scheduler",
            "repositories",
        ),
        "master",
    ),
}


def owners(
    name: str, known: dict[str, Any], nodes: list[dict[str, Any]], pins: dict[str, Any]
) -> dict[str, str]:
    """Return whose an address is already, in words; the machine's own ones left out.

    :param known: what the states know.
    :param nodes: every Node.
    """
    others = [node for node in nodes if node["metadata"]["name"] != name]
    owners = {
        address: f"Node {node['metadata']['name']}"
        for node in others
        for address in __salt__["metalk8s_candidate.addresses"](node)
    }
    owners |= {
        facts["address"]: f"{other}, which joined" for other, facts in pins.items() if other != name
    }
    here = {
        known["kube_apiserver"]["host"]: "the API server (apiServer.host)",
        known["networks"]["control_plane"]["address"]: "the bootstrap machine",
    }
    return {**owners, **here}


def of(
    target: dict[str, Any],
    known: dict[str, Any],
    pins: dict[str, Any],
    roles: list[str],
    offset: tuple[float, float],
) -> dict[str, Any]:
    """Return what ``metalk8s_fitness`` compares a machine with.

    :param target: as ``metalk8s_candidate`` gives it.
    :param offset: as ``metalk8s_survey`` gives it.
    """
    name = target["name"]
    authority = f"{known['pki']['authorities']['kubernetes']['path']}.crt"
    machines = {
        facts.get("machine_id", ""): other for other, facts in pins.items() if other != name
    }
    if MACHINE_ID.is_file():
        machines[MACHINE_ID.read_text(encoding="ascii").strip()] = known["node"]["name"]
    accounts = {one["name"]: one["id"] for one in known["accounts"]}
    group = known["pki"]["service_accounts"]["group"]
    return {
        "address": target["address"],
        "begun": name in pins,
        "machine_id": pins.get(name, {}).get("machine_id", ""),
        "offset": offset,
        "releases": __salt__["metalk8s_medium.releases"](known["archive"]["root"]),
        "authority": _digest_of_certificate(pathlib.Path(authority)),
        "master_key": hashlib.sha256("".join(master_key(known).split()).encode()).hexdigest(),
        "machines": machines,
        "versions": __salt__["metalk8s_medium.packages"](known["archive"]["root"]),
        "ports": {
            row["number"]: row["what"]
            for key, row in known["ports"].items()
            if "number" in row and _uses(key, roles)
        },
        "accounts": accounts,
        "groups": {**accounts, group["name"]: group["id"]},
        "swap": not known["kubelet"]["fail_swap_on"],
    }


def _uses(port: str, roles: list[str]) -> bool:
    owners = [role for start, role in PORTS.items() if port.startswith(start)]
    return not owners or bool(set(owners) & set(roles))


def master_key(known: dict[str, Any]) -> str:
    """Return the public key of the Salt master, as the minion of this machine believes it."""
    file = pathlib.Path(known["salt_minion"]["key_folder"]) / "minion_master.pub"
    return file.read_text(encoding="ascii")


def _digest_of_certificate(file: pathlib.Path) -> str:
    lines = file.read_text(encoding="ascii").splitlines()
    body = "".join(line for line in lines if not line.startswith("-----"))
    return hashlib.sha256(base64.b64decode(body)).hexdigest()
