"""Runs for machines whose members of etcd never started: known by an address, or by a number."""

from __future__ import annotations

from .deployment import Runner, World, member, node, steps
from .deployment import runner as runner
from .deployment import world as world
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes


def put_unstarted(world: World) -> None:
    """Let there be a machine whose member is a learner that has told nobody its name."""
    one = node("w", "etcd", ready=False)
    one["metadata"]["annotations"] = {"metalk8s.scality.com/ssh-host": "10.0.0.7"}
    world.put(one)
    peers = ["https://10.0.0.7:2380"]
    world.members = [member("boot"), member("", learner=True, healthy=False, peers=peers)]


def test_a_member_that_has_not_started_has_an_address(world: World, runner: Runner) -> None:
    """Its name is its machine's, so the machine's own deployment goes on with it."""
    put_unstarted(world)
    assert runner.deploy.plan("w")["problems"] == []
    world.members[1]["peers"] = ["https://10.0.0.70:2380"]
    assert "the learner 1, which" in runner.deploy.plan("w")["problems"][0]


def test_a_member_that_never_started_leaves_by_its_address(world: World, runner: Runner) -> None:
    """The minion that is asked does not know a Node that was made since it last looked."""
    put_unstarted(world)
    removed = {"changed": True, "members": ["boot"]}
    world.answers["boot", "metalk8s_etcd.remove_member"] = lambda *_: removed
    runner.deploy.run("w", "remove_dead")
    assert ("boot", "metalk8s_etcd.remove_member", ["w", "10.0.0.7"]) in world.jobs


def test_a_member_that_nobody_knows_leaves_by_its_number(world: World, runner: Runner) -> None:
    """Its Node is gone, and it never said a name: the sentence that refuses others has it."""
    number = "8e9e05c52164694d"
    more = {"learner": True, "healthy": False, "peers": ["https://10.0.0.7:2380"]}
    world.members = [member("boot"), member("", id=number, **more)]
    world.put(node("w", "etcd", ready=False))
    assert f"deploy {number} again or remove it" in runner.deploy.plan("w")["problems"][0]
    world.answers["boot", "metalk8s_etcd.remove_member"] = lambda *_: {"changed": True}
    for action in ("remove", "remove_dead"):
        planned = runner.deploy.plan(number, action)
        assert planned["problems"] == []
        assert steps(planned) == ["member", "forget", "neighbours-boot"]
    runner.deploy.run(number, "remove")
    assert ("boot", "metalk8s_etcd.remove_member", [number]) in world.jobs
