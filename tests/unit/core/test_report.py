import fcntl
import io
import json
import os
import re
import struct
import termios
import time
from types import SimpleNamespace

import pytest
from doit.globals import Globals

from buildchain.core import events, report
from buildchain.core.build_root import take
from buildchain.core.errors import BuildError, ConfigError, ContentError
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step, title
from tests.unit.running import namespace_of, run_doit

ALIGNED = re.compile(r"^(?:\.\.|\*\*)  .{60} +[0-9]+\.[0-9] s$|^(?:--|!!)  \S.*$")


@pytest.fixture
def run(layout, root):
    """Run a graph of a good, an optional bad and a silent group task."""
    behaviour = {"bad": False}

    def good():
        events.note("good is at work")
        events.transcript("a line of a tool")
        write_whole(layout.build / "good", "x")
        return Made((layout.build / "good",))

    def bad():
        if behaviour["bad"]:
            raise ContentError("it is bad", solution="Make it good.")
        return Made()

    def tasks():
        steps = [
            Step(layout, "_good", title("MAKE", "good"), good),
            Step(layout, "_bad", title("MAKE", "bad"), bad),
        ]
        yield from (step.task() for step in steps)
        yield {"basename": "group", "actions": None, "task_dep": ["_good", "_bad"]}

    def call(*argv, fails=False, **config):
        behaviour["bad"] = fails
        namespace = namespace_of(layout.build, tasks)
        namespace["DOIT_CONFIG"] |= config
        return run_doit(root, namespace, *argv)

    return call


def test_lines_are_aligned_and_plain_without_a_terminal(run):
    first = run("group")
    lines = first.out.splitlines()
    assert lines[0] == "    good is at work"
    assert [line[:2] for line in lines[1:]] == ["..", ".."]
    assert all(ALIGNED.match(line) for line in lines[1:]), lines
    assert len({line.rindex(" s") for line in lines[1:]}) == 1
    assert "\033" not in first.out
    second = run("group")
    assert second.out == "--  MAKE           good\n--  MAKE           bad\n"


def test_ignored_tasks(run):
    run("group")
    run("ignore", "_good")
    assert run("group").out.splitlines()[0] == "!!  MAKE           good"


def test_failures_come_at_the_end_with_reason_and_remedy(run, layout):
    result = run("-c", "_bad", "_good", fails=True)
    lines = result.out.splitlines()
    assert [line[:2] for line in lines[:3]] == ["**", "  ", ".."]
    tail = "\n".join(lines[3:])
    assert tail == (
        "\n_bad\nContentError: it is bad\n  What to do: Make it good.\n"
        f"\nThe whole transcript is in {layout.build / 'build.log'}."
    )


def test_transcript(run, layout):
    run("group", fails=True)
    text = (layout.build / "build.log").read_text()
    for line in ("== _good", "good is at work", "a line of a tool", "== _bad failed"):
        assert line in text, line
    assert "Make it good." in text
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in text.splitlines()[:3])
    run("group")
    assert "== _good" in (layout.build / "build.log.1").read_text()


def test_json_is_valid(run, root):
    result = run("group", reporter="json")
    document = json.loads(result.out)
    assert {task["name"]: task["result"] for task in document["tasks"]} == {
        "_good": "success", "_bad": "success", "group": "success",
    }  # fmt: skip
    document = json.loads(run("group", reporter="json").out)
    assert {task["result"] for task in document["tasks"]} == {"up-to-date", "success"}


def test_our_json_keeps_the_transcript(run, layout):
    result = run("group", reporter=report.JsonReporter, fails=True)
    document = json.loads(result.out)
    assert {task["name"]: task["result"] for task in document["tasks"]}["_bad"] == "fail"
    assert "== _bad failed" in (layout.build / "build.log").read_text()
    state = json.loads((layout.build / ".doit.json").read_text())
    assert "_good" in state


def test_a_build_root_that_cannot_be_written(run, layout):
    (layout.build / "build.log").mkdir()
    (layout.build / "build.log.1").write_text("in the way")
    result = run("group")
    assert result.status == 2
    assert "cannot write" in result.out + result.err
    assert "Traceback" not in result.out + result.err


class Terminal:
    """A pseudo terminal to draw on."""

    def __init__(self):
        self.master, slave = os.openpty()
        self.resize(100)
        os.set_blocking(self.master, False)
        self.stream = os.fdopen(slave, "w", encoding="utf-8")

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def text(self):
        self.stream.flush()
        time.sleep(0.01)
        try:
            return os.read(self.master, 65536).decode()
        except BlockingIOError:
            return ""

    def close(self):
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal():
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture(autouse=True)
def _no_database():
    yield
    Globals.dep_manager = None


def task(name):
    return SimpleNamespace(name=name, actions=[1], title=lambda: title("MAKE", name))


def failed(name):
    return SimpleNamespace(report=True, get_msg=lambda: f"{name} is bad")


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False), ("", True)])
def test_colours_only_where_they_are_welcome(terminal, monkeypatch, no_color, coloured):
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    reporter = report.BuildReporter(terminal.stream, {})
    reporter.initialize({}, [])
    try:
        reporter.execute_task(task("one"))
        reporter.add_success(task("one"))
        reporter.skip_uptodate(task("two"))
        reporter.skip_ignore(task("three"))
        reporter.add_failure(task("four"), failed("four"))
    finally:
        reporter.complete_run()
    text = terminal.text()
    for code in ("32", "2", "33", "31"):
        assert (f"\033[{code}m" in text) is coloured
    plain = re.sub(r"\033\[[0-9;]*[mK]|\r", "", text)
    for line in ("..  MAKE           one", "--  MAKE           two", "!!  MAKE           three",
                 "**  MAKE           four", "four is bad"):  # fmt: skip
        assert line in plain


def test_status_line_on_a_terminal(terminal):
    status = report.Status(terminal.stream, is_terminal=True)
    try:
        with status.guard:
            status.start("a", title("BUILD IMAGE", "etcd"))
            events.LOGGER.addHandler(status)
            events.LOGGER.setLevel("DEBUG")
            events.progress("packages", 3, 7, "files")
            status._beat(time.monotonic() + 5)
        drawn = terminal.text()
        assert re.search(r"    BUILD IMAGE etcd \([56] s\): packages 3/7 files", drawn)
        with status.guard:
            events.note("something stays")
        assert report.CLEAR_LINE + "    something stays" in terminal.text()
        assert 0 <= status.end("a") < 30
        assert status.end("unknown") == pytest.approx(0, abs=1)
        with status.guard:
            status._beat(time.monotonic())
        assert terminal.text() == "", "nothing runs, nothing is drawn"
    finally:
        events.LOGGER.removeHandler(status)
        status.close()


def test_a_status_line_is_no_longer_than_the_terminal(terminal):
    terminal.resize(40)
    status = report.Status(terminal.stream, is_terminal=True)
    try:
        with status.guard:
            status.start("a", "x" * 200)
            status._beat(time.monotonic())
        assert len(terminal.text()) == 39
    finally:
        status.close()


def test_signs_of_life_without_a_terminal():
    stream = io.StringIO()
    status = report.Status(stream, is_terminal=False)
    try:
        with status.guard:
            status.start("a", "COMPILE kubernetes")
            now = time.monotonic()
            status._beat(now + 1)
            assert stream.getvalue() == ""
            status._beat(now + report.HEARTBEAT_EVERY + 1)
            assert re.fullmatch(r"    COMPILE kubernetes \(31 s\)\n", stream.getvalue())
    finally:
        status.close()


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (None, ""),
        (events.Progress("a", 1), ": a 1"),
        (events.Progress("a", 1, 3), ": a 1/3"),
        (events.Progress("a", 1, 3, "%"), ": a 1/3 %"),
    ],
)
def test_progress_text(progress, text):
    assert report._progress_text(progress) == text


def test_lines_of_programs_that_speak_for_themselves():
    stream = io.StringIO()
    status = report.Status(stream, is_terminal=False)
    events.LOGGER.addHandler(status)
    events.LOGGER.setLevel("DEBUG")
    try:
        events.echo("3 passed")
        events.transcript("not shown")
    finally:
        events.LOGGER.removeHandler(status)
        status.close()
    assert stream.getvalue() == "3 passed\n"


def test_refuse():
    stream = io.StringIO()
    assert report.refuse(ConfigError("x=y: expected z"), stream) == 2
    assert stream.getvalue().startswith("ConfigError: x=y: expected z\n  What to do: ")


def test_errors_of_doit_itself_are_shown():
    stream = io.StringIO()
    reporter = report.BuildReporter(stream, {})
    reporter.runtime_error("no such task")
    reporter.cleanup_error(SimpleNamespace(get_msg=lambda: "teardown failed"))
    reporter.get_status(None)
    reporter.teardown_task(None)
    reporter.skip_ignore(task("x"))
    reporter.add_failure(task("y"), SimpleNamespace(report=False, get_msg=lambda: "unmet"))
    reporter.complete_run()
    assert stream.getvalue() == "!!  MAKE           x\n\nno such task\n\nteardown failed\n"


def test_one_build_at_a_time_in_a_build_root(tmp_path):
    lock = take(tmp_path)
    with pytest.raises(
        BuildError, match=rf"another build is at work in .* \(process {os.getpid()}\)"
    ):
        take(tmp_path)
    lock.close()
    take(tmp_path).close()


def test_what_a_killed_build_was_making_is_cleared_away(tmp_path):
    write_whole(tmp_path / "tmp" / "image-x" / "half", "")
    take(tmp_path).close()
    assert not (tmp_path / "tmp").exists()


def test_a_second_build_is_refused_and_forgets_nothing(run, layout):
    assert run("group").status == 0
    before = (layout.build / ".doit.json").read_bytes()
    with take(layout.build):
        result = run("group")
    assert result.status == 2
    assert "another build is at work" in result.out + result.err
    assert (layout.build / ".doit.json").read_bytes() == before


def test_summaries_come_last_and_once(layout, root):
    """Of each subject what was told last, line by line."""

    def good():
        events.closing("look here")
        events.summary("tests", "one of them")
        events.summary("tests", "all of them\nare well")
        return Made()

    def tasks():
        yield Step(layout, "_good", title("MAKE", "good"), good).task()

    lines = run_doit(root, namespace_of(layout.build, tasks), "_good").out.splitlines()
    assert lines[0] == "    look here"
    assert lines[2:] == ["    look here", "    all of them", "    are well"]
