"""Steps in real doit runs, on a graph of four: a > b > d, a > c."""

import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildchain.core import roots
from buildchain.core.errors import ContentError
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, clean, files_of_room, group, guarded, title
from tests.unit.running import namespace_of, run_doit


class World:
    """The settings that the actions of the little graph read."""

    def __init__(self, layout, root):
        self.layout, self.root = layout, root
        self.input = layout.root / "input.txt"
        self.input.write_text("one")
        self.config = {"b": 1}
        self.fingerprint = "f1"
        self.actions = {}

    def default(self, name):
        folder = self.layout.build / name
        text = self.input.read_text() if name == "a" else name
        write_whole(folder / "deep" / "out.txt", f"{text}{self.config.get(name, '')}")
        return Made((folder,), {"name": name})

    def step(self, name, **changes):
        action = self.actions.get(name, functools.partial(self.default, name))
        settings = {"inputs": (), "needs": ()}
        return Step(self.layout, f"_{name}", title("MAKE", name), action, **{**settings, **changes})

    def tasks(self):
        steps = [
            self.step("a", inputs=(self.input,)),
            self.step("b", needs=("_a",), config={"value": self.config["b"]}),
            self.step("c", needs=("_a",), fingerprint=lambda: self.fingerprint),
            self.step("d", needs=("_b",)),
        ]
        yield from (step.task() for step in steps)
        yield group("everything", "Make everything.", steps)

    def run(self, *argv):
        namespace = namespace_of(self.layout.build, self.tasks)
        return run_doit(self.root, namespace, *(argv or ("everything",)))


@pytest.fixture
def world(layout, root):
    return World(layout, root)


@pytest.fixture
def built(world):
    result = world.run()
    assert (result.status, result.executed) == (0, ["a", "b", "c", "d"]), result.out
    return world


def test_a_second_run_executes_nothing(built):
    result = built.run()
    assert result.status == 0
    assert result.executed == []
    assert result.marked("--") == ["a", "b", "c", "d"]


def test_a_changed_input_runs_exactly_what_depends_on_it(built):
    built.input.write_text("two")
    assert built.run().executed == ["a", "b", "c"], "d: b came out the same"
    assert built.run().executed == []


def test_an_input_that_is_only_touched_runs_nothing(built):
    os.utime(built.input, (1, 1))
    assert built.run().executed == []


def test_changed_config(built):
    built.config["b"] = 2
    assert built.run().executed == ["b", "d"]


def test_changed_fingerprint(built):
    built.fingerprint = "f2"
    assert built.run().executed == ["c"]
    assert built.run().executed == []


@pytest.mark.parametrize("damage", ["delete", "truncate", "receipt"])
def test_a_damaged_output_is_made_again(built, damage):
    output = built.layout.build / "b" / "deep" / "out.txt"
    if damage == "delete":
        output.unlink()
    elif damage == "truncate":
        output.write_text("")
    else:
        built.layout.receipt("_b").unlink()
    assert built.run().executed == ["b"]
    assert output.read_text() == "b1"


def test_threads_give_the_same(world):
    result = world.run("-n", "4", "everything")
    assert result.status == 0
    assert sorted(result.executed) == ["a", "b", "c", "d"]
    assert world.run("-n", "4", "everything").executed == []


def failing(error):
    def action():
        raise error

    return action


def test_a_failure_is_told_in_words_and_leaves_no_receipt(built):
    error = ContentError("b is wrong", solution="Mend b.", details="tool said\nno")
    built.actions["b"] = failing(error)
    built.config["b"] = 2
    result = built.run()
    assert result.status == 1
    assert result.marked("**") == ["b"]
    assert "ContentError: b is wrong\n\n    | tool said\n    | no\n" in result.out
    assert "  What to do: Mend b." in result.out
    assert result.out.index("**") < result.out.index("ContentError"), "failures come at the end"
    assert "Traceback" not in result.out + result.err
    assert not built.layout.receipt("_b").exists()
    assert str(built.layout.build / "build.log") in result.out
    del built.actions["b"]
    assert built.run().executed == ["b", "d"]


def test_independent_tasks_go_on_when_asked(built):
    built.actions["b"] = failing(ContentError("wrong"))
    built.config["b"] = 2
    built.fingerprint = "f2"
    result = built.run("--continue", "everything")
    assert result.status != 0
    assert result.executed == ["c"]


def test_a_bug_keeps_its_traceback(built):
    built.actions["b"] = failing(KeyError("not ours"))
    built.config["b"] = 2
    result = built.run()
    assert result.status == 2
    assert "Traceback" in result.out
    assert "KeyError: 'not ours'" in result.out


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, "SpaceError"), (errno.EDQUOT, "SpaceError"), (errno.EACCES, None)],
)
def test_a_full_disk_is_told_in_words(number, expected):
    call = guarded(failing(OSError(number, os.strerror(number), "/b/file")))
    if expected is None:
        with pytest.raises(OSError, match="Permission denied"):
            call()
        return
    failure = call()
    assert f"{expected}: no space left for /b/file" in str(failure.message)
    assert "BUILD_ROOT" in str(failure.message)


def test_clean_removes_what_receipts_name_and_no_more(built):
    foreign = built.layout.build / "a" / "mine.txt"
    foreign.write_text("the user's")
    result = built.run("clean", "everything")
    assert result.status == 0
    left = [p for p in built.layout.build.rglob("*") if p.is_file() and p.name != ".doit.json"]
    assert [p.name for p in left if p.name not in ("build.log", ".lock", roots.MARK)] == [
        "mine.txt"
    ]
    assert [p for p in built.layout.build.rglob("*") if p.is_dir() and not any(p.iterdir())] == []
    assert "removing" in result.out
    foreign.unlink()
    assert built.run().executed == ["a", "b", "c", "d"]


def test_clean_as_a_dry_run_removes_nothing(built):
    before = sorted(built.layout.build.rglob("*"))
    result = built.run("clean", "-n", "everything")
    assert [p for p in before if not p.exists()] == []
    assert str(built.layout.build / "d" / "deep" / "out.txt") in result.out
    assert built.run().executed == []


def test_clean_of_one_task(built):
    built.run("clean", "_b")
    assert built.run().executed == ["b"]


def test_clean_of_what_was_never_made(layout, capsys):
    clean(layout, [layout.receipt("_x")], dryrun=False)
    layout.receipt("_x").parent.mkdir()
    layout.receipt("_x").write_text("{")
    clean(layout, [layout.receipt("_x")], dryrun=False)
    assert capsys.readouterr().out == f"removing {layout.receipt('_x')}\n"
    assert not layout.receipt("_x").exists()


def test_clean_removes_the_folder_a_step_owns(built):
    folder = built.layout.build / "scratch" / "cache"
    write_whole(folder / "file", "x")
    owner = functools.partial(built.step, "owner", owns=folder)
    namespace = namespace_of(built.layout.build, lambda: [owner().task()])
    assert run_doit(built.root, namespace, "_owner").executed == ["owner"]
    result = run_doit(built.root, namespace, "clean", "-n", "_owner")
    assert f"removing {folder}" in result.out
    assert folder.exists()
    result = run_doit(built.root, namespace, "clean", "_owner")
    assert str(folder) in result.out
    assert "0x" not in result.out, "no address of a function"
    assert not folder.parent.exists()


def test_a_step_runs_again_when_its_condition_does_not_hold(world):
    holds = [True]
    step = functools.partial(world.step, "x", holds=lambda: holds[0])
    namespace = namespace_of(world.layout.build, lambda: [step().task()])
    assert run_doit(world.root, namespace, "_x").executed == ["x"]
    assert run_doit(world.root, namespace, "_x").executed == []
    holds[0] = False
    assert run_doit(world.root, namespace, "_x").executed == ["x"]


def test_task_dictionary(layout):
    step = Step(
        layout, "_image_build:pause", title("BUILD", "pause"), Made,
        inputs=(Path("/i"),), needs=("_a",), after=("check_for:x",),
    )  # fmt: skip
    task = step.task()
    assert (task["basename"], task["name"]) == ("_image_build", "pause")
    assert task["file_dep"] == [Path("/i"), layout.receipt("_a")]
    assert task["targets"] == [layout.receipt("_image_build:pause")]
    assert task["task_dep"] == ["check_for:x"]
    assert task["doc"] == "BUILD          pause"
    assert "name" not in Step(layout, "_a", "A", Made).task()


def in_a_room(world, action):
    """Let an action be one of a room's, whose files tests may change."""
    for name in ("steps.py", "build.py", "notes.txt"):
        write_whole(world.layout.root / "buildchain/room" / name, name)
    action.__module__ = "buildchain.room.build"
    return functools.partial(functools.partial(action, "a"))


def touch_code(folder, name):
    (folder / name).write_text("something else")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda room: None, []),
        (lambda room: touch_code(room, "build.py"), ["a"]),
        (lambda room: touch_code(room, "steps.py"), ["a"]),
        (lambda room: touch_code(room, "new.py"), ["a"]),
        (lambda room: (room / "steps.py").unlink(), ["a"]),
        (lambda room: touch_code(room, "notes.txt"), []),
        (lambda room: touch_code(room.parent, "other.py"), []),
    ],
    ids=["nothing", "module", "steps", "new module", "module that is gone", "no code", "elsewhere"],
)
def test_the_code_of_the_room_is_an_input(world, change, expected):
    room = world.layout.root / "buildchain/room"
    world.actions["a"] = in_a_room(world, lambda name: world.default(name))
    assert world.run().status == 0
    assert "a" not in world.run().executed
    change(room)
    files_of_room.cache_clear()
    assert [name for name in world.run().executed if name == "a"] == expected


DODO = """
import os, time
from pathlib import Path
from buildchain.core import report
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, title

HERE = Path(__file__).parent
LAYOUT = Layout(HERE, HERE / "build", HERE / "cache", "demo")
DOIT_CONFIG = {"reporter": report.BuildReporter, "backend": "whole_json",
               "dep_file": str(LAYOUT.build / ".doit.json"), "par_type": "thread"}

def make(name):
    write_whole(LAYOUT.build / name, name)
    if name == "two" and "SLOW" in os.environ:
        (HERE / "started").touch()
        time.sleep(60)
    return Made((LAYOUT.build / name,))

def task_all():
    for name, needs in (("one", ()), ("two", ("_one",)), ("three", ("_two",))):
        yield Step(LAYOUT, f"_{name}", title("MAKE", name), lambda n=name: make(n),
                   needs=needs).task()
"""


@pytest.fixture
def project(root, tmp_path):
    """Return a folder with a dodo file of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "dodo.py").write_text(DODO)
    (folder / "pyproject.toml").write_text((root / "pyproject.toml").read_text())
    return folder


def start(root, project, *argv, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "buildchain", *argv],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_finished_tasks_are_not_run_again_after_a_kill(root, project, number):
    with start(root, project, SLOW="1") as child:
        deadline = time.monotonic() + 30
        while not (project / "started").exists():
            assert time.monotonic() < deadline, child.communicate()
            time.sleep(0.02)
        child.send_signal(number)
        out, _ = child.communicate(timeout=30)
    if number == signal.SIGINT:
        assert child.returncode == 130
        assert out.endswith("Interrupted; the same command goes on where it stopped.\n")
    else:
        assert child.returncode == -signal.SIGKILL
    assert not (project / "build" / "receipts" / "two.json").exists()
    with start(root, project) as child:
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, out
    assert [line[:2] + line.split()[2] for line in out.splitlines()] == [
        "--one", "..two", "..three",
    ]  # fmt: skip
    json.loads((project / "build" / ".doit.json").read_text())
    assert [p.name for p in (project / "build").glob(".*.part")] == []
