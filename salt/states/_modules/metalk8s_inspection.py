"""What is to be known of a machine before it is let in: what is said of it, and what it says.

Changes nothing, here or there; not even the SSH host key of a machine that was asked by mistake is
known afterwards.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

PRIVATE = "/run"
TIME = 60  # seconds that a survey may take


def look(name: str) -> dict[str, Any]:
    """Find everything that keeps a machine from joining.

    :param name: of its Node.
    :return: ``problems`` and ``warnings`` (sentences), ``facts`` for people. When it could be
        asked, ``target`` and ``host_keys`` (how to ask it again), ``surveyed``, and ``workload``,
        where its pods are reached; ``known`` is what the states of its version know here.
    """
    try:
        node = __salt__["metalk8s_kubernetes.get"]("v1", "Node", name)
        nodes = __salt__["metalk8s_kubernetes.list_objects"]("v1", "Node")
    except Exception as error:  # of another module: no answer, or a refusal
        return _wrong(f"The API server does not say what Nodes there are: {error}.")
    if node is None:
        return _wrong(
            f"There is no Node {name}. Write its manifest and apply it (kubectl apply -f …)."
        )
    known = __salt__["metalk8s_medium.known"](__salt__["metalk8s_candidate.version"](node))
    if not known:
        return _wrong("No medium of MetalK8s is mounted here: this is no bootstrap machine.")
    pins = __salt__["metalk8s_machines.pinned"]()
    said = {
        "here": known["node"]["name"],
        "versions": __salt__["metalk8s_medium.served"](),
        "networks": known["networks"]["control_plane"]["networks"],
        "owners": __salt__["metalk8s_expected.owners"](name, known, nodes, pins),
        "pins": pins,
    }
    problems = __salt__["metalk8s_candidate.problems"](node, said)
    problems += _of_master(name, known, pins)
    found = {
        "warnings": __salt__["metalk8s_candidate.warnings"](node, nodes),
        "facts": {},
        "known": known,
    }
    if not __salt__["metalk8s_candidate.unreachable"](node, said):
        target = __salt__["metalk8s_candidate.target"](node)
        found |= _ask(target, known, pins, __salt__["metalk8s_candidate.roles"](node))
        problems += found.pop("said")
        if found.get("surveyed", {}).get("address"):
            networks = known["networks"]["workload_plane"]["networks"]
            plane = __salt__["metalk8s_workload.choose"](node, found["surveyed"], networks)
            found["workload"] = plane["address"]
            problems += [f"{name} ({target['address']}): {plane['problem']}"] * bool(
                plane["problem"]
            )
    return {**found, "problems": problems}


def _wrong(sentence: str) -> dict[str, Any]:
    return {"problems": [sentence], "warnings": [], "facts": {}}


def _of_master(name: str, known: dict[str, Any], pins: dict[str, Any]) -> list[str]:
    folder = known["salt_master"]["key_folder"]
    remedy = f"Whoever it was: forget it (remove-node.sh --dead {name})."
    if __salt__["metalk8s_machines.rejected"](name, folder):
        return [f"The Salt master rejects a minion named {name}. {remedy}"]
    if name not in pins and __salt__["metalk8s_machines.accepted"](name, folder):
        return [
            f"The Salt master has accepted a minion named {name} that never joined here. {remedy}"
        ]
    return []


def _ask(
    target: dict[str, Any], known: dict[str, Any], pins: dict[str, Any], roles: list[str]
) -> dict[str, Any]:
    """Survey a machine; ``said`` are its problems."""
    name = target["name"]
    keys = __salt__["metalk8s_machines.host_keys"](name)
    if keys and target["host_key"] and target["host_key"] not in keys:
        sentence = (
            f"Node {name}: annotation metalk8s.scality.com/ssh-host-key is another than the one "
            f"that it joined with. Remove the annotation, or the machine (remove-node.sh {name})."
        )
        return {"said": [sentence]}
    expected = keys or ([target["host_key"]] if target["host_key"] else [])
    target["strict"] = bool(expected)
    with tempfile.TemporaryDirectory(prefix="metalk8s-", dir=PRIVATE) as folder:
        # A stranger that was asked by mistake is not known afterwards.
        file = pathlib.Path(folder) / "known_hosts"
        file.write_text("".join(f"{name} {key}\n" for key in expected), encoding="ascii")
        answer = __salt__["metalk8s_ssh.run"](target, _survey(known), TIME, str(file))
        seen = __salt__["metalk8s_machines.host_keys"](name, str(file))
    if answer["failed"]:
        return {"said": [answer["failed"]]}
    facts = __salt__["metalk8s_survey.parse"](answer["output"])
    offset = __salt__["metalk8s_survey.offset"](facts, answer["began"], answer["ended"])
    wanted = __salt__["metalk8s_expected.of"](target, known, pins, roles, offset)
    sentences = __salt__["metalk8s_fitness.problems"](facts, wanted)
    shown = {key: facts.get(key, "") for key in ("os_name", "architecture", "hostname", "cpus")}
    return {
        "said": [f"{name} ({target['address']}): {sentence}" for sentence in sentences],
        "target": target,
        "host_keys": seen,
        "surveyed": facts,
        "facts": {
            **shown,
            "addresses": facts["address"],
            "clock_offset": round(offset[0], 3),
            "machine_id": facts.get("machine_id", ""),
            "host_keys": seen,
            "joined_before": wanted["begun"],
        },
    }


def _survey(known: dict[str, Any]) -> str:
    kubernetes = known["pki"]["authorities"]["kubernetes"]["path"]
    master = f"{known['salt_minion']['key_folder']}/minion_master.pub"
    packages = __salt__["metalk8s_medium.packages"](known["archive"]["root"]).values()
    questions = __salt__["metalk8s_survey.questions"](
        known["kernel"], f"{kubernetes}.crt", master, [name for one in packages for name in one]
    )
    text: str = __salt__["metalk8s_delivery.script"](
        questions, __salt__["metalk8s_medium.script"]("survey.sh", known)
    )
    return text
