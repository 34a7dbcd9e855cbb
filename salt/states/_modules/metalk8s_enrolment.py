"""How a machine becomes a minion of this cluster: looked at first, then let in, over SSH.

For root on the bootstrap machine. The order makes it repeatable: what a machine is known by is
pinned before anything there is changed; the Salt master knows its key before it asks; its private
keys are made there and stay there.
"""

from __future__ import annotations

import base64
import binascii
import logging
import pathlib
from typing import Any

log = logging.getLogger(__name__)

MINION = "salt://metalk8s/salt-minion/files/minion.conf.j2"
POLICY = "salt_minion"
# In the words of the node controller; ``_utils/metalk8s_nodes`` knows them.
NEVER_HEARD_OF = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}
PODS = "110"  # of a machine, as kubelets have it by default
BEGIN = "-----BEGIN "  # Salt takes paths of files in the place of keys: nobody there may name one
# Seconds that each script may take, together less than the Salt master waits for a function.
INSTALL, MAKE_KEYS, START = 540, 120, 150


class FailedError(Exception):
    """The machine is not let in; the text is a sentence for the operator."""


def check(name: str) -> dict[str, Any]:
    """Say everything that keeps a machine from joining; change nothing, here or there.

    :param name: of its Node.
    :return: ``problems`` and ``warnings`` (sentences), ``facts`` about the machine.
    """
    found = __salt__["metalk8s_inspection.look"](name)
    return {key: found[key] for key in ("problems", "warnings", "facts")}


def enrol(name: str) -> dict[str, Any]:
    """Make a machine a minion that the Salt master knows; one that is already, stays as it is.

    :return: ``changed`` and ``comment``; with ``failed``, a sentence, when it is none now.
    """
    try:
        found = __salt__["metalk8s_inspection.look"](name)
        if found["problems"]:
            raise FailedError(" ".join(found["problems"]))
        changed = _enrol(name, found)
    except FailedError as error:
        log.error("%s does not join: %s", name, error)
        return {"changed": False, "comment": "", "failed": str(error)}
    comment = f"Changed: {', '.join(changed)}" if changed else f"{name} is a minion already"
    return {"changed": bool(changed), "comment": comment}


def forget(name: str) -> dict[str, Any]:
    """Forget a machine: its key at the Salt master, its address, its SSH host keys.

    :return: as for ``enrol``.
    """
    known = __salt__["metalk8s_medium.known"]("")
    if not known or name == known["node"]["name"]:
        sentence = f"{name} is not forgotten: this is that machine, or no bootstrap machine."
        return {"changed": False, "comment": "", "failed": sentence}
    gone = __salt__["metalk8s_machines.unaccept"](name, known["salt_master"]["key_folder"])
    gone += __salt__["metalk8s_machines.unpin"](name)
    return {
        "changed": bool(gone),
        "comment": f"Changed: {', '.join(gone)}" if gone else f"Nothing was known of {name}",
    }


def _enrol(name: str, found: dict[str, Any]) -> list[str]:
    """Do what has to be done, in its order; return what changed."""
    target, known, facts = found["target"], found["known"], found["surveyed"]
    target["strict"] = True
    log.info("%s: pinned as %s", name, target["address"])
    changed = list(
        __salt__["metalk8s_machines.pin"](
            name, target["address"], facts["machine_id"], found["host_keys"]
        )
    )
    changed += _give_capacity(name, facts)
    changed += __salt__["metalk8s_workload.announce"](name, found["workload"])
    texts = __salt__["metalk8s_medium.scripts"](known)
    log.info("%s: Salt is installed from %s", name, known["repositories"]["url"])
    site = _site(name, facts, known)
    script = __salt__["metalk8s_delivery.installation"](facts["family"], site, texts)
    changed += _do(target, script, INSTALL, "install")["changed"]
    log.info("%s: keys are made there", name)
    minion = known["salt_minion"]
    bits = known["pki"]["key_bits"]
    script = __salt__["metalk8s_delivery.keys"](
        minion["key_folder"], minion["certificate"], bits, texts
    )
    answer = _do(target, script, MAKE_KEYS, "keys")
    changed += answer["changed"]
    master = known["salt_master"]
    changed += __salt__["metalk8s_machines.accept"](
        name, master["key_folder"], _pem(answer, "minion"), master["account"]["id"]
    )
    certificate = _certificate(name, answer, known)
    files = {
        f"{known['pki']['authorities']['salt']['path']}.crt": _authority(known, "salt"),
        f"{minion['key_folder']}/minion_master.pub": __salt__["metalk8s_expected.master_key"](
            known
        ),
        f"{minion['certificate']}.crt": certificate,
    }
    log.info("%s: the minion is started", name)
    script = __salt__["metalk8s_delivery.start"](minion["service"], files, texts)
    return changed + list(_do(target, script, START, "start")["changed"])


def _give_capacity(name: str, facts: dict[str, Any]) -> list[str]:
    """Say of the Node what its machine has, until its kubelet does.

    An operator's manifest has no status, and the kubelet of Kubernetes 1.20.2 ends in a panic when
    it finds a Node without a capacity (kubernetes/kubernetes#95188). With too little of it, it
    refuses for good the static pods that it looks at before it has written its own. So that other
    pods are not sent there meanwhile, the Node is called what the node controller would call it
    within a minute, and gets its taint by that.
    """
    node = __salt__["metalk8s_kubernetes.get"]("v1", "Node", name) or {}
    status = node.get("status") or {}
    if "cpu" in (status.get("capacity") or {}):
        return []
    disks = {row.partition(" ")[0]: row.split()[1:] for row in facts["disk"]}
    has = {
        "cpu": str(facts["cpus"]),
        "memory": f"{facts['memory']}Ki",
        "ephemeral-storage": f"{next(iter(disks.get('/', [])), 1 << 20)}Ki",
        "pods": PODS,
    }
    said: dict[str, Any] = {"capacity": has, "allocatable": has}
    if not status.get("conditions"):
        said["conditions"] = [NEVER_HEARD_OF]
    body = {"status": said}
    __salt__["metalk8s_kubernetes.call"]("PATCH", f"/api/v1/nodes/{name}/status", body)
    return [f"capacity of Node {name}"]


def _do(target: dict[str, Any], script: str, seconds: int, last: str) -> dict[str, Any]:
    """Run a script there; return what it said.

    :param last: how it ends when it was not cut off.
    :raises FailedError: it did not end well.
    """
    answer = __salt__["metalk8s_ssh.run"](target, script, seconds)
    if answer["failed"]:
        raise FailedError(answer["failed"])
    said: dict[str, Any] = __salt__["metalk8s_survey.parse"](answer["output"])
    if said.get("end") != last:
        raise FailedError(f"{target['name']} stopped in the middle of what it was asked ({last}).")
    return said


def _pem(answer: dict[str, Any], part: str) -> str:
    """Return what a machine said in PEM, or nothing.

    :raises FailedError: it is something else; what it is otherwise, others check.
    """
    try:
        text = base64.b64decode(answer.get(part, ""), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        text = "?"
    if text and not text.startswith(BEGIN):
        raise FailedError(f"What the machine says of its keys ({part}) is not in PEM.")
    return text


def _authority(known: dict[str, Any], name: str) -> str:
    file = pathlib.Path(f"{known['pki']['authorities'][name]['path']}.crt")
    return file.read_text(encoding="ascii")


def _site(name: str, facts: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return what ``metalk8s_delivery`` tells a package manager, and what is there before it."""
    root, family = known["archive"]["root"], facts["family"]
    repo = __salt__["metalk8s_medium.repository"](root, family, facts["release"], known["repo"])
    authority = f"{known['pki']['authorities']['repositories']['path']}.crt"
    return {
        "generated": known["generated"],
        "url": f"{known['repositories']['url']}/metalk8s-{known['version']}/{repo['path']}",
        "host": known["networks"]["control_plane"]["address"],
        "repo": repo,
        "authority": authority,
        "versions": __salt__["metalk8s_medium.packages"](root)[family],
        "files": {
            authority: _authority(known, "repositories"),
            known["salt_minion"]["config"]: _configuration(name, known),
        },
    }


def _configuration(name: str, known: dict[str, Any]) -> str:
    """Return the minion's configuration as its own states will write it."""
    text = __salt__["slsutil.renderer"](
        path=MINION,
        default_renderer="jinja",
        saltenv=f"metalk8s-{known['version']}",
        metalk8s={**known, "node": {**known["node"], "name": name}, "has_authorities": False},
    )
    return str(text)


def _certificate(name: str, answer: dict[str, Any], known: dict[str, Any]) -> str:
    """Return the certificate for the connections of a minion: its own one while that does."""
    public, there = _pem(answer, "transport"), _pem(answer, "certificate")
    if there and _does(name, there, public, known):
        return there
    signed = __salt__["metalk8s_certificates.issue_for"](name, POLICY, public)
    if "refused" in signed:
        raise FailedError(str(signed["refused"]))
    return str(signed["certificate"])


def _does(name: str, certificate: str, public: str, known: dict[str, Any]) -> bool:
    authority = f"{known['pki']['authorities']['salt']['path']}.crt"
    left = known["pki"]["certificate"]["days_remaining"]
    try:
        read = __salt__["x509.read_certificate"](certificate)
        return bool(
            read["public_key"].strip() == __salt__["x509.get_public_key"](public).strip()
            and dict(read["subject"]) == {"CN": name}
            and __salt__["x509.verify_signature"](certificate, signing_pub_key=authority)
            and not __salt__["x509.expires"](certificate, days=left)
        )
    except Exception:  # whatever is wrong with it, a new one is right
        return False
