"""Two runs at a time: one works, the other one says who."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from typing import Any

import pytest

from .deployment import (
    LEASE,
    Runner,
    World,
    node,
    steps,
)
from .deployment import runner as runner
from .deployment import world as world
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes


def test_two_at_a_time_exclude_each_other(world: World, runner: Runner) -> None:
    """The second one says who is first, and since when; the first one goes on."""
    world.put(node("v"))
    runner.deploy.begin("w", "deploy")
    other: dict[str, Any] = {}

    def while_at_work(_: str) -> dict[str, Any]:
        runner.now += datetime.timedelta(seconds=15)
        thread = threading.Thread(target=lambda: other.update(runner.deploy.begin("v", "remove")))
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            runner.now += datetime.timedelta(seconds=1)
            runner.turn._renew(runner.deploy._api(), "deploy w", "Check w")
        return {"problems": [], "facts": {}}

    world.answers["boot", "metalk8s_enrolment.check"] = while_at_work
    assert runner.deploy.step("w", "check") == {"changed": 0, "comment": ""}
    assert other["problems"] == [
        "w is being deployed since 2026-11-22T12:00:00Z (Check w): one machine at a time, "
        "try again when that is over"
    ]
    assert other["steps"] == []
    assert [run["node"] for run in world.runs()] == ["w"]


def test_a_dead_holder_is_forgotten(world: World, runner: Runner) -> None:
    """A minute after its last sign of life, and not before."""
    world.put(node("v"))
    runner.deploy.begin("w", "deploy")
    taken = world.api.objects[LEASE]["spec"]["renewTime"]

    def later() -> datetime.datetime:
        runner.now += datetime.timedelta(seconds=7)
        return runner.now

    runner.turn._now = later
    assert runner.deploy.begin("v", "remove")["problems"] == []
    spec = world.api.objects[LEASE]["spec"]
    assert spec["holderIdentity"] == "remove v"
    assert spec["leaseTransitions"] == 2
    gap = runner.turn.left({"spec": {**spec, "renewTime": taken}, "metadata": {}}, runner.now)
    assert gap == 0
    assert "v is being removed since" in runner.deploy.step("w", "check")["failed"]


@pytest.mark.parametrize(("node_name", "action"), [("w", "deploy"), ("v", "remove")])
def test_a_caller_that_comes_back_does_not_wait(
    world: World, runner: Runner, node_name: str, action: str
) -> None:
    """What it began before is over, whatever machine it was for."""
    world.put(node("v"))
    runner.deploy.begin("w", "deploy", "boot")
    began = runner.now
    assert runner.deploy.begin(node_name, action, "boot")["problems"] == []
    assert (runner.now - began).total_seconds() < runner.turn.SECONDS
    lease = world.api.objects[LEASE]
    assert lease["spec"]["holderIdentity"] == f"{action} {node_name}"
    runner.deploy.end(node_name)
    annotations = world.api.objects[LEASE]["metadata"]["annotations"]
    assert not {runner.turn.CALLER, runner.turn.STEP} & set(annotations)


@pytest.mark.parametrize(("before", "after"), [("boot", "second"), ("", ""), ("boot", "")])
def test_another_caller_waits(world: World, runner: Runner, before: str, after: str) -> None:
    """A minute: nobody knows whether the first one is alive."""
    world.put(node("v"))
    runner.deploy.begin("w", "deploy", before)
    began = runner.now

    def later() -> datetime.datetime:
        runner.now += datetime.timedelta(seconds=7)
        return runner.now

    runner.turn._now = later
    assert runner.deploy.begin("v", "remove", after)["problems"] == []
    assert (runner.now - began).total_seconds() >= runner.turn.SECONDS
    annotations = world.api.objects[LEASE]["metadata"]["annotations"]
    assert annotations[runner.turn.CALLER] == after


def test_a_step_of_a_caller_that_comes_back_is_waited_for(
    world: World, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on in the Salt master's pod, whoever was killed."""
    runner.deploy.begin("w", "deploy", "boot")
    api, looks = runner.deploy._api(), []
    runner.turn._renew(api, "deploy w", "Check w")

    class Clock:
        monotonic = time.monotonic

        @staticmethod
        def sleep(_: float) -> None:
            looks.append(runner.turn.step(world.api.objects[LEASE]))
            runner.turn._renew(api, "deploy w", "" if len(looks) == 3 else "Check w")
            assert len(looks) < 9

    monkeypatch.setattr(runner.turn, "time", Clock)
    runner.turn.take(api, "w", "deploy", "boot")
    assert looks == ["Check w"] * 3


def test_a_step_whose_caller_is_gone_is_waited_for(
    world: World, runner: Runner, kubernetes: Any
) -> None:
    """The same machine again: the step ends, nobody begins another, so the new run goes on."""
    runner.deploy.begin("w", "deploy")
    go_on, begun = threading.Event(), threading.Event()

    def slowly(_: str) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(10)
        return {"problems": [], "facts": {}}

    world.answers["boot", "metalk8s_enrolment.check"] = slowly
    orphan = threading.Thread(target=runner.deploy.step, args=("w", "check"))
    orphan.start()
    assert begun.wait(10)
    after = Runner(kubernetes.ADMINISTRATOR)
    looks = itertools.count()

    def now() -> datetime.datetime:
        # Looks that find the step at work, and then those that find silence.
        look = next(looks)
        if look == 3:
            go_on.set()
            orphan.join()
        return runner.now + datetime.timedelta(seconds=10 * max(0, look - 3))

    after.turn._now = now
    assert steps(after.deploy.begin("w", "deploy"), done=True) == ["check"]


def test_somebody_who_carries_on_is_not_an_orphan(world: World, runner: Runner) -> None:
    """The second caller for the same machine is refused as soon as another step begins."""
    runner.deploy.begin("w", "deploy")
    runner.turn._renew(runner.deploy._api(), "deploy w", "Check w")
    looks = itertools.count()

    def now() -> datetime.datetime:
        if next(looks) == 2:
            world.api.objects[LEASE]["metadata"]["annotations"] = {
                "metalk8s.scality.com/step": "Enrol w"
            }
        return runner.now

    runner.turn._now = now
    [problem] = runner.deploy.begin("w", "deploy")["problems"]
    assert problem.startswith("w is being deployed since 2026-11-22T12:00:00Z (Enrol w)")


def test_one_step_at_a_time(world: World, runner: Runner) -> None:
    """A second call of a step while it goes on does nothing, nor ends the run."""
    runner.deploy.begin("w", "deploy")
    runner.turn._renew(runner.deploy._api(), "deploy w", "Check w")
    assert "(Check w)" in runner.deploy.step("w", "check")["failed"]
    assert runner.deploy.end("w")["comment"] == "A step for w still goes on"
    assert world.did("metalk8s_enrolment.check") == 0


def test_a_race_for_the_lease_has_one_winner(world: World, runner: Runner) -> None:
    """What was read is not written once another has written."""

    def first() -> None:
        world.api.before_merge = lambda: None
        lease = world.api.objects[LEASE]
        lease["metadata"]["resourceVersion"] = "7"
        lease["spec"] = runner.turn.taken(lease, "remove v", "", runner.now)["spec"]

    world.api.before_merge = first
    runner.turn.ORPHAN = -1
    assert "v is being removed" in runner.deploy.begin("w", "deploy")["problems"][0]
    assert world.runs() == []


def test_a_holder_renews_while_it_works(world: World, runner: Runner) -> None:
    """In a thread, also when the API server is away for a moment."""
    runner.turn.RENEWAL = 0.01
    seen = set()

    def slowly(_: str) -> dict[str, Any]:
        until = datetime.datetime.now() + datetime.timedelta(seconds=10)
        while len(seen) < 3 and datetime.datetime.now() < until:
            runner.now += datetime.timedelta(seconds=1)
            world.api.down = not world.api.down
            seen.add(world.api.objects[LEASE]["spec"]["renewTime"])
        world.api.down = False
        return {"problems": [], "facts": {}}

    world.answers["boot", "metalk8s_enrolment.check"] = slowly
    runner.deploy.begin("w", "deploy")
    assert runner.deploy.step("w", "check")["changed"] == 0
    assert len(seen) >= 3
