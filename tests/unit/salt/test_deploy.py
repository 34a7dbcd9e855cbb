"""Runs: begun, carried out, killed and gone on with."""

from __future__ import annotations

import copy
import datetime
import io
import itertools
import json
import types
from collections.abc import Callable
from typing import Any

import pytest

from .deployment import (
    DEPLOYMENT,
    LEASE,
    LOST,
    STATES,
    KilledError,
    Runner,
    World,
    node,
    steps,
)
from .deployment import runner as runner
from .deployment import world as world
from .loader import load
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes


def test_deployment(world: World, runner: Runner) -> None:
    """Planned, begun, done and ended; the journal has it all."""
    deploy = runner.deploy
    planned = deploy.plan("w")
    assert (planned["problems"], steps(planned)) == ([], DEPLOYMENT)
    assert world.runs() == []
    assert deploy.begin("w", "deploy") == planned
    assert [deploy.step("w", one) for one in DEPLOYMENT] == [
        {"changed": 0, "comment": ""},
        {"changed": 1, "comment": "in"},
        {"changed": 0, "comment": "The minion of w answers"},
        {"changed": 1, "comment": "modules: modules.x"},
        {"changed": 1, "comment": "2 states, 1 changed"},
        {"changed": 1, "comment": ""},
        {"changed": 1, "comment": "2 states, 1 changed"},
        {"changed": 0, "comment": "Node w is ready"},
        {"changed": 1, "comment": "evicted: kube-system/d"},
        {"changed": 1, "comment": ""},
    ]
    [run] = world.runs()
    assert run["saltenv"] == "metalk8s-2.4.0"
    assert ("boot", "state.apply", ["metalk8s.neighbours"]) in world.jobs
    assert deploy.end("w") == {"left": 0, "comment": "All is done"}
    [run] = world.runs()
    assert (run["begun"], run["outcome"]) == ("2026-11-22T12:00:00Z", "whole")
    assert [one["result"]["changed"] for one in run["steps"]] == [0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert world.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_one_program_answers_all_questions(
    world: World,
    runner: Runner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In their order; one that cannot be answered is no reason to end."""
    steps = [["step", "w", one] for one in DEPLOYMENT]
    questions = [["begin", "w", "deploy", "me"], ["stop"], ["step", "w"], *steps, ["end", "w"]]
    asked = "".join(f"{json.dumps(question)}\n" for question in questions)
    monkeypatch.setattr("sys.stdin", io.StringIO(asked))
    runner.deploy.serve()
    lines = capsys.readouterr().out.splitlines()
    said = [json.loads(line.removeprefix("metalk8s_deploy: ")) for line in lines]
    assert said[::2] == [name for name, *_ in questions]
    begun, unknown, wrong, *done, ended = said[1::2]
    assert [one["id"] for one in begun["steps"]] == DEPLOYMENT
    assert unknown == "KeyError: 'stop'"
    assert wrong.startswith("TypeError: ")
    assert [one["changed"] for one in done] == [0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert ended == {"left": 0, "comment": "All is done"}
    assert world.runs()[0]["outcome"] == "whole"


def test_all_in_one_go(world: World, runner: Runner) -> None:
    """And again, since a run that ended is no reason to leave anything out."""
    assert runner.deploy.run("w") == {"steps": 10, "changed": 7}
    runner.now += datetime.timedelta(seconds=5)
    assert runner.deploy.run("w") == {"steps": 10, "changed": 7}
    assert [run["outcome"] for run in world.runs()] == ["whole", "whole"]
    assert world.did("metalk8s_enrolment.enrol") == 2


def test_removal(world: World, runner: Runner) -> None:
    """Of what was deployed; afterwards nobody knows it."""
    world.put(node("w", "master"))
    assert runner.deploy.run("w", "remove") == {"steps": 5, "changed": 5}
    assert world.runs()[0]["steps"][0]["result"]["comment"] == "evicted: a/b"
    assert world.jobs[2:4] == [
        ("w", "state.apply", ["metalk8s.machine.absent"]),
        ("boot", "metalk8s_drain.forget_node", ["w"]),
    ]
    assert "no Node w" in runner.deploy.plan("w", "remove")["problems"][0]


def test_a_machine_that_does_not_answer_cannot_leave_by_itself(
    world: World, runner: Runner
) -> None:
    """Whoever removes it is told how it goes without the machine."""
    world.put(node("w"))
    world.answers["w", "state.apply"] = lambda *_, **__: ["No minion"]
    with pytest.raises(Exception, match=r"No minion\. If the machine is dead, or ours has left"):
        runner.deploy.run("w", "remove")


def test_a_step_that_fails_is_tried_again(world: World, runner: Runner) -> None:
    """It is the first of what is left; what was done before it is not repeated."""
    good = world.answers.pop(("boot", "metalk8s_enrolment.enrol"))
    world.answers["boot", "metalk8s_enrolment.enrol"] = lambda _: {"failed": "no space there"}
    with pytest.raises(Exception, match="Enrol w: no space there"):
        runner.deploy.run("w")
    [run] = world.runs()
    assert run["ended"] == ""
    assert run["steps"][1]["result"]["failed"] == "no space there"
    assert world.api.objects[LEASE]["spec"]["holderIdentity"] == ""
    world.answers["boot", "metalk8s_enrolment.enrol"] = good
    assert steps(runner.deploy.plan("w"), done=True) == ["check"]
    assert runner.deploy.run("w") == {"steps": 10, "changed": 7}
    assert world.did("metalk8s_enrolment.check") == 1
    assert len(world.runs()) == 1


def test_steps_have_their_turn(world: World, runner: Runner) -> None:
    """Not before others, not without a run, not twice."""
    deploy = runner.deploy
    assert "No run for w has begun" in deploy.step("w", "check")["failed"]
    deploy.begin("w", "deploy")
    assert deploy.step("w", "enrol") == {"failed": "Not yet: Check w comes first"}
    assert "has no step x" in deploy.step("w", "x")["failed"]
    deploy.step("w", "check")
    assert deploy.step("w", "check") == {"changed": 0, "comment": "It was done before"}
    assert world.did("metalk8s_enrolment.check") == 1
    assert deploy.end("w") == {"left": 9, "comment": "9 steps are left"}


@pytest.mark.parametrize("each", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_anywhere(world: World, kubernetes: Any, each: int) -> None:
    """At each call of the API server or a minion: the next run does the rest, and only that."""
    answer, command = world.api.answer, world.cmd_iter_no_block

    def run(killed: int) -> int:
        """Deploy, and be dead from some call on: also tidying up is not done any more."""
        world.__init__(world.api)  # type: ignore[misc]
        count = 0

        def counted(function: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count >= killed:
                    raise KilledError
                return function(*arguments, **options)

            return call

        world.api.answer = counted(answer)  # type: ignore[method-assign]
        world.cmd_iter_no_block = counted(command)  # type: ignore[method-assign]
        try:
            Runner(kubernetes.ADMINISTRATOR).deploy.run("w")
        except KilledError:
            pass
        finally:
            world.api.answer, world.cmd_iter_no_block = answer, command  # type: ignore[method-assign]
        return count

    calls = run(killed=10_000)
    assert calls > 100
    for killed in range(1, calls + 1, each):
        run(killed)
        after = Runner(kubernetes.ADMINISTRATOR)
        after.now += datetime.timedelta(seconds=61)
        planned = after.deploy.plan("w")
        done = steps(planned, done=True)
        assert done == steps(planned)[: len(done)]
        checks = world.did("metalk8s_enrolment.check")
        assert after.deploy.run("w")["steps"] == len(steps(planned))
        assert world.did("metalk8s_enrolment.check") == checks + ("check" not in done)
        assert world.runs()[-1]["outcome"] == "whole"
        assert after.deploy.plan("w")["problems"] == []


def test_what_lies_back_for_long_is_done_anew(world: World, runner: Runner) -> None:
    """The site may have changed its mind meanwhile."""
    runner.deploy.begin("w", "deploy")
    runner.deploy.step("w", "check")
    runner.deploy.end("w")
    assert steps(runner.deploy.plan("w"), done=True) == ["check"]
    runner.now += datetime.timedelta(seconds=3601)
    assert steps(runner.deploy.plan("w"), done=True) == []


def test_a_run_of_another_machine_makes_it_anew(world: World, runner: Runner) -> None:
    """And says that this one did not end."""
    world.put(node("v"))
    runner.deploy.begin("w", "deploy")
    runner.deploy.step("w", "check")
    runner.deploy.end("w")
    runner.now += datetime.timedelta(seconds=1)
    begun = runner.deploy.begin("boot", "deploy")
    assert [text for text in begun["warnings"] if text.startswith("w: the run that was to deploy")]
    runner.deploy.end("boot")
    assert steps(runner.deploy.plan("w"), done=True) == []


# -- what goes wrong -------------------------------------------------------------------------------
def test_minions(world: World, runner: Runner) -> None:
    """Answers, lost jobs, failures there, states that fail, each with its sentence."""
    ask = runner.minions

    def fails(error: str, function: Callable[..., Any], *arguments: Any) -> None:
        with pytest.raises(Exception, match=error):
            function(*arguments)

    def explode() -> None:
        raise ValueError("etcd does not answer: at all")

    world.answers["w", "x.y"] = explode
    fails("^w, x.y: etcd does not answer: at all$", ask.value, "w", "x.y")
    fails("minion of w did not return from x.z: is the machine up", ask.value, "w", "x.z")
    world.answers["w", "state.apply"] = lambda *_, **__: ["Rendering SLS failed", "twice"]
    fails("w could not apply states: Rendering SLS failed twice", ask.apply, "w", "e")
    failed = copy.deepcopy(STATES)
    failed["b"].update(result=False, comment="One or more requisite failed: Do it")
    failed["a"].update(result=False, comment="no\nspace")
    world.answers["w", "state.apply"] = lambda *_, **__: failed
    fails(r'^w, state "Do it": no space \(and 1 more\)$', ask.apply, "w", "e")
    assert ask.summary("w", STATES) == {"changed": 1, "comment": "2 states, 1 changed"}


def test_a_minion_that_starts_anew_is_asked_again(world: World, runner: Runner) -> None:
    """Once: its package has changed in the middle of the highstate."""
    answers = iter([LOST, STATES, LOST, LOST])
    world.answers["w", "state.apply"] = lambda *_, **__: next(answers)
    assert runner.minions.apply("w", "e")["changed"] == 1
    assert [job[1] for job in world.jobs] == ["state.apply", "test.ping", "state.apply"]
    with pytest.raises(Exception, match=r"did not return from state\.apply, twice"):
        runner.minions.apply("w", "e")


def test_a_job_that_never_ends(world: World, runner: Runner) -> None:
    """Is bounded."""
    world.cmd_iter_no_block = lambda *_, **__: (None for _ in itertools.count())  # type: ignore[assignment]
    with pytest.raises(Exception, match=r"w has worked on x\.y for 0 s and goes on"):
        runner.minions.ask("w", "x.y", longest=0)


def test_a_minion_that_never_answers(world: World, runner: Runner) -> None:
    """Is told by its name."""
    with pytest.raises(Exception, match="The minion of v has not answered for 0 s"):
        runner.minions.await_answer("v", 0)


def test_a_minion_that_starts(world: World, runner: Runner) -> None:
    """Is asked again soon at first: it missed what it was asked before it listened."""
    answers, command, waited = iter([LOST] * 3 + [True]), world.cmd_iter_no_block, []

    def noted(*arguments: Any, **settings: Any) -> Any:
        waited.append(settings["timeout"] + settings["gather_job_timeout"])
        return command(*arguments, **settings)

    world.cmd_iter_no_block = noted  # type: ignore[method-assign]
    world.answers["w", "test.ping"] = lambda: next(answers)
    runner.minions.await_answer("w")
    assert waited == [2, 4, 10, 10]


def test_a_node_that_is_not_ready(world: World, runner: Runner) -> None:
    """In the words of the kubelet, after as long as states wait for a pod."""
    assert runner.deploy.READY == load("_states/metalk8s_etcd").PATIENCE
    runner.deploy.READY = 0
    world.answers["w", "state.apply"] = lambda *_, **__: STATES
    with pytest.raises(Exception, match="Node w is not ready after 0 s: it has not said anything"):
        runner.deploy.run("w")


def test_problems(world: World, runner: Runner) -> None:
    """Are all that there is, and nobody is kept from working by it."""
    assert "no Node x" in runner.deploy.begin("x", "deploy")["problems"][0]
    assert world.api.objects[LEASE]["spec"]["holderIdentity"] == ""
    with pytest.raises(Exception, match="no Node x"):
        runner.deploy.run("x")
    world.answers.pop(("boot", "metalk8s_etcd.status"))
    assert "etcd's members are not known" in runner.deploy.plan("w")["problems"][0]
    world.api.objects.pop(LEASE)
    assert (
        "has no Lease kube-system/metalk8s-orch"
        in runner.deploy.begin("w", "deploy")["problems"][0]
    )
    world.api.down = True
    for answer in (runner.deploy.plan("w"), runner.deploy.begin("w", "deploy")):
        assert "The API server: 10.0.0.1:6443 does not answer" in answer["problems"][0]
    assert "does not answer" in runner.deploy.step("w", "check")["failed"]
    assert "does not answer" in runner.deploy.end("w")["comment"]


def test_an_api_server_that_is_away_for_a_moment(world: World, runner: Runner) -> None:
    """What was done meanwhile is in the journal once it is back."""
    looks = itertools.count()

    def down() -> dict[str, Any]:
        world.api.down = True
        return {"problems": [], "facts": {}}

    def pause(_: float) -> None:
        world.api.down = next(looks) < 3

    world.answers["boot", "metalk8s_enrolment.check"] = lambda _: down()
    runner.deploy.begin("w", "deploy")
    runner.deploy.time = types.SimpleNamespace(monotonic=lambda: 0.0, sleep=pause)
    assert runner.deploy.step("w", "check")["changed"] == 0
    assert world.runs()[0]["steps"][0]["result"]["changed"] == 0
    assert next(looks) == 4


def test_check(world: World, runner: Runner) -> None:
    """What the bootstrap machine says; without one, that."""
    assert runner.deploy.check("w") == {"problems": [], "warnings": [], "facts": {"a": 1}}
    world.answers.pop(("boot", "metalk8s_enrolment.check"))
    assert "did not return" in runner.deploy.check("w")["problems"][0]
    world.api.objects.pop("/api/v1/nodes/boot")
    assert runner.deploy.check("w")["problems"] == ["No Node has the role bootstrap"]


# -- the journal -----------------------------------------------------------------------------------
def test_the_journal_is_bounded() -> None:
    """By number and by size; runs that did not end stay."""
    journal = load("_utils/metalk8s_journal")
    runs: dict[str, Any] = {}
    step = {"id": "check", "title": "Check", "done": False}

    def begin(number: int, node: str) -> str:
        about = {"node": node, "action": "deploy", "saltenv": "e", "machine": {}}
        now = f"2026-11-22T12:{number // 60:02}:{number % 60:02}Z"
        key: str = journal.begin(runs, {"steps": [step]}, about, now)
        return key

    begin(0, "open")
    for number in range(1, 61):
        result = {"changed": 0, "at": "2026-11-22T12:00:00Z"}
        journal.note(runs, begin(number, f"n{number}"), "check", result, "2026-11-22T12:00:00Z")
    kept = journal.read(journal.written({"metadata": {}}, runs))
    assert len(kept) == 50
    assert [run["node"] for run in kept.values()][:2] == ["open", "n12"]
    runs[begin(61, "n61")]["steps"][0]["title"] = "x" * (journal.SIZE - 10_000)
    kept = journal.read(journal.written({"metadata": {}}, runs))
    assert 2 < len(kept) < 50
    assert {"open", "n61"} <= {run["node"] for run in kept.values()}


def test_another_action_gives_the_first_one_up(world: World, runner: Runner) -> None:
    """Who removes what was half deployed, does not deploy it any more."""
    runner.deploy.begin("w", "deploy")
    runner.deploy.step("w", "check")
    runner.deploy.end("w")
    runner.now += datetime.timedelta(seconds=1)
    begun = runner.deploy.begin("w", "remove")
    assert steps(begun)[0] == "drain"
    assert [run["outcome"] for run in world.runs()] == ["given up", ""]
