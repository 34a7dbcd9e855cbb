"""What has to be done for a machine to join the cluster, or to leave it: steps in their order.

Pure: out of what is and what shall be, without a look at anything. One machine at a time changes
what others depend on, so steps are a list and never side by side. Machines that have to learn of a
change follow each other: masters first, since everything else talks to them and a mistake shows
while the others still work by what they know; among them the bootstrap machine last, since it
carries out the plan; then the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ACTIONS = ("deploy", "remove", "remove_dead")
ROLES = ("bootstrap", "etcd", "infra", "master", "node")
CONTROLLING = {"bootstrap", "etcd", "master"}
# The bootstrap machine is a master and a member of etcd, labelled so or not.
SERVING = {"bootstrap", "master"}
STORING = {"bootstrap", "etcd"}
# Titles of the machine's own steps, and functions of Salt.
STEPS = {
    "check": ("Check {}", "metalk8s_enrolment.check"),
    "enrol": ("Enrol {}", "metalk8s_enrolment.enrol"),
    "answer": ("Wait for the minion of {}", "test.ping"),
    "modules": ("Give {} our modules", "saltutil.sync_all"),
    "subtract": ("Take from {} what its roles no longer need", "state.apply"),
    "renounce": ("Take old data of etcd from {}", "state.apply"),
    "mark": ("Write down what {} may have", "metalk8s_roles.record"),
    "highstate": ("Apply the highstate to {}", "state.apply"),
    "ready": ("Wait for Node {}", "metalk8s_kubernetes.why_not_ready"),
    "record": ("Write down the roles of {}", "metalk8s_roles.record"),
    "uncordon": ("Let pods onto {}", "metalk8s_drain.uncordon"),
    "spread": ("Spread replicas over the machines", "metalk8s_spread.spread"),
    "drain": ("Drain {}", "metalk8s_drain.drain"),
    "member": ("Take {} out of etcd", "metalk8s_etcd.remove_member"),
    "absent": ("Take MetalK8s from {}", "state.apply"),
    "node": ("Delete Node {}", "metalk8s_drain.forget_node"),
    "forget": ("Forget {}", "metalk8s_enrolment.forget"),
}


class Machine(NamedTuple):
    """A Node, as far as plans depend on it.

    :param roles: sorted; without a label, ``node``.
    :param is_deployed: its kubelet has said something, ever.
    :param applied: roles that it may have something of, as its deployments wrote down.
    """

    name: str
    roles: tuple[str, ...]
    version: str
    is_deployed: bool = True
    is_ready: bool = True
    is_schedulable: bool = True
    applied: tuple[str, ...] = ()


class Member(NamedTuple):
    """A member of etcd, called as its machine."""

    name: str
    is_healthy: bool = True
    is_learner: bool = False


class Cluster(NamedTuple):
    """What is; ``unfinished``: runs that began and did not end, by machine and action."""

    machines: tuple[Machine, ...]
    members: tuple[Member, ...]
    unfinished: tuple[tuple[str, str], ...] = ()


class Past(NamedTuple):
    """The run of the same machine that did not end: what it was to do, and what it did.

    :param planned: identities of its steps; ``done``: of those that are done.
    """

    action: str
    machine: Machine
    planned: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


class Step(NamedTuple):
    """One thing to do.

    :param machine: whose minion does it; the Salt master itself when empty.
    :param function: of Salt, with what it is given.
    """

    id: str
    title: str
    machine: str
    function: str
    arguments: tuple[str, ...] = ()
    done: bool = False


class Plan(NamedTuple):
    """Steps, or why there are none."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    steps: tuple[Step, ...]


def plan(cluster: Cluster, action: str, name: str, past: Past | None = None) -> Plan:
    """Plan one action for one machine.

    :param past: of this machine, when a run did not end. Steps that it did count as done when it
        was the same action and the machine is to be the same.
    """
    # Whoever says what is says it in any order.
    cluster = Cluster(*(tuple(sorted(part)) for part in cluster))
    machine = _subject(cluster, name, past)
    problems = _problems(cluster, action, name, machine)
    if problems or machine is None:
        return Plan(tuple(problems), (), ())
    if action == "deploy":
        problems = _deploy_problems(cluster, machine)
        steps = _deploy_steps(cluster, machine, past)
    else:
        problems = _remove_problems(cluster, action, machine)
        steps = _remove_steps(cluster, action, machine, past)
    warnings = _warnings(cluster, action, machine, past)
    if problems:
        return Plan(tuple(problems), tuple(warnings), ())
    done = _done(action, machine, past)
    steps = _with_neighbours(steps, machine, _neighbour_steps(cluster, machine, done))
    if action == "deploy":  # at last: until then, what it had is what has to go
        first, roles = _bootstraps(cluster)[0], ",".join(machine.roles)
        steps += [_step("spread", first, name), _step("record", first, name, name, roles)]
    return Plan((), tuple(warnings), tuple(step._replace(done=step.id in done) for step in steps))


def planned(
    cluster: dict[str, Any], action: str, name: str, past: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Plan out of plain data, into plain data: for callers that Salt's loader keeps from our types.

    :param cluster: the fields of a Cluster; machines and members are their fields, too.
    :return: the fields of a Plan, steps as theirs.
    """
    known = Cluster(
        tuple(_machine(one) for one in cluster["machines"]),
        tuple(Member(**member) for member in cluster["members"]),
        tuple((machine, what) for machine, what in cluster.get("unfinished", ())),
    )
    before = None if past is None else Past(**{**past, "machine": _machine(past["machine"])})
    found = plan(known, action, name, before)
    return {
        "problems": list(found.problems),
        "warnings": list(found.warnings),
        "steps": [{**step._asdict(), "arguments": list(step.arguments)} for step in found.steps],
    }


def _machine(fields: dict[str, Any]) -> Machine:
    sets = {key: tuple(sorted(fields.get(key, ()))) for key in ("roles", "applied")}
    return Machine(**{**fields, **sets})


def is_part(machine: Machine, roles: set[str]) -> bool:
    """Tell whether a machine has one of some roles."""
    return bool(set(machine.roles) & roles)


def _find(cluster: Cluster, name: str) -> Machine | None:
    return next((machine for machine in cluster.machines if machine.name == name), None)


def _bootstraps(cluster: Cluster) -> list[str]:
    return [machine.name for machine in cluster.machines if "bootstrap" in machine.roles]


def _subject(cluster: Cluster, name: str, past: Past | None) -> Machine | None:
    """Return the machine; one that has left its Node behind is known by its run or by etcd."""
    found = _find(cluster, name)
    if found is None and past is not None and past.action != "deploy":
        return past.machine._replace(is_deployed=False, is_ready=False)
    if found is None and any(member.name == name for member in cluster.members):
        return Machine(name, ("etcd",), "", is_ready=False)
    return found


def _done(action: str, machine: Machine, past: Past | None) -> frozenset[str]:
    if past is None or (past.action, past.machine[1:3]) != (action, machine[1:3]):  # roles, version
        return frozenset()
    return frozenset(past.done)


def _problems(cluster: Cluster, action: str, name: str, machine: Machine | None) -> list[str]:
    known = ", ".join(ACTIONS)
    problems = [] if action in ACTIONS else [f"There is no action {action}, only {known}"]
    if (count := len(_bootstraps(cluster))) != 1:
        problems.append(f"One Node has to have the role bootstrap, {count} have it")
    if machine is None or (action == "deploy" and _find(cluster, name) is None):
        problems.append(f"The cluster has no Node {name}: apply its manifest first")
    return problems


def _deploy_problems(cluster: Cluster, machine: Machine) -> list[str]:
    version = next(one.version for one in cluster.machines if "bootstrap" in one.roles)
    name, problems = machine.name, []
    if unknown := ", ".join(sorted(set(machine.roles) - set(ROLES))):
        there = f"(there are {', '.join(ROLES)})"
        problems.append(f"{name} has roles that there are not: {unknown} {there}")
    if machine.version != version:
        problems.append(
            f"{name} is to be of version {machine.version or 'none'}, the cluster is of version "
            f"{version}: correct its label metalk8s.scality.com/version"
        )
    member = next((one for one in cluster.members if one.name == name), None)
    if is_part(machine, STORING) and (member is None or member.is_learner):
        problems += _joining_problems(cluster, name)
    elif is_part(machine, STORING):
        problems += _restart_problems(cluster, name)
    elif member is not None:
        problems += _leaving_problems(cluster, name)
    return problems


def _joining_problems(cluster: Cluster, name: str) -> list[str]:
    others = [member for member in cluster.members if member.name != name]
    is_there = any(not member.is_learner for member in others)
    problems = [] if is_there else [f"{name} is to join etcd, which has no member to join"]
    for member in others:
        if member.is_learner:
            said = f"etcd has the learner {member.name}, which a deployment has left: deploy"
            problems.append(f"{said} {member.name} again or remove it, then {name} can join")
        elif not member.is_healthy:
            said = f"The etcd member {member.name} is not healthy: mend its machine or remove it"
            problems.append(f"{said} as a dead one, then {name} can join")
    return problems


def _restart_problems(cluster: Cluster, name: str) -> list[str]:
    voters = _voters(cluster)
    sick = [member.name for member in voters if not member.is_healthy and member.name != name]
    if not sick or 2 * (len(voters) - 1 - len(sick)) > len(voters):
        return []
    return [
        f"{', '.join(sick)} of etcd's members are not healthy, and without {name} there would be "
        "no quorum: mend their machines or remove them as dead ones first"
    ]


def _leaving_problems(cluster: Cluster, name: str) -> list[str]:
    """Refuse a removal of a member after which, or in which, etcd could not decide anything."""
    voters = _voters(cluster)
    healthy = [member for member in voters if member.is_healthy]
    if 2 * len(healthy) <= len(voters):
        said = f"etcd has no quorum: {len(healthy)} of its {len(voters)} members are healthy"
        return [f"{said}. Mend the machines of the others first"]
    if not (rest := [member for member in voters if member.name != name]):
        return [f"{name} is the last member of etcd: without it, the cluster's data are gone"]
    alive = [member for member in rest if member.is_healthy]
    if 2 * len(alive) <= len(rest):
        sick = ", ".join(member.name for member in rest if not member.is_healthy)
        return [
            f"Without {name}, {len(alive)} of {len(rest)} members of etcd would be healthy, which "
            f"is no quorum: mend the machines of {sick} or remove them as dead ones first"
        ]
    return []


def _remove_problems(cluster: Cluster, action: str, machine: Machine) -> list[str]:
    name, problems = machine.name, []
    if "bootstrap" in machine.roles:
        problems.append(f"{name} is the bootstrap machine, which cannot leave its cluster")
    rest = [one for one in cluster.machines if one.name != name and one.is_deployed]
    if is_part(machine, SERVING) and not any(is_part(one, SERVING) for one in rest):
        problems.append(f"{name} is the last master: without it there is no API server")
    if any(member.name == name for member in cluster.members):
        problems += _leaving_problems(cluster, name)
    if action == "remove_dead" and machine.is_ready:
        problems.append(f"{name} is not dead, its Node is ready: remove it as a living one")
    return problems


def _voters(cluster: Cluster) -> list[Member]:
    return [member for member in cluster.members if not member.is_learner]


def _warnings(cluster: Cluster, action: str, machine: Machine, past: Past | None) -> list[str]:
    name, found = machine.name, []
    joining = {name} if action == "deploy" and is_part(machine, STORING) else set()
    voters = {member.name for member in _voters(cluster)} - {name} | joining
    if len(voters) and len(voters) % 2 == 0:
        found.append(f"etcd will have {len(voters)} members: with one less it bears as many losses")
    if action == "deploy" and not machine.is_schedulable and not _is_ours(past):
        found.append(f"{name} is cordoned, and stays so: kubectl uncordon {name} lets pods in")
    if action == "remove" and machine.is_deployed and not machine.is_ready:
        found.append(f"{name} is not ready, so its pods may not end: if dead, remove it as that")
    found += [
        f"{other.name} is not ready and will not know of the change: deploy it again once it is"
        for other in cluster.machines
        if other.name != name and other.is_deployed and not other.is_ready
    ]
    found += [
        f"{other}: the run that was to {what.replace('_', ' ')} it did not end: repeat it"
        for other, what in cluster.unfinished
        if other != name
    ]
    return found


def _is_ours(past: Past | None) -> bool:
    """Tell whether it is a run of ours that has cordoned a machine."""
    return past is not None and (past.action == "remove" or "uncordon" in past.planned)


def _deploy_steps(cluster: Cluster, machine: Machine, past: Past | None) -> list[Step]:
    name, first = machine.name, _bootstraps(cluster)[0]
    done, steps = _done("deploy", machine, past), []
    if "bootstrap" not in machine.roles:
        steps = [_step(identity, first, name, name) for identity in ("check", "enrol")]
    steps += [_step(identity, name, name) for identity in ("answer", "modules")]
    steps += [] if is_part(machine, STORING) else _member_steps(cluster, name, done)
    if _lost(machine):
        steps.append(_step("subtract", name, name, "metalk8s.machine.subtracted"))
    if _renounces(cluster, machine, done):
        steps.append(_step("renounce", name, name, "metalk8s.etcd.renounced"))
    may = sorted({*machine.applied, *machine.roles})
    if may != sorted(machine.applied) or "mark" in done:
        steps.append(_step("mark", first, name, name, ",".join(may)))
    steps += [_step("highstate", name, name), _step("ready", "", name, name)]
    if (not machine.is_schedulable and _is_ours(past)) or "uncordon" in done:
        steps.append(_step("uncordon", first, name, name))
    return steps


def _lost(machine: Machine) -> set[str]:
    return set(machine.applied) - set(machine.roles)


def _renounces(cluster: Cluster, machine: Machine, done: frozenset[str]) -> bool:
    """Tell whether its data may be of a member that was removed: etcd does not take them back."""
    if {"renounce", "mark"} & done:  # once it is marked, what it may have is of this very run
        return "renounce" in done
    has_one = "bootstrap" in machine.roles or machine.name in {m.name for m in cluster.members}
    return not has_one and "etcd" in {*machine.applied} & {*machine.roles}


def _remove_steps(cluster: Cluster, action: str, machine: Machine, past: Past | None) -> list[Step]:
    name, first = machine.name, _bootstraps(cluster)[0]
    done = _done(action, machine, past)
    steps = [_step("drain", first, name, name), *_member_steps(cluster, name, done)]
    steps += [_step("absent", name, name, "metalk8s.machine.absent")]
    steps += [_step("node", first, name, name), _step("forget", first, name, name)]
    left_out = {"drain", "absent"} if action == "remove_dead" else set()
    if _find(cluster, name) is None:
        # Without its Node nobody knows what it was: what was to be done before is done, or lost.
        left_out |= {"drain", "absent", "node"} - done
    return [step for step in steps if step.id not in left_out]


def _member_steps(cluster: Cluster, name: str, done: frozenset[str]) -> list[Step]:
    if "member" not in done and name not in {member.name for member in cluster.members}:
        return []
    first = _bootstraps(cluster)[0]
    remaining = [m.name for m in _voters(cluster) if m.is_healthy and m.name != name]
    asked = first if first in remaining or not remaining else remaining[0]
    return [_step("member", asked, name, name)]


def _neighbour_steps(cluster: Cluster, machine: Machine, done: frozenset[str]) -> list[Step]:
    steps = []
    for one in sorted(cluster.machines, key=_turn):
        identity, title = f"neighbours-{one.name}", f"Tell {one.name} of {machine.name}"
        if one.name != machine.name and one.is_deployed and (one.is_ready or identity in done):
            steps.append(Step(identity, title, one.name, "state.apply", ("metalk8s.neighbours",)))
    return steps


def _with_neighbours(steps: list[Step], machine: Machine, told: list[Step]) -> list[Step]:
    """Put in when the others are told of a machine that serves them, or was a member of etcd.

    It joins etcd through their packet filters, so they are told before. Nobody needs to know of a
    machine that only uses what others serve.
    """
    ids, serves = [step.id for step in steps], is_part(machine, CONTROLLING)
    if not (serves or "member" in ids or _lost(machine) & CONTROLLING):
        return steps
    own = (at for at, one in enumerate(ids) if one in ("renounce", "mark", "highstate"))
    before = next(own, len(ids)) if serves else len(ids)
    return [*steps[:before], *told, *steps[before:]]


def _turn(machine: Machine) -> tuple[int, str]:
    rank = 0 if is_part(machine, CONTROLLING) else 2
    return 1 if "bootstrap" in machine.roles else rank, machine.name


def _step(identity: str, machine: str, name: str, *arguments: str) -> Step:
    title, function = STEPS[identity]
    return Step(identity, title.format(name), machine, function, arguments)
