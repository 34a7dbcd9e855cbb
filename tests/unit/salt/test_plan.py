"""Plans, case by case: their steps, what is refused, what is warned of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .loader import load

PLAN = load("_utils/metalk8s_plan")
Machine, Member, Cluster, Past = PLAN.Machine, PLAN.Member, PLAN.Cluster, PLAN.Past
VERSION = "2.4.0"
BOOTSTRAP = Machine("boot", ("bootstrap",), VERSION)
LIVE = [Member("m1")]


def machine(name: str, *roles: str, **more: Any) -> Any:
    return Machine(name, roles or ("node",), VERSION, **more)


def cluster(*machines: Any, members: Any = None, unfinished: Any = ()) -> Any:
    every = (BOOTSTRAP, *machines)
    if members is None:
        members = [
            Member(m.name, is_healthy=m.is_ready)
            for m in every
            if m.is_deployed and set(m.roles) & {"bootstrap", "etcd"}
        ]
    return Cluster(every, tuple(members), unfinished)


def identities(plan: Any) -> list[str]:
    return [step.id for step in plan.steps]


# -- single cases --------------------------------------------------------------------------------
def test_joining() -> None:
    """Those whom it will serve let it in before it comes, masters before workers."""
    new = machine("new", "etcd", "master", is_deployed=False, is_ready=False)
    known = cluster(machine("a"), machine("z", "etcd", "master"), machine("i", "infra"), new)
    plan = PLAN.plan(known, "deploy", "new")
    assert [(step.id, step.machine, step.function, step.arguments) for step in plan.steps] == [
        ("check", "boot", "metalk8s_enrolment.check", ("new",)),
        ("enrol", "boot", "metalk8s_enrolment.enrol", ("new",)),
        ("answer", "new", "test.ping", ()),
        ("modules", "new", "saltutil.sync_all", ()),
        *(
            (f"neighbours-{name}", name, "state.apply", ("metalk8s.neighbours",))
            for name in ("z", "boot", "a", "i")
        ),
        ("mark", "boot", "metalk8s_roles.record", ("new", "etcd,master")),
        ("highstate", "new", "state.apply", ()),
        ("ready", "", "metalk8s_kubernetes.why_not_ready", ("new",)),
        ("spread", "boot", "metalk8s_spread.spread", ()),
        ("record", "boot", "metalk8s_roles.record", ("new", "etcd,master")),
    ]
    assert plan.problems == ()


def test_nobody_needs_to_know_of_a_worker() -> None:
    """With many of them, each that comes or goes would cost a look at all of the others."""
    new = machine("new", is_deployed=False, is_ready=False)
    plan = PLAN.plan(cluster(machine("a"), new), "deploy", "new")
    deployment = "check enrol answer modules mark highstate ready spread record"
    assert identities(plan) == deployment.split()
    plan = PLAN.plan(cluster(machine("a"), machine("b")), "remove", "b")
    assert identities(plan) == ["drain", "absent", "node", "forget"]


@pytest.mark.parametrize(
    ("action", "ready", "steps"),
    [
        ("remove", True, ["drain", "member", "absent", "node", "forget"]),
        ("remove_dead", False, ["member", "node", "forget"]),
    ],
)
def test_leaving(action: str, ready: bool, steps: list[str]) -> None:
    """What needs the machine is left out of a removal of a dead one."""
    known = cluster(machine("m1", "etcd"), machine("m2", "etcd", is_ready=ready), machine("w"))
    plan = PLAN.plan(known, action, "m2")
    assert identities(plan) == [*steps, "neighbours-m1", "neighbours-boot", "neighbours-w"]
    member = next(step for step in plan.steps if step.id == "member")
    assert (member.machine, member.arguments) == ("boot", ("m2",))


def test_the_bootstrap_machine_applies_to_itself() -> None:
    """It is not enrolled, it has the Salt master."""
    assert identities(PLAN.plan(cluster(machine("w")), "deploy", "boot")) == [
        *("answer", "modules", "neighbours-w", "mark", "highstate", "ready", "spread", "record"),
    ]


def test_a_machine_that_is_a_member_no_more_leaves_etcd_first() -> None:
    """Its label is gone: a remaining member takes it out before the states take etcd away."""
    known = cluster(machine("w"), members=[Member("boot"), Member("w")])
    found = identities(PLAN.plan(known, "deploy", "w"))
    assert found[3:7] == ["modules", "member", "mark", "highstate"]


@pytest.mark.parametrize(
    ("applied", "roles", "expected"),
    [
        ((), ["node"], "mark highstate ready spread record"),
        (("node",), ["node"], "highstate ready spread record"),
        (("infra", "node"), ["node"], "subtract highstate ready spread record"),
        (("node",), ["infra"], "subtract mark highstate ready spread record"),
        (
            ("master",),
            ["node"],
            "subtract mark highstate ready neighbours-boot neighbours-a spread record",
        ),
        (
            ("etcd", "master"),
            ["master"],
            "member subtract neighbours-boot neighbours-a highstate ready spread record",
        ),
        (
            ("etcd", "master"),
            ["node"],
            "member subtract mark highstate ready neighbours-boot neighbours-a spread record",
        ),
    ],
)
def test_a_role_that_was_taken_away(
    applied: tuple[str, ...], roles: list[str], expected: str
) -> None:
    """What no other role needs goes first; whoever was served by it is told."""
    one = machine("w", *roles, applied=applied)
    members = [Member("boot"), *([Member("w")] if "etcd" in applied else [])]
    plan = PLAN.plan(cluster(machine("a"), one, members=members), "deploy", "w")
    assert identities(plan)[4:] == expected.split()
    for step in plan.steps:
        if step.id == "subtract":
            assert (step.machine, step.arguments) == ("w", ("metalk8s.machine.subtracted",))


def test_what_a_machine_may_have_is_written_down_before_it_has_it() -> None:
    """A deployment that is killed has handed over keys: the next one, as a node, takes them."""
    one = machine("w", "etcd", "master", applied=("infra", "node"))
    plan = PLAN.plan(cluster(one, members=[Member("boot")]), "deploy", "w")
    mark = next(step for step in plan.steps if step.id == "mark")
    assert (mark.machine, mark.arguments) == ("boot", ("w", "etcd,infra,master,node"))
    assert identities(plan).index("mark") < identities(plan).index("highstate")
    marked = machine("w", applied=tuple(mark.arguments[1].split(",")))
    again = PLAN.plan(cluster(marked, members=[Member("boot"), Member("w")]), "deploy", "w")
    assert identities(again)[4:7] == ["member", "subtract", "highstate"]
    assert again.steps[-1].arguments == ("w", "node")


def test_what_a_run_wrote_down_itself_is_nothing_of_old() -> None:
    """Between its mark and its highstate a machine has no member, and goes on as planned."""
    plan = PLAN.plan(cluster(NEW), "deploy", "new")
    ids = identities(plan)
    past = Past("deploy", NEW, tuple(ids), tuple(ids[: ids.index("mark") + 1]))
    marked = NEW._replace(applied=("etcd",))
    assert identities(PLAN.plan(cluster(marked), "deploy", "new", past)) == ids
    # Long after, nobody knows whose data there are: there is nothing to take, or it is old.
    past = past._replace(done=())
    assert "renounce" in identities(PLAN.plan(cluster(marked), "deploy", "new", past))


def test_what_is_written_down_is_not_written_again() -> None:
    """A second deployment changes nothing."""
    one = machine("w", "etcd", applied=("etcd",))
    assert not {"mark", "subtract", "renounce"} & {
        *identities(PLAN.plan(cluster(one), "deploy", "w"))
    }


@pytest.mark.parametrize("action", ["remove", "deploy"])
def test_a_member_that_left_halfway_comes_back(action: str) -> None:
    """Its removal was broken off, or its label is there again: etcd does not take its data back."""
    one = machine("w", "etcd", "master", applied=("etcd", "master"))
    before = one._replace(roles=("master",)) if action == "deploy" else one
    past = Past(action, before, ("member", "absent"), ("member",))
    known = cluster(one, members=[Member("boot")])
    plan = PLAN.plan(known, "deploy", "w", past)
    assert identities(plan)[-6:] == [
        *("neighbours-boot", "renounce", "highstate", "ready", "spread", "record")
    ]
    step = plan.steps[-5]
    assert (step.machine, step.arguments) == ("w", ("metalk8s.etcd.renounced",))
    # It goes on the same, though it is a member again.
    past = Past("deploy", one, tuple(identities(plan)), tuple(identities(plan)[:-3]))
    assert identities(PLAN.plan(cluster(one), "deploy", "w", past)) == identities(plan)


@pytest.mark.parametrize(
    ("one", "members"),
    [
        (machine("w", "etcd", applied=("etcd",)), [Member("boot"), Member("w", is_healthy=False)]),
        (machine("w", "etcd", applied=("etcd",)), [Member("boot"), Member("w", is_learner=True)]),
        (machine("w", "etcd", applied=("master",)), [Member("boot")]),
        (machine("w", "master", applied=("etcd", "master")), [Member("boot")]),
        (BOOTSTRAP._replace(roles=("bootstrap", "etcd"), applied=("bootstrap", "etcd")), LIVE),
    ],
)
def test_data_of_etcd_that_stay(one: Any, members: Any) -> None:
    """A living member's, and the bootstrap machine's, whatever etcd says."""
    others = [BOOTSTRAP] if one.name == "w" else [machine("m1", "etcd")]
    known = Cluster((*others, one), tuple(members), ())
    plan = PLAN.plan(known, "deploy", one.name)
    assert plan.problems == ()
    assert "renounce" not in identities(plan)


NEW = machine("new", "etcd", is_deployed=False, is_ready=False)
LIVE3 = [Member("boot"), Member("m1"), Member("m2")]
DEAD1 = [Member("boot"), Member("m1"), Member("m2", is_healthy=False)]
M1, M2 = machine("m1", "etcd"), machine("m2", "etcd")
DEAD_M2 = machine("m2", "etcd", is_ready=False)


@pytest.mark.parametrize(
    ("known", "action", "name", "problem"),
    [
        (cluster(), "deploy", "w", "The cluster has no Node w: apply its manifest first"),
        (cluster(), "remove", "w", "The cluster has no Node w"),
        (cluster(), "destroy", "boot", "no action destroy, only deploy, remove, remove_dead"),
        (Cluster((), (), ()), "deploy", "w", "role bootstrap, 0 have it"),
        (cluster(machine("b2", "bootstrap")), "deploy", "b2", "role bootstrap, 2 have it"),
        (cluster(), "remove", "boot", "the bootstrap machine, which cannot leave"),
        (cluster(), "remove", "boot", "boot is the last master"),
        (cluster(), "remove", "boot", "boot is the last member of etcd"),
        (
            cluster(machine("w", "worker")),
            "deploy",
            "w",
            "roles that there are not: worker (there are bootstrap, etcd, infra, master, node)",
        ),
        (
            cluster(machine("w")._replace(version="2.3.0")),
            "deploy",
            "w",
            "w is to be of version 2.3.0, the cluster is of version 2.4.0",
        ),
        (cluster(machine("w")._replace(version="")), "deploy", "w", "is to be of version none"),
        (cluster(M1, M2, members=DEAD1), "remove", "m1", "1 of 2 members of etcd would be healthy"),
        (cluster(M1, M2, members=DEAD1), "remove", "boot", "machines of m2 or remove them as dead"),
        (
            cluster(M1, members=[Member("boot"), Member("m1", is_healthy=False)]),
            "remove_dead",
            "m1",
            "etcd has no quorum: 1 of its 2 members are healthy",
        ),
        (cluster(M1, M2, members=LIVE3), "remove_dead", "m2", "m2 is not dead"),
        (cluster(M1, DEAD_M2, NEW), "deploy", "new", "The etcd member m2 is not healthy"),
        (
            cluster(M1, NEW, members=[Member("boot"), Member("m1", is_learner=True)]),
            "deploy",
            "new",
            "etcd has the learner m1, which a deployment has left: deploy m1 again or remove it",
        ),
        (cluster(NEW, members=[]), "deploy", "new", "join etcd, which has no member to join"),
        (cluster(M1, M2, members=DEAD1), "deploy", "m1", "m2 of etcd's members are not healthy"),
        (
            cluster(machine("m1"), M2, members=DEAD1),
            "deploy",
            "m1",
            "Without m1, 1 of 2 members of etcd would be healthy",
        ),
    ],
)
def test_refuses(known: Any, action: str, name: str, problem: str) -> None:
    """In a sentence, without a step."""
    plan = PLAN.plan(known, action, name)
    assert plan.steps == ()
    assert [text for text in plan.problems if problem in text], plan.problems


@pytest.mark.parametrize(
    ("known", "action", "name", "expected"),
    [
        (cluster(NEW), "deploy", "new", ["etcd will have 2 members"]),
        (cluster(M1, NEW), "deploy", "new", []),
        (cluster(M1, M2), "remove", "m2", ["etcd will have 2 members"]),
        (
            cluster(machine("w", is_schedulable=False)),
            "deploy",
            "w",
            ["w is cordoned, and stays so: kubectl uncordon w"],
        ),
        (cluster(machine("w", is_ready=False)), "remove", "w", ["w is not ready, so its pods"]),
        (
            cluster(machine("w"), machine("v", is_ready=False)),
            "remove",
            "w",
            ["v is not ready and will not know of the change"],
        ),
        (cluster(machine("w"), machine("v", is_deployed=False, is_ready=False)), "deploy", "w", []),
        (
            cluster(machine("w"), machine("v"), unfinished=(("v", "remove_dead"), ("w", "deploy"))),
            "deploy",
            "w",
            ["v: the run that was to remove dead it did not end"],
        ),
    ],
)
def test_warns(known: Any, action: str, name: str, expected: list[str]) -> None:
    """And goes on."""
    plan = PLAN.plan(known, action, name)
    assert plan.problems == ()
    assert len(plan.warnings) == len(expected), plan.warnings
    assert all(text in warning for text, warning in zip(expected, plan.warnings, strict=True)), (
        plan.warnings
    )


def test_a_dead_member_can_be_mended_or_removed() -> None:
    """What the refusals advise is not refused."""
    known = cluster(M1, DEAD_M2)
    assert PLAN.plan(known, "deploy", "m2").problems == ()
    assert PLAN.plan(known, "remove_dead", "m2").problems == ()


def test_a_member_without_a_node_is_removed_as_a_dead_one() -> None:
    """Somebody has deleted the Node by hand."""
    plan = PLAN.plan(cluster(M1, members=DEAD1), "remove_dead", "m2")
    assert identities(plan) == ["member", "forget", "neighbours-m1", "neighbours-boot"]


def test_a_removal_that_was_broken_off_is_taken_back_by_a_deployment() -> None:
    """The machine was cordoned by it, so pods are let in again; also when that is broken off."""
    cordoned = machine("w", is_schedulable=False)
    past = Past("remove", cordoned, ("drain", "absent"), ("drain",))
    plan = PLAN.plan(cluster(cordoned), "deploy", "w", past)
    assert plan.warnings == ()
    assert identities(plan)[-4:] == ["ready", "uncordon", "spread", "record"]
    assert not any(step.done for step in plan.steps)
    again = Past("deploy", cordoned, tuple(identities(plan)), ("check",))
    assert identities(PLAN.plan(cluster(cordoned), "deploy", "w", again)) == identities(plan)


def test_what_was_done_for_another_machine_does_not_count() -> None:
    """Its roles are others than when the run began."""
    past = Past("deploy", machine("w", "infra"), ("check",), ("check",))
    assert not any(s.done for s in PLAN.plan(cluster(machine("w")), "deploy", "w", past).steps)
    past = Past("deploy", machine("w"), ("check",), ("check",))
    done = [
        step.id for step in PLAN.plan(cluster(machine("w")), "deploy", "w", past).steps if step.done
    ]
    assert done == ["check"]


def test_plain_data() -> None:
    """What goes through JSON on its way is the same plan."""
    known = cluster(machine("w"), NEW)
    document = {
        "machines": [one._asdict() for one in known.machines],
        "members": [one._asdict() for one in known.members],
        "unfinished": [["w", "deploy"]],
    }
    past = Past("deploy", machine("w"), ("check",), ("check",))
    before = {**past._asdict(), "machine": past.machine._asdict()}
    found = PLAN.planned(
        json.loads(json.dumps(document)), "deploy", "w", json.loads(json.dumps(before))
    )
    plan = PLAN.plan(known, "deploy", "w", past)
    assert found["warnings"] == list(plan.warnings)
    assert [step["id"] for step in found["steps"]] == identities(plan)
    assert [step["id"] for step in found["steps"] if step["done"]] == ["check"]
    assert json.loads(json.dumps(found)) == found
