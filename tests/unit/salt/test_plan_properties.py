"""Plans of every cluster: carried out in a model of it, broken off and made again."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis
from hypothesis import strategies as st

from .test_plan import BOOTSTRAP, PLAN, VERSION, identities

Machine, Member, Cluster, Past = PLAN.Machine, PLAN.Member, PLAN.Cluster, PLAN.Past
ACTIONS = PLAN.ACTIONS
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
            tuple(sorted(draw(st.sets(st.sampled_from(["etcd", "infra", "master", "node"]))))),
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
        elif step.id == "renounce":
            assert others == self.known.members  # nobody counts on what it has
        elif step.id in ("mark", "record"):
            self.change(applied=tuple(step.arguments[1].split(",")))
        elif step.id == "node":
            rest = tuple(one for one in self.known.machines if one.name != self.name)
            self.known = self.known._replace(machines=rest)

    def highstate(self, others: Any) -> None:
        one = next(one for one in self.known.machines if one.name == self.name)
        assert set(one.roles) <= set(one.applied)  # should it go no further than here
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
    """After any step but the last: what is left is what was left, in the same order."""
    known, action, name = task
    first = PLAN.plan(known, action, name)
    hypothesis.assume(first.steps)
    subject = next(
        (one for one in known.machines if one.name == name), Machine(name, ("etcd",), "")
    )
    world, done = World(known, name), 0
    while done < len(first.steps) - 1:
        more = data.draw(st.integers(1, len(first.steps) - 1 - done))
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
    deployment = ("renounce", "mark", "highstate", "ready", "uncordon", "spread", "record")
    assert found[first + len(told) :] in (
        [],
        ["spread", "record"],
        [one for one in deployment if one in found],
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
    changing = {"check", "enrol", "answer", "modules", "highstate", "ready", "spread", "record"}
    if set(found.applied) - set(found.roles):
        changing.add("subtract")
    if set(found.roles) - set(found.applied):
        changing.add("mark")
    assert {i for i in identities(plan) if not i.startswith("neighbours-")} <= changing


LABELS = st.sets(st.sampled_from(["etcd", "infra", "master"]))
ROUNDS = st.tuples(st.sampled_from(["deploy", "deploy", "remove"]), LABELS, st.integers(0, 14))


class Disk:
    """What a machine has: roles, data of etcd that it may go on with, and such as are refused."""

    def __init__(self) -> None:
        self.roles: set[str] = set()
        self.data = self.old = False

    def do(self, step: Any, roles: set[str]) -> None:
        if step.id == "highstate":
            assert not (self.old and "etcd" in roles)
            self.roles |= roles
            self.data = self.data or "etcd" in roles
        elif step.id == "member":
            self.old = self.data
        elif step.id in ("subtract", "absent", "renounce"):
            stays = {"subtract": roles, "absent": set(), "renounce": self.roles}[step.id]
            self.roles &= stays
            if step.id != "subtract" or "etcd" not in roles:
                self.data = self.old = False


@hypothesis.given(st.lists(ROUNDS, max_size=4), LABELS, st.booleans(), st.booleans())
@hypothesis.example([("deploy", {"etcd", "master"}, 7)], set(), True, True)
@hypothesis.example([("deploy", {"etcd"}, 14), ("remove", {"etcd"}, 2)], {"etcd"}, True, True)
@hypothesis.example([("deploy", {"etcd"}, 14), ("deploy", set(), 5)], {"etcd"}, False, True)
def test_whatever_was_broken_off_a_deployment_ends_it(
    rounds: Any, last: Any, is_fresh: bool, is_noted: bool
) -> None:
    """After labels and removals that went as far as they did, a machine has what it is to have."""
    new = Machine("n0", ("node",), VERSION, is_deployed=False, is_ready=False)
    world, disk, past = World(Cluster((BOOTSTRAP, new), (Member("boot"),), ()), "n0"), Disk(), None
    for action, wanted, length in [*rounds, ("deploy", last, 99)]:
        if len(world.known.machines) == 1:
            assert not disk.roles
            world.known = world.known._replace(machines=(BOOTSTRAP, new))
        roles = set(wanted) or {"node"}
        world.change(roles=tuple(sorted(roles)))
        plan = PLAN.plan(world.known, action, "n0", past)
        assert plan.problems == ()
        subject, done = world.known.machines[1], [step.id for step in plan.steps if step.done]
        for step in [step for step in plan.steps if not step.done][:length]:
            disk.do(step, roles)
            world.do(step)
            done.append(step.id)
        # What was done last may not have been written down, or lie back for too long.
        done = done[: len(done) - (not is_noted)] if is_fresh else []
        past = Past(action, subject, tuple(identities(plan)), tuple(done))
    assert (disk.roles, disk.data, disk.old) == (roles, "etcd" in roles, False)
    assert world.known.machines[1].applied == tuple(sorted(roles))
