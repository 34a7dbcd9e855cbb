"""Plans: of every cluster, carried out in a model of it, broken off and made again."""

from __future__ import annotations

import itertools
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from .loader import load

PLAN = load("_utils/metalk8s_plan")
Machine, Member, Cluster, Past = PLAN.Machine, PLAN.Member, PLAN.Cluster, PLAN.Past
ACTIONS = PLAN.ACTIONS
VERSION = "2.4.0"
BOOTSTRAP = Machine("boot", ("bootstrap",), VERSION)


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
        ("highstate", "new", "state.apply", ()),
        ("ready", "", "metalk8s_kubernetes.why_not_ready", ("new",)),
    ]
    assert plan.problems == ()


def test_nobody_needs_to_know_of_a_worker() -> None:
    """With many of them, each would cost a look at all of the others."""
    new = machine("new", is_deployed=False, is_ready=False)
    plan = PLAN.plan(cluster(machine("a"), new), "deploy", "new")
    deployment = ("check", "enrol", "answer", "modules", "highstate", "ready")
    assert identities(plan) == [*deployment]


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
        *("answer", "modules", "neighbours-w", "highstate", "ready"),
    ]


def test_a_machine_that_is_a_member_no_more_leaves_etcd_first() -> None:
    """Its label is gone: a remaining member takes it out before the states take etcd away."""
    known = cluster(machine("w"), members=[Member("boot"), Member("w")])
    assert identities(PLAN.plan(known, "deploy", "w"))[3:6] == ["modules", "member", "highstate"]


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
    assert identities(plan)[-2:] == ["ready", "uncordon"]
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


# -- any cluster ---------------------------------------------------------------------------------
NAMES = [f"n{number}" for number in range(6)]


@st.composite
def clusters(draw: st.DrawFn) -> Any:
    """Draw machines as they come to be: some joined, some not, some dead, some half-way."""
    machines, members = [BOOTSTRAP], [Member("boot", draw(st.sampled_from([True] * 4 + [False])))]
    for name in NAMES[: draw(st.integers(0, len(NAMES)))]:
        roles = draw(st.lists(st.sampled_from(["etcd", "master", "infra"]), unique=True))
        deployed = draw(st.booleans()) or draw(st.booleans())
        one = Machine(
            name,
            tuple(sorted(roles)) or ("node",),
            draw(st.sampled_from([VERSION] * 9 + ["2.3.0"])),
            deployed,
            deployed and draw(st.sampled_from([True] * 5 + [False])),
            draw(st.sampled_from([True] * 5 + [False])),
        )
        machines.append(one)
        member = draw(st.sampled_from([deployed] * 5 + [True]))
        if "etcd" in roles and member:
            learner = draw(st.sampled_from([False] * 9 + [True]))
            members.append(Member(name, one.is_ready or draw(st.booleans()), learner))
    order = draw(st.permutations(machines))
    return Cluster(tuple(order), tuple(draw(st.permutations(members))), ())


TASKS = st.tuples(clusters(), st.sampled_from(ACTIONS), st.sampled_from([*NAMES, "boot"]))


class World:
    """A cluster that does what steps say, and has no instant without a quorum."""

    def __init__(self, known: Any, name: str) -> None:
        self.known, self.name = known, name
        self.had_quorum = self.has_quorum()

    def has_quorum(self) -> bool:
        voters = [member for member in self.known.members if not member.is_learner]
        alive = [member for member in voters if member.is_healthy]
        return len(alive) > len(voters) / 2

    def change(self, **fields: Any) -> None:
        self.known = self.known._replace(
            machines=tuple(
                one._replace(**fields) if one.name == self.name else one
                for one in self.known.machines
            )
        )

    def do(self, step: Any) -> None:
        others = tuple(m for m in self.known.members if m.name != self.name)
        if step.id == "member":
            self.members(others)
        elif step.id == "highstate":
            self.highstate(others)
        elif step.id == "drain":
            self.change(is_schedulable=False)
        elif step.id == "uncordon":
            self.change(is_schedulable=True)
        elif step.id == "absent":
            # Its etcd goes: whoever has not been taken out of it would be missing.
            assert others == self.known.members
            self.change(is_ready=False)
        elif step.id == "node":
            rest = tuple(one for one in self.known.machines if one.name != self.name)
            self.known = self.known._replace(machines=rest)

    def highstate(self, others: Any) -> None:
        one = next(one for one in self.known.machines if one.name == self.name)
        if {"etcd", "bootstrap"} & set(one.roles):
            if len(others) == len(self.known.members):
                self.members((*others, Member(self.name, True, is_learner=True)))
            elif all(m.is_healthy for m in others if not m.is_learner):
                pass  # it may be started again: the others are all there, as far as there are some
            else:
                self.down(others)
            self.members((*others, Member(self.name)))
        else:
            assert others == self.known.members  # etcd goes from the machine
        self.change(is_deployed=True, is_ready=True)

    def down(self, others: Any) -> None:
        """Let the member be away for a moment, when others are away for longer."""
        mine = next(m for m in self.known.members if m.name == self.name)
        if others and mine.is_healthy and not mine.is_learner and self.had_quorum:
            self.members((*others, mine._replace(is_healthy=False)))

    def members(self, members: Any) -> None:
        self.known = self.known._replace(members=tuple(members))
        assert self.has_quorum() or not self.had_quorum


@hypothesis.given(TASKS)
def test_no_plan_costs_the_quorum(task: Any) -> None:
    """After no step; and where there was none before, nothing is done to etcd at all."""
    known, action, name = task
    plan = PLAN.plan(known, action, name)
    world = World(known, name)
    for step in plan.steps:
        world.do(step)
        assert world.has_quorum() or not world.had_quorum
    if not world.had_quorum:
        assert "member" not in identities(plan)
    if plan.steps and action != "deploy":
        assert name not in {member.name for member in world.known.members}
        assert name not in {one.name for one in world.known.machines}


@hypothesis.given(TASKS, st.data())
def test_a_plan_that_is_broken_off_goes_on(task: Any, data: Any) -> None:
    """After any step, also several times: what is left is what was left, in the same order."""
    known, action, name = task
    first = PLAN.plan(known, action, name)
    hypothesis.assume(first.steps)
    subject = next(
        (one for one in known.machines if one.name == name), Machine(name, ("etcd",), "")
    )
    world, done = World(known, name), 0
    while done < len(first.steps):
        more = data.draw(st.integers(1, len(first.steps) - done))
        for step in first.steps[done : done + more]:
            world.do(step)
        done += more
        past = Past(action, subject, tuple(identities(first)), tuple(identities(first)[:done]))
        again = PLAN.plan(world.known, action, name, past)
        assert again.problems == ()
        assert [step._replace(done=False) for step in again.steps] == list(first.steps)
        assert [step.done for step in again.steps] == [True] * done + [False] * (
            len(first.steps) - done
        )


@hypothesis.given(TASKS, st.randoms(use_true_random=False))
def test_plans_do_not_depend_on_the_order_of_what_is_known(task: Any, random: Any) -> None:
    """The API server, etcd and the journal give things in any order."""
    known, action, name = task
    shuffled = Cluster(
        tuple(random.sample(known.machines, len(known.machines))),
        tuple(random.sample(known.members, len(known.members))),
    )
    one, other = PLAN.plan(known, action, name), PLAN.plan(shuffled, action, name)
    assert one == other


@hypothesis.given(TASKS)
def test_steps_are_one_after_the_other(task: Any) -> None:
    """Each has an identity of its own; neighbours come in a row, who controls before who works."""
    known, action, name = task
    plan = PLAN.plan(known, action, name)
    assert bool(plan.steps) != bool(plan.problems)
    found = identities(plan)
    assert len(found) == len(set(found))
    told = [step.machine for step in plan.steps if step.id.startswith("neighbours-")]
    first = next((i for i, one in enumerate(found) if one.startswith("neighbours-")), len(found))
    assert found[first : first + len(told)] == [f"neighbours-{other}" for other in told]
    assert found[first + len(told) :] in (
        [],
        ["highstate", "ready"],
        ["highstate", "ready", "uncordon"],
    )
    assert name not in told
    roles = {one.name: set(one.roles) for one in known.machines}
    ranks = [bool(roles[other] & {"etcd", "master", "bootstrap"}) for other in told]
    assert ranks == sorted(ranks, reverse=True)
    assert [len(list(group)) for _, group in itertools.groupby(told)] == [1] * len(told)


@hypothesis.given(clusters(), st.sampled_from([*NAMES, "boot"]))
def test_a_machine_that_is_whole_is_only_looked_at(known: Any, name: str) -> None:
    """Nothing is drained, taken out or deleted, whatever else is wrong in the cluster."""
    found = next((one for one in known.machines if one.name == name), None)
    hypothesis.assume(found and found.is_ready)
    storing = bool({"etcd", "bootstrap"} & set(found.roles))
    hypothesis.assume(storing == any(m.name == name for m in known.members))
    plan = PLAN.plan(known, "deploy", name)
    changing = {"check", "enrol", "answer", "modules", "highstate", "ready"}
    assert {i for i in identities(plan) if not i.startswith("neighbours-")} <= changing
