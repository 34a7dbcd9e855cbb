"""Members of etcd, as etcd 3.4 itself knows them. Runs ``etcdctl``, as the health check.

A member is ``id`` and ``cluster`` (hexadecimal, as etcdctl shows them), ``name`` (empty until it
has started), ``peers`` and ``clients`` (URLs), ``learner``. Every question has an end: ``COMMAND``
seconds at each of the endpoints.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.parse
from typing import Any

FOLDER = "/etc/kubernetes/pki/etcd"
LOOPBACK = "127.0.0.1"
CLIENTS, PEERS = 2379, 2380
ROLES = {"bootstrap", "etcd"}
DIAL, COMMAND, LONGEST = 3, 8, 20  # seconds: to connect, for an answer, until etcdctl is killed
PATIENCE = 60  # seconds in which members that have just come see each other
PAUSE = 1  # second
NOT_YET = ("unhealthy cluster", "leader changed")


class EtcdError(Exception):
    """etcd did not do what it was asked; the text is a sentence."""


def members(endpoints: list[str] | None = None) -> list[dict[str, Any]]:
    """List the members, as the first endpoint knows them that answers.

    :param endpoints: URLs of clients; by default this machine's own, then those of the pillar.
    :raises EtcdError: none answers, each with its reason.
    """
    found: list[dict[str, Any]] = _listed(endpoints)[1]
    return found


def status(endpoints: list[str] | None = None) -> list[dict[str, Any]]:
    """Tell how each member is, as it says itself.

    :return: members, with ``started``, ``healthy`` (it has a leader and, when it votes, answers
        from a quorum), ``leader`` (it is the one), ``version``, ``raft_index``, ``size`` (bytes),
        and ``problem``, a sentence or empty.
    :raises EtcdError: as for ``members``.
    """
    return [{**member, **_health(member)} for member in members(endpoints)]


def leader(endpoints: list[str] | None = None) -> str:
    """Name the leader; empty while there is none.

    :raises EtcdError: as for ``members``.
    """
    return next((one["name"] for one in status(endpoints) if one["leader"]), "")


def why_not_healthy(endpoint: str) -> str:
    """Say why a member does not answer from a quorum, or nothing when it does."""
    try:
        _call(endpoint, "does not answer from a quorum", "endpoint", "health")
    except EtcdError as error:
        return str(error)
    return ""


def can_ask() -> bool:
    """Tell whether this machine has by now what it asks etcd with."""
    files = (f"{FOLDER}/{name}" for name in ("ca.crt", "healthcheck-client.crt"))
    return bool(shutil.which("etcdctl")) and all(pathlib.Path(file).exists() for file in files)


def add_learner(
    name: str, address: str, endpoints: list[str] | None = None
) -> list[dict[str, Any]]:
    """Let etcd expect a member that only learns.

    :param address: of the plane of the control plane.
    :return: all members, the new one included.
    :raises EtcdError: etcd refuses it, for instance since another member learns.
    """
    endpoint, _ = _listed(endpoints)
    url = peer_url(address)
    asked = ("member", "add", name, "--learner", f"--peer-urls={url}")
    return _members(_patiently(endpoint, f"does not expect {name} as a member", *asked))


def promote(name: str, endpoints: list[str] | None = None) -> bool:
    """Let a member that has learnt what the others know vote.

    :return: whether it did not before.
    :raises EtcdError: there is no such member, or it is not as far yet.
    """
    endpoint, there = _listed(endpoints)
    member = next((one for one in there if one["name"] == name), None)
    if member is None:
        raise EtcdError(f"etcd has no member {name} that has started")
    if member["learner"]:
        _call(endpoint, f"does not let {name} vote", "member", "promote", member["id"])
    return bool(member["learner"])


def remove_member(
    name: str, address: str = "", endpoints: list[str] | None = None
) -> dict[str, Any]:
    """Let etcd forget a member, dead or alive, for ever.

    :param name: of a member that never started and so told nobody its name, the number does, too.
    :param address: of such a one; by default, the pillar's.
    :return: ``changed``, and ``members``: names (or numbers) of those that stay.
    :raises EtcdError: it is the only one that votes, or the others are too few to decide.
    """
    _, there = _listed(endpoints)
    urls = {peer_url(one) for one in (address or _known().get(name, ""),) if one}
    gone = [
        one
        for one in there
        if name == (one["name"] or one["id"])
        or (not one["name"] and urls.intersection(one["peers"]))
    ]
    for member in gone:
        others = [one for one in there if one["id"] != member["id"]]
        asked = [url for one in others if not one["learner"] for url in one["clients"]]
        if not asked:
            raise EtcdError(f"{name} is the only member of etcd that votes: nobody could go on")
        endpoint, _ = _listed(asked)
        _patiently(endpoint, f"does not forget {name}", "member", "remove", member["id"])
        there = others
    return {"changed": bool(gone), "members": sorted(one["name"] or one["id"] for one in there)}


def forget(number: str, endpoints: list[str] | None = None) -> None:
    """Let etcd forget the member of a number.

    :raises EtcdError: as for ``remove_member``.
    """
    endpoint, _ = _listed(endpoints)
    _patiently(endpoint, f"does not forget {number}", "member", "remove", number)


def peer_url(address: str) -> str:
    """Give the URL at which other members reach one."""
    return f"https://{address}:{PEERS}"


def client_url(address: str) -> str:
    """Give the URL at which clients reach a member."""
    return f"https://{address}:{CLIENTS}"


def _known() -> dict[str, str]:
    """Give names and addresses of machines that have a member, as the cluster says."""
    nodes = __pillar__.get("metalk8s", {}).get("nodes", {})
    return {
        name: node["address"]
        for name, node in sorted(nodes.items())
        if node.get("address") and ROLES.intersection(node.get("roles", []))
    }


def _listed(endpoints: list[str] | None) -> tuple[str, list[dict[str, Any]]]:
    """Give the first endpoint that knows the members, and what it knows; learners do not answer."""
    asked = endpoints or [client_url(one) for one in (LOOPBACK, *_known().values())]
    problems = []
    for endpoint in asked:
        try:
            return endpoint, _members(
                _call(endpoint, "does not list its members", "member", "list")
            )
        except EtcdError as error:
            problems.append(str(error))
    raise EtcdError("; ".join(problems))


def _members(said: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = f"{said['header']['cluster_id']:x}"
    found = [
        {
            "id": f"{one['ID']:x}",
            "cluster": cluster,
            "name": one.get("name", ""),
            "peers": one.get("peerURLs", []),
            "clients": one.get("clientURLs", []),
            "learner": one.get("isLearner", False),
        }
        for one in said["members"]
    ]
    return sorted(found, key=lambda one: (one["name"], one["id"]))


def _health(member: dict[str, Any]) -> dict[str, Any]:
    unknown = {"leader": False, "version": "", "raft_index": 0, "size": 0}
    if not member["clients"]:
        problem = f"a machine at {', '.join(member['peers'])} has not started its member"
        return {"started": False, "healthy": False, **unknown, "problem": problem}
    endpoint = member["clients"][0]
    try:
        [answer] = _call(endpoint, "does not say how it is", "endpoint", "status")
        said = answer["Status"]
        problem = "; ".join(said.get("errors", []))
        if not member["learner"] and not problem:
            problem = why_not_healthy(endpoint)
    except EtcdError as error:
        return {"started": True, "healthy": False, **unknown, "problem": str(error)}
    return {
        "started": True,
        "healthy": bool(said.get("leader")) and not problem,
        "leader": f"{said.get('leader', 0):x}" == member["id"],
        "version": said["version"],
        "raft_index": said.get("raftIndex", 0),
        "size": said.get("dbSize", 0),
        "problem": problem,
    }


def _patiently(endpoint: str, complaint: str, *arguments: str) -> Any:
    """Change something, again while members that have just come or gone do not see each other.

    Only refusals are met so: what has no answer may have been done.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return _call(endpoint, complaint, *arguments)
        except EtcdError as error:
            if not any(reason in str(error) for reason in NOT_YET) or time.monotonic() > until:
                raise
        time.sleep(PAUSE)


def _call(endpoint: str, complaint: str, *arguments: str) -> Any:
    """Ask one endpoint; proxies of the site are none of etcd's.

    etcdctl 3.4 tries for all its time where nobody listens, so that is looked at first. It has no
    JSON for the answer to ``promote``, and ends with a panic after it has done it.
    """
    url = urllib.parse.urlsplit(endpoint)
    form = "simple" if "promote" in arguments else "json"
    argv = [
        *("etcdctl", f"--endpoints={endpoint}", f"--cacert={FOLDER}/ca.crt"),
        *(f"--cert={FOLDER}/healthcheck-client.crt", f"--key={FOLDER}/healthcheck-client.key"),
        *(f"--dial-timeout={DIAL}s", f"--command-timeout={COMMAND}s", f"--write-out={form}"),
        *arguments,
    ]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "ETCDCTL_API": "3"}
    try:
        with socket.create_connection((url.hostname or "", url.port or CLIENTS), DIAL):
            pass
        run = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=LONGEST, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EtcdError(f"etcd at {endpoint} {complaint}: {error}") from error
    if run.returncode:
        raise EtcdError(f"etcd at {endpoint} {complaint}: {_reason(run.stdout, run.stderr)}")
    return json.loads(run.stdout) if form == "json" else run.stdout


def _reason(answer: str, log: str) -> str:
    """Find in what etcdctl says what went wrong: its log is JSON, its last word is not."""
    words = [line.strip() for line in log.splitlines() if line and not line.startswith("{")]
    errors = [line for line in words if line.startswith("Error:")]
    return (errors or words or [answer.strip()])[-1].removeprefix("Error: ") or "no reason given"
