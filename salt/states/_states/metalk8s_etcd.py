"""Membership of this machine in etcd: before its pod starts, once it runs, and before it goes."""

from __future__ import annotations

import pathlib
import shutil
import time
from typing import Any

PAUSE = 1.0  # seconds between two questions
PATIENCE = 600  # seconds, as for other pods: its image may have to be unpacked first


def member(
    name: str, address: str, first: bool, others: list[str], data: str, manifest: str
) -> dict[str, Any]:
    """Let etcd expect a member here, and decide how it begins. Before its pod may use the folder.

    :param name: of the member, and of this machine.
    :param address: at which other members reach it.
    :param first: whether the machine may found a cluster.
    :param others: names of further machines with a member, as the cluster has them.
    :param data: the folder of etcd's data.
    :param manifest: of its pod; one that is there while the member begins anew is of its former
        life, and goes first: it would begin as it once did.
    """
    if __opts__["test"] and not __salt__["metalk8s_etcd.can_ask"]():
        return _result(name, None, {"member": "asked"}, "Members of etcd would be asked first")
    try:
        facts = _facts(name, address, first, others, data)
        decision = __salt__["metalk8s_membership.decide"](facts)
        return _carry_out(name, address, data, manifest, facts, decision)
    except Exception as error:  # a module's own kind of error is not to be had here
        return _result(name, False, {}, str(error))


def votes(name: str, address: str, timeout: int = PATIENCE) -> dict[str, Any]:
    """Wait until the member of this machine has learnt what the others know, and let it vote.

    :param name: of the member.
    :param address: at which clients reach it.
    :param timeout: seconds.
    """
    promoted, until = False, time.monotonic() + timeout
    while True:
        try:
            found = _own(name)
            if found["learner"] and __opts__["test"]:
                return _result(name, None, {"votes": name}, f"{name} would vote in etcd")
            if found["learner"]:
                promoted = __salt__["metalk8s_etcd.promote"](name) or promoted
                reason = "it is still called a learner"
            else:
                url = __salt__["metalk8s_etcd.client_url"](address)
                reason = __salt__["metalk8s_etcd.why_not_healthy"](url)
        except Exception as error:  # no answer, or a learner that is not as far: it will be
            reason = str(error)
        if not reason or __opts__["test"]:
            changes = {"votes": name} if promoted else {}
            return _result(name, True, changes, reason or f"{name} votes in etcd, and is healthy")
        if time.monotonic() > until:
            changes = {"votes": name} if promoted else {}
            comment = f"{name} is no healthy member of etcd after {timeout} s: {reason}"
            return _result(name, False, changes, comment)
        time.sleep(PAUSE)


def left(name: str, others: dict[str, str], data: str) -> dict[str, Any]:
    """Refuse to take etcd from a machine while other members count on it.

    :param name: of the member.
    :param others: further machines with a member, by name: their addresses.
    :param data: the folder of etcd's data.
    """
    if not any(pathlib.Path(data).glob("member/*")):
        return _result(name, True, {}, f"There are no data of etcd in {data}")
    urls = {__salt__["metalk8s_etcd.client_url"](address) for address in others.values()}
    try:
        members = __salt__["metalk8s_etcd.members"]()
        urls.update(url for one in members if one["name"] != name for url in one["clients"])
    except Exception as error:  # the member here does not run
        reason = str(error)
    try:
        if not urls:
            return _result(name, True, {}, f"{name} is the only member of etcd")
        members = __salt__["metalk8s_etcd.members"](sorted(urls))
    except Exception as error:
        reason = str(error)
        return _result(name, True, {}, f"No other member of etcd answers: {reason}")
    if name not in [one["name"] for one in members]:
        return _result(name, True, {}, f"etcd has no member {name} any more")
    rest = ", ".join(one["name"] or one["id"] for one in members if one["name"] != name)
    return _result(
        name,
        False,
        {},
        f"{name} is still a member of etcd, and {rest} count on it. Call "
        f"metalk8s_etcd.remove_member {name} on one of them first.",
    )


def outlived(name: str, others: dict[str, str], data: str) -> dict[str, Any]:
    """Refuse to take data that etcd could still need: all but a former member's of this cluster.

    Nobody asks a human being here, so the others have to say it.

    :param name: of the former member.
    :param others: further machines with a member, by name: their addresses.
    :param data: the folder of etcd's data.
    """
    try:
        there = __salt__["metalk8s_etcd_data.identity"](data)
        if not there:
            return _result(name, True, {}, f"There are no data of etcd in {data}")
        urls = sorted(__salt__["metalk8s_etcd.client_url"](one) for one in others.values())
        if not urls:
            raise ValueError("no other machine has a member")
        members = __salt__["metalk8s_etcd.members"](urls)
    except Exception as error:
        why = f"The data of etcd in {data} may be the only ones: {error}"
        return _result(name, False, {}, f"{why}. Let the members of etcd run, then try again.")
    if there["cluster"] not in {one["cluster"] for one in members}:
        return _result(
            name,
            False,
            {},
            f"The data of etcd in {data} are of another cluster than this one, perhaps of the one "
            "before. Apply metalk8s.etcd.absent on this machine, which removes them, if nobody "
            "needs them any more; then try again.",
        )
    if there["id"] in {one["id"] for one in members}:
        return _result(name, False, {}, f"{name} is a member of etcd, with the data in {data}")
    return _result(name, True, {}, f"The data of etcd in {data} are of a member that was removed")


def _facts(name: str, address: str, first: bool, others: list[str], data: str) -> dict[str, Any]:
    there = __salt__["metalk8s_etcd_data.identity"](data)
    members, healthy = None, []
    try:
        members = __salt__["metalk8s_etcd.members"]()
        if not there:
            found = __salt__["metalk8s_etcd.status"]()
            healthy = [one["id"] for one in found if one["healthy"]]
    except Exception:
        # Nobody answers: what follows from that, and for whom, is decided elsewhere.
        members = None
    return {
        "name": name,
        "url": __salt__["metalk8s_etcd.peer_url"](address),
        "first": first,
        "others": others,
        "data": there,
        "members": members,
        "healthy": healthy,
        "recorded": __salt__["metalk8s_etcd_data.recorded"](),
    }


def _carry_out(
    name: str,
    address: str,
    data: str,
    manifest: str,
    facts: dict[str, Any],
    decision: dict[str, Any],
) -> dict[str, Any]:
    action, initial = decision["action"], decision["initial"]
    if action == "refuse":
        return _result(name, False, {}, decision["why"])
    changes: dict[str, Any] = {"member": action} if action in ("join", "replace") else {}
    if initial and initial != facts["recorded"]:
        changes["begins"] = initial
    if not changes:
        return _result(name, True, {}, decision["why"])
    if __opts__["test"]:
        return _result(name, None, changes, f"Would be done: {decision['why']}")
    if action in ("join", "replace"):
        stopped = __states__["metalk8s_static_pod.absent"](manifest, pod=f"etcd-{name}")
        if not stopped["result"]:
            return _result(name, False, {}, stopped["comment"])
        for number in decision["remove"]:
            __salt__["metalk8s_etcd.forget"](number)
        # Of a member that has no log: etcd would take what else is there for its own.
        shutil.rmtree(pathlib.Path(data, "member"), ignore_errors=True)
        members = __salt__["metalk8s_etcd.add_learner"](name, address)
        initial = __salt__["metalk8s_membership.beginning"](members, name, facts["url"])
        changes["begins"] = initial
    __salt__["metalk8s_etcd_data.keep"](initial)
    return _result(name, True, changes, decision["why"])


def _own(name: str) -> dict[str, Any]:
    """Find the member of this machine among those that have started."""
    found = [one for one in __salt__["metalk8s_etcd.members"]() if one["name"] == name]
    if not found:
        raise LookupError(f"etcd knows no member {name} that has started")
    member: dict[str, Any] = found[0]
    return member


def _result(
    name: str, result: bool | None, changes: dict[str, Any], comment: str
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes, "comment": comment}
