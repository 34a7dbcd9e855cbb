"""Runs: begun, carried out, killed and gone on with, against an API server and minions' answers."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import pathlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .loader import load
from .test_kubernetes import RESOURCES, Cluster
from .test_kubernetes import cluster as cluster
from .test_kubernetes import kubernetes as kubernetes

JOURNAL = "/api/v1/namespaces/kube-system/configmaps/metalk8s-journal"
LEASES = "/apis/coordination.k8s.io/v1"
LEASE = f"{LEASES}/namespaces/kube-system/leases/metalk8s-orchestration"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
STATES = {
    "a": {"__run_num__": 0, "__id__": "Do it", "result": True, "changes": {"x": 1}, "comment": ""},
    "b": {"__run_num__": 1, "__id__": "Have it", "result": True, "changes": {}, "comment": ""},
}
UTILITIES = ("apiserver", "journal", "minions", "nodes", "plan", "turn")
DEPLOYMENT = ["check", "enrol", "answer", "modules", "highstate", "ready"]


class KilledError(BaseException):
    """The process is gone: nothing of it is caught, nothing is put in order."""


def node(name: str, *roles: str, ready: bool = True, version: str = "2.4.0") -> dict[str, Any]:
    labels = {f"node-role.kubernetes.io/{role}": "" for role in roles}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "metalk8s.scality.com/version": version}},
        "spec": {},
        "status": {"conditions": [READY] if ready else []},
    }


class World:
    """An API server with objects, and minions that answer from a table."""

    def __init__(self, api: Cluster) -> None:
        self.api = api
        self.jobs: list[tuple[str, str, list[Any]]] = []
        self.members = [member("boot")]
        self.answers: dict[tuple[str, str], Callable[..., Any]] = {
            ("boot", "metalk8s_etcd.status"): lambda: self.members,
            ("boot", "metalk8s_enrolment.check"): lambda _: {"problems": [], "facts": {"a": 1}},
            ("boot", "metalk8s_enrolment.enrol"): lambda _: {"changed": True, "comment": "in"},
            ("boot", "metalk8s_enrolment.forget"): lambda _: {"changed": True, "comment": "out"},
            ("boot", "metalk8s_drain.drain"): lambda _: {"changed": 2, "comment": "drained"},
            ("boot", "metalk8s_drain.forget_node"): self.forget_node,
        }
        for name in ("boot", "w"):
            self.answers[name, "test.ping"] = lambda: True
            self.answers[name, "saltutil.sync_all"] = lambda saltenv: {"modules": ["modules.x"]}
            self.answers[name, "state.apply"] = self.apply
        self.put(node("boot", "bootstrap"))
        self.put(node("w", ready=False))
        api.objects[JOURNAL] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "j", "namespace": "kube-system", "resourceVersion": "0"},
        }
        api.objects[JOURNAL]["metadata"]["name"] = "metalk8s-journal"
        api.objects[LEASE] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "metalk8s-orchestration",
                "namespace": "kube-system",
                "resourceVersion": "0",
            },
            "spec": {},
        }

    def put(self, one: dict[str, Any]) -> None:
        self.api.objects[f"/api/v1/nodes/{one['metadata']['name']}"] = one

    def forget_node(self, name: str) -> dict[str, Any]:
        gone = self.api.objects.pop(f"/api/v1/nodes/{name}", None)
        return {"changed": bool(gone), "comment": ""}

    def apply(self, names: str = "", **options: Any) -> Any:
        assert options == {"saltenv": "metalk8s-2.4.0", "queue": True}
        if not names:
            self.put(node("w"))
        return copy.deepcopy(STATES)

    def runs(self) -> list[dict[str, Any]]:
        data = self.api.objects[JOURNAL].get("data", {})
        return [json.loads(data[key]) for key in sorted(data)]

    def did(self, function: str) -> int:
        return sum(job[1] == function for job in self.jobs)

    # -- what Salt's LocalClient is -------------------------------------------------------------
    def cmd_iter_no_block(
        self, targets: list[str], function: str, arguments: list[Any], **settings: Any
    ) -> Iterator[Any]:
        assert settings["tgt_type"] == "list"
        [minion] = targets
        self.jobs.append((minion, function, arguments))
        yield None
        answer = self.answers.get((minion, function))
        if answer is None:
            return
        try:
            said = answer(*arguments, **settings["kwarg"])
        except Exception as error:
            text = "The minion function caused an exception: Traceback (most recent call last):\n"
            yield {minion: {"ret": f"{text}  x\n{type(error).__name__}: {error}\n", "retcode": 1}}
            return
        if said is not LOST:
            yield {minion: {"ret": said, "retcode": 0}}

    def destroy(self) -> None:
        pass


LOST = object()


def member(name: str, **more: Any) -> dict[str, Any]:
    return {"id": "1", "name": name, "healthy": True, "learner": False, "peers": [], **more}


@pytest.fixture
def world(
    monkeypatch: pytest.MonkeyPatch, kubernetes: Any, cluster: Cluster, tmp_path: pathlib.Path
) -> World:
    """Stand in for Salt's own packages, which these modules import."""
    found = World(cluster)
    monkeypatch.setitem(
        RESOURCES, LEASES, [{"name": "leases", "kind": "Lease", "namespaced": True}]
    )
    functions = {
        f"metalk8s_kubernetes.{name}": getattr(kubernetes, name)
        for name in ("get", "list_objects", "replace", "why_not_ready")
    }

    class CommandExecutionError(Exception):
        pass

    def modules(opts: Any, whitelist: list[str]) -> Any:
        assert "metalk8s_kubernetes" in whitelist
        return functions

    fakes = {
        "salt": {},
        "salt.client": {"get_local_client": lambda mopts: found},
        "salt.exceptions": {"CommandExecutionError": CommandExecutionError},
        "salt.loader": {"minion_mods": modules},
    }
    for name, content in fakes.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            setattr(sys.modules["salt"], name.partition(".")[2], module)
    return found


class Runner:
    """The runners as one process of ``salt-run`` has them."""

    def __init__(self, kubeconfig: str) -> None:
        loaded = {name: load(f"_utils/metalk8s_{name}", context={}) for name in UTILITIES}
        loaded["apiserver"].KUBECONFIG = kubeconfig
        loaded["minions"].PAUSE = 0
        self.minions, self.turn = loaded["minions"], loaded["turn"]
        utilities = {
            f"metalk8s_{name}.{function}": getattr(module, function)
            for name, module in loaded.items()
            for function in dir(module)
            if isinstance(getattr(module, function), types.FunctionType)
        }
        self.deploy = load("_runners/metalk8s_deploy", utils=utilities)
        self.turn.PAUSE = self.deploy.PAUSE = 0.01
        self.now = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)
        self.turn._now = self.deploy._now = lambda: self.now


@pytest.fixture
def runner(world: World, kubernetes: Any) -> Runner:
    return Runner(kubernetes.ADMINISTRATOR)


def steps(answer: dict[str, Any], done: bool | None = None) -> list[str]:
    return [one["id"] for one in answer["steps"] if done is None or one["done"] is done]


# -- one run ---------------------------------------------------------------------------------------
def test_deployment(world: World, runner: Runner) -> None:
    """Planned, begun, done and ended; the journal has it all."""
    deploy = runner.deploy
    planned = deploy.plan("w")
    assert (planned["problems"], steps(planned)) == ([], [*DEPLOYMENT, "neighbours-boot"])
    assert world.runs() == []
    assert deploy.begin("w", "deploy") == planned
    assert [deploy.step("w", one) for one in DEPLOYMENT] == [
        {"changed": 0, "comment": ""},
        {"changed": 1, "comment": "in"},
        {"changed": 0, "comment": "The minion of w answers"},
        {"changed": 1, "comment": ""},
        {"changed": 1, "comment": "2 states, 1 changed"},
        {"changed": 0, "comment": "Node w is ready"},
    ]
    [run] = world.runs()
    assert (run["ended"], run["saltenv"]) == ("", "metalk8s-2.4.0")
    assert deploy.step("w", "neighbours-boot")["changed"] == 1
    assert world.jobs[-1] == ("boot", "state.apply", ["metalk8s.neighbours"])
    assert deploy.end("w") == {"left": 0, "comment": "All is done"}
    [run] = world.runs()
    assert (run["begun"], run["outcome"]) == ("2026-11-22T12:00:00Z", "whole")
    assert [one["result"]["changed"] for one in run["steps"]] == [0, 1, 0, 1, 1, 0, 1]
    assert world.api.objects[LEASE]["spec"]["holderIdentity"] == ""


def test_all_in_one_go(world: World, runner: Runner) -> None:
    """And again, since a run that ended is no reason to leave anything out."""
    assert runner.deploy.run("w") == {"steps": 7, "changed": 4}
    runner.now += datetime.timedelta(seconds=5)
    assert runner.deploy.run("w") == {"steps": 7, "changed": 4}
    assert [run["outcome"] for run in world.runs()] == ["whole", "whole"]
    assert world.did("metalk8s_enrolment.enrol") == 2


def test_removal(world: World, runner: Runner) -> None:
    """Of what was deployed; afterwards nobody knows it."""
    world.put(node("w"))
    assert runner.deploy.run("w", "remove") == {"steps": 5, "changed": 5}
    assert world.jobs[2:4] == [
        ("w", "state.apply", ["metalk8s.machine.absent"]),
        ("boot", "metalk8s_drain.forget_node", ["w"]),
    ]
    assert "no Node w" in runner.deploy.plan("w", "remove")["problems"][0]


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
    assert runner.deploy.run("w") == {"steps": 7, "changed": 4}
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
    assert deploy.end("w") == {"left": 6, "comment": "6 steps are left"}


@pytest.mark.parametrize("killed", range(1, 60))
def test_killed_anywhere(world: World, runner: Runner, kubernetes: Any, killed: int) -> None:
    """At each call of the API server or a minion: the next run does the rest, and only that."""
    count = itertools.count(1)
    answer, command = world.api.answer, world.cmd_iter_no_block

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread() and next(count) == killed:
                raise KilledError
            return function(*arguments, **options)

        return call

    world.api.answer = counted(answer)  # type: ignore[method-assign]
    world.cmd_iter_no_block = counted(command)  # type: ignore[method-assign]
    died = False
    try:
        runner.deploy.run("w")
    except KilledError:
        died = True
    world.api.answer, world.cmd_iter_no_block = answer, command  # type: ignore[method-assign]
    assert died == (next(count) > killed)
    after = Runner(kubernetes.ADMINISTRATOR)
    after.now = runner.now + datetime.timedelta(seconds=61)
    done = steps(after.deploy.plan("w"), done=True)
    assert done == [*DEPLOYMENT, "neighbours-boot"][: len(done)]
    checks = world.did("metalk8s_enrolment.check")
    assert after.deploy.run("w")["steps"] == 7
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


# -- two runs --------------------------------------------------------------------------------------
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


def test_a_node_that_is_not_ready(world: World, runner: Runner) -> None:
    """In the words of the kubelet."""
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


def test_a_member_that_has_not_started_has_an_address(world: World, runner: Runner) -> None:
    """Its name is its machine's, so the machine's own deployment goes on with it."""
    one = node("w", "etcd", ready=False)
    one["metadata"]["annotations"] = {"metalk8s.scality.com/ssh-host": "10.0.0.7"}
    world.put(one)
    peers = ["https://10.0.0.7:2380"]
    world.members = [member("boot"), member("", learner=True, healthy=False, peers=peers)]
    assert runner.deploy.plan("w")["problems"] == []
    world.members[1]["peers"] = ["https://10.0.0.70:2380"]
    assert "the learner 1, which" in runner.deploy.plan("w")["problems"][0]


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
