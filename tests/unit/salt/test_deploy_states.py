"""Orchestrations: states that begin, do and end a run."""

from __future__ import annotations

from typing import Any

import pytest

from .deployment import (
    Runner,
    World,
)
from .deployment import runner as runner
from .deployment import world as world
from .loader import load
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes


class Master:
    """``saltutil.runner`` of the Salt master: one function of the runner, and what it says."""

    def __init__(self, deploy: Any) -> None:
        self.deploy = deploy

    def __call__(self, name: str, kwarg: dict[str, Any], full_return: bool = False) -> Any:
        try:
            said = getattr(self.deploy, name.removeprefix("metalk8s_deploy."))(**kwarg)
        except AttributeError as error:
            trace = f"Exception occurred in runner {name}: Traceback\n  x\nError: {error}\n"
            return {"return": trace, "success": False}
        return {"return": said, "success": True} if full_return else said


def states(runner: Runner, test: bool = False) -> Any:
    salt = {"saltutil.runner": Master(runner.deploy)}
    return load("_states/metalk8s_deploy", salt=salt, opts={"test": test})


def test_states(world: World, runner: Runner) -> None:
    """As the orchestration applies them; again, nothing changes."""
    deploy = states(runner)
    begun = deploy.begun("Deployment of w", "w", "deploy")
    assert (begun["result"], begun["changes"]) == (True, {})
    assert begun["comment"] == "10 of 10 steps are to be done"
    first, second = (deploy.done("Enrol w", "w", one) for one in ("check", "enrol"))
    assert (first["result"], first["changes"]) == (True, {})
    assert (second["changes"], second["comment"]) == ({"changed": 1}, "in")
    assert deploy.done("Enrol w", "w", "enrol")["changes"] == {}
    failed = deploy.done("x", "w", "ready")
    assert (failed["result"], failed["changes"]) == (False, {})
    assert "comes first" in failed["comment"]
    ended = deploy.ended("End", "w")
    assert (ended["result"], ended["comment"]) == (False, "8 steps are left")
    refused = deploy.begun("Deployment of x", "x", "deploy")
    assert (refused["result"], "no Node x" in refused["comment"]) == (False, True)


def test_states_foretell(world: World, runner: Runner) -> None:
    """Nothing is begun, and no minion does anything but say how etcd is."""
    deploy = states(runner, test=True)
    assert deploy.begun("Deployment of w", "w", "deploy")["result"] is True
    assert deploy.begun("Deployment of x", "x", "deploy")["result"] is False
    assert deploy.done("Enrol w", "w", "enrol")["result"] is None
    assert deploy.ended("End", "w")["result"] is True
    assert world.runs() == []
    assert {job[1] for job in world.jobs} == {"metalk8s_etcd.status"}


def test_states_tell_a_runner_that_breaks(world: World, runner: Runner) -> None:
    """With the last line of its traceback."""
    del runner.deploy.begin, runner.deploy.step, runner.deploy.end
    deploy = states(runner)
    for answer in (
        deploy.begun("b", "w", "deploy"),
        deploy.done("s", "w", "x"),
        deploy.ended("e", "w"),
    ):
        assert answer["result"] is False
        assert "Error: module" in answer["comment"]


@pytest.mark.parametrize(
    ("asked", "action", "planned"),
    [
        ({"node_name": "w"}, "deploy", ("deploy", 10)),
        ({"node_name": "w"}, "remove", ("remove", 5)),
        ({"node_name": "w", "dead": True}, "remove", ("remove_dead", 3)),
        ({"node_name": "w", "dead": True}, "deploy", ("deploy", 10)),
        ({"node_name": "x"}, "deploy", ("deploy", 0)),
    ],
)
def test_orchestration(
    world: World, runner: Runner, asked: Any, action: str, planned: tuple[str, int]
) -> None:
    """Of the machine in the pillar of the call."""
    salt = {"saltutil.runner": Master(runner.deploy)}
    module = load("_modules/metalk8s_orchestration", salt=salt, pillar={"orchestrate": asked})
    found = module.planned(action)
    assert (found["action"], len(found["steps"])) == planned
    assert found["node"] == asked["node_name"]


@pytest.mark.parametrize("pillar", [{}, {"orchestrate": None}, {"orchestrate": {"node_name": ""}}])
def test_an_orchestration_of_nobody(pillar: Any) -> None:
    """Says how one is named."""
    module = load("_modules/metalk8s_orchestration", pillar=pillar)
    with pytest.raises(ValueError, match="name it with pillar="):
        module.planned("deploy")
