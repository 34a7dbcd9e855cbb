"""What a machine has to do to be a member of etcd: from what is there, one decision."""

from __future__ import annotations

from typing import Any

RESTORE = (
    "Apply metalk8s.etcd.absent on this machine, which removes them, and then this state again."
)
# bootstrap.sh shows 500 characters, names included.
RETURN = (
    " A machine that was restored without /var also needs "
    "/var/lib/metalk8s/salt-master/metalk8s-nodes.json, which says where they are. Only if the "
    "data of etcd are lost everywhere, remove that file and apply metalk8s.enrolment.absent."
)


def decide(facts: dict[str, Any]) -> dict[str, Any]:
    """Decide how this machine's member begins. Nothing is asked and nothing is changed.

    :param facts: ``name``; ``url`` for other members; ``first``, whether the machine may found a
        cluster; ``others``, names of further machines with a member, as the cluster has them, or,
        where it says nothing, of machines that joined, with or without a member;
        ``data``, of which member and cluster (``id``, ``cluster``), empty without any; ``members``
        as ``metalk8s_etcd`` has them, or nothing when nobody answers; ``healthy``, numbers of
        members that answer from a quorum; ``recorded``, how the member once began, or empty.
    :return: ``action``, one of *start* (with what is there), *found*, *join*, *go on* (where a
        former run ended), *replace* and *refuse*; ``why``, a sentence; ``remove``, numbers of
        members that go first; ``initial``, how the member begins where that is known by now.
    """
    if facts["data"]:
        return _with_data(facts)
    if facts["members"] is None:
        return _without_answer(facts)
    return _without_data(facts)


def beginning(members: list[dict[str, Any]], name: str, url: str) -> dict[str, str]:
    """Say how a member begins that others know by now: ``cluster`` and ``state``.

    A member that has not told its name yet goes by its number: only URLs are compared.
    """
    pairs = [
        f"{name if peer == url else one['name'] or one['id']}={peer}"
        for one in members
        for peer in one["peers"]
    ]
    return {"cluster": ",".join(sorted(pairs)), "state": "existing"}


def _with_data(facts: dict[str, Any]) -> dict[str, Any]:
    """A log there is never overwritten: etcd goes on with it, or a human being decides."""
    name, members = facts["name"], facts["members"]
    own = {"cluster": f"{name}={facts['url']}", "state": "new"}
    if members is None:
        why = "There are data of etcd, and no member answers that could say more"
        if facts["others"]:
            own["state"] = "existing"  # should the data go, it does not begin a second cluster
        return _decision("start", why, facts["recorded"] or own)
    clusters = {one["cluster"] for one in members}
    if facts["data"]["cluster"] not in clusters:
        return _decision("refuse", f"The data of etcd are of another cluster. {RESTORE}")
    if facts["data"]["id"] not in {one["id"] for one in members}:
        return _decision(
            "refuse",
            f"The data of etcd are of a member that was removed ({facts['data']['id']}), and etcd "
            f"does not take them back. {RESTORE}",
        )
    known = own if len(members) == 1 else beginning(members, name, facts["url"])
    why = "This machine has data of etcd, and is a member"
    return _decision("start", why, facts["recorded"] or known)


def _without_answer(facts: dict[str, Any]) -> dict[str, Any]:
    """Without data and without an answer, only who is alone may begin."""
    if facts["others"]:
        return _decision(
            "refuse",
            "No member of etcd answers, and without data this machine would begin another cluster "
            f"than that of {', '.join(facts['others'])}. Let those that have a member run, then "
            f"try again.{RETURN if facts['first'] else ''}",
        )
    if not facts["first"]:
        return _decision("refuse", "The cluster names no machine with a member of etcd to join.")
    own = {"cluster": f"{facts['name']}={facts['url']}", "state": "new"}
    return _decision("found", "This machine begins a cluster", own)


def _without_data(facts: dict[str, Any]) -> dict[str, Any]:
    name, url, members = facts["name"], facts["url"], facts["members"]
    mine = [one for one in members if one["name"] == name or url in one["peers"]]
    taken = [one for one in mine if one["name"] not in ("", name)]
    if taken:
        return _decision(
            "refuse",
            f"etcd knows {url} as {taken[0]['name']}: call metalk8s_etcd.remove_member "
            f"{taken[0]['name']} on another member when that machine is gone.",
        )
    if any(one["name"] for one in mine):
        return _lost(facts, mine)
    if mine:
        why = f"etcd expects {name}, which has not started yet"
        return _decision("go on", why, beginning(members, name, url))
    learners = [one["name"] or one["peers"][0] for one in members if one["learner"]]
    if learners:
        return _decision(
            "refuse",
            f"etcd takes one new member at a time, and {learners[0]} is not one yet: finish that, "
            "or call metalk8s_etcd.remove_member for it.",
        )
    return _decision("join", f"{name} becomes a member of etcd")


def _lost(facts: dict[str, Any], mine: list[dict[str, Any]]) -> dict[str, Any]:
    """A member without its data is another one: what it once promised, it no longer knows."""
    numbers = [one["id"] for one in mine]
    voters = [one["id"] for one in facts["members"] if not one["learner"]]
    healthy = set(voters).intersection(facts["healthy"]).difference(numbers)
    if len(healthy) <= len(voters) // 2:
        return _decision(
            "refuse",
            f"The data of etcd's member {facts['name']} are lost, and of {len(voters)} members "
            f"that vote, {len(healthy)} others are well: too few to decide that it begins anew. "
            "Bring more of them back first.",
        )
    learner = [
        one["name"] or one["peers"][0]
        for one in facts["members"]
        if one["learner"] and one["id"] not in numbers
    ]
    if learner:
        return _decision(
            "refuse", f"etcd takes one new member at a time, and {learner[0]} is not one yet."
        )
    why = f"The data of etcd's member {facts['name']} are lost: it begins anew"
    return _decision("replace", why, remove=numbers)


def _decision(
    action: str,
    why: str,
    initial: dict[str, str] | None = None,
    remove: list[str] | None = None,
) -> dict[str, Any]:
    return {"action": action, "why": why, "initial": initial or {}, "remove": remove or []}
