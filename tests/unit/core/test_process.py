import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from buildchain.core import process
from buildchain.core.errors import CommandError, SpaceError, ToolError


def test_output_of_both_streams_is_returned(recorded):
    assert process.run(["sh", "-c", "echo out; echo err >&2"]) == "out\nerr\n"
    assert recorded.lines[0] == "$ sh -c 'echo out; echo err >&2'"
    assert set(recorded.lines[1:]) == {"out", "err"}


def test_lines_arrive_one_by_one():
    lines = []
    process.run(["printf", "a\\nb \\n"], on_line=lines.append)
    assert lines == ["a", "b"]


def test_bytes_that_are_no_utf8_are_replaced():
    assert process.run(["printf", "\\377x"]) == "�x"


def test_standard_input_is_closed():
    assert process.run(["cat"]) == ""


def test_what_is_no_program(tmp_path):
    with pytest.raises(ToolError, match="is not a program that can be run"):
        process.run([str(tmp_path)])


def test_a_failing_callback_kills_the_child(tmp_path):
    def fail(_line):
        raise KeyError

    started = time.monotonic()
    with pytest.raises(KeyError):
        process.run(["sh", "-c", "echo x; exec sleep 60"], on_line=fail)
    assert time.monotonic() - started < 30


def test_working_folder(tmp_path):
    assert process.run(["pwd"], cwd=tmp_path).strip() == str(tmp_path)


def test_missing_working_folder_is_a_bug(tmp_path):
    with pytest.raises(FileNotFoundError):
        process.run(["pwd"], cwd=tmp_path / "none")


def test_missing_program():
    with pytest.raises(ToolError, match="the program no-such-program is not there") as caught:
        process.run(["no-such-program", "x"])
    assert "setup" in caught.value.solution


def test_failure_carries_the_command_and_the_end_of_the_output():
    with pytest.raises(CommandError) as caught:
        process.run(["sh", "-c", "seq 100; exit 3"], solution="Count less.")
    assert caught.value.reason == "sh failed (exit status 3): sh -c 'seq 100; exit 3'"
    assert caught.value.details.splitlines() == [str(n) for n in range(71, 101)]
    assert caught.value.solution == "Count less."


def test_a_signal_is_named():
    with pytest.raises(CommandError, match=r"sh failed \(signal SIGKILL\)"):
        process.run(["sh", "-c", "kill -9 $$"])


@pytest.mark.parametrize(
    "message", ["cp: No space left on device", "ENOSPC: write", "disk quota exceeded"]
)
def test_a_full_disk_is_recognised(message):
    with pytest.raises(SpaceError, match="sh ran out of disk space") as caught:
        process.run(["sh", "-c", f"echo '{message}'; exit 1"])
    assert message in caught.value.details


def test_a_full_disk_in_the_middle_is_none():
    with pytest.raises(CommandError, match="sh failed"):
        process.run(["sh", "-c", "echo 'tests/test_disk.py::test[ENOSPC]'; seq 30; exit 1"])


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("HOME", "/h", True),
        ("DOCKER_HOST", "tcp://x", True),
        ("https_proxy", "http://p", True),
        ("HTTP_PROXY", "http://p", True),
        ("PIP_INDEX_URL", "x", True),
        ("XDG_RUNTIME_DIR", "/r", True),
        ("LANGUAGE", "de", False),
        ("SOURCE_DATE_EPOCH", "1", False),
        ("PYTHONPATH", "/x", False),
        ("GNUPGHOME", "/x", False),
        ("CFLAGS", "-O0", False),
    ],
)
def test_what_a_child_inherits(monkeypatch, name, value, passes):
    monkeypatch.setenv(name, value)
    assert (process.environment().get(name) == value) is passes


def test_language_zone_and_additions(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    child = process.environment({"EXTRA": "1", "TZ": "Europe/Paris"})
    assert child["LC_ALL"] == child["LANG"] == "C.UTF-8"
    assert (child["EXTRA"], child["TZ"]) == ("1", "Europe/Paris")
    assert process.environment()["TZ"] == "UTC"


def test_printable_can_be_pasted():
    argv = ["sh", "-c", "printf '%s|' \"$@\"", "sh", "a b", "$x", "it's", ""]
    printed = subprocess.run(
        ["sh", "-c", process.printable(argv)], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "a b|$x|it's||"


def test_detached_daemon_outlives_its_starter(tmp_path):
    log, pid_file = tmp_path / "the log", tmp_path / "pid"
    code = (
        "import sys; from pathlib import Path; from buildchain.core import process;"
        "print(process.detach(['sh', '-c', 'echo $$ > \"$0\"; echo started; exec sleep 60',"
        " sys.argv[2]], Path(sys.argv[1])))"
    )
    argv = [sys.executable, "-c", code, str(log), str(pid_file)]
    done = subprocess.run(
        argv, check=True, cwd=Path(process.__file__).parents[2], capture_output=True, text=True
    )
    assert done.stderr == ""
    pid = int(done.stdout)
    try:
        until(lambda: pid_file.exists() and pid_file.read_text().strip())
        assert int(pid_file.read_text()) == pid
        assert os.getsid(pid) == pid
        until(lambda: log.read_text() == "started\n")
        assert process.lives(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not process.lives(pid))


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_daemon_whose_log_cannot_be_written(tmp_path):
    with pytest.raises(CommandError) as caught:
        process.detach(["true"], tmp_path / "none" / "log")
    assert "log" in caught.value.details


def test_a_daemon_with_other_rights_has_its_log_from_them(fake_program, tmp_path):
    fake_program("sudo", "os.execvp(argv[1], argv[1:])")
    pid = process.detach(["echo", "hello"], tmp_path / "log", ["sudo", "-n"])
    until(lambda: not process.lives(pid))
    [argv] = fake_program.calls("sudo")
    assert argv[:3] == ["-n", "sh", "-c"]
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_child_that_ended_and_nobody_asked_after_does_not_live():
    child = subprocess.Popen(["true"])
    try:
        until(lambda: not process.lives(child.pid))
    finally:
        child.wait()


def test_a_program_that_signals_its_group_does_not_end_us():
    argv = ["sh", "-c", "echo disk trouble; kill -HUP 0"]
    with pytest.raises(CommandError, match="signal SIGHUP") as caught:
        process.run(argv, own_group=True)
    assert "disk trouble" in caught.value.details


def test_a_group_ends_with_what_was_interested_in_it(tmp_path):
    mark = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {mark}; echo ready; wait"

    def stop(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(["sh", "-c", script], on_line=stop, own_group=True)
    pid = int(mark.read_text())
    for _ in range(100):
        # An orphan that ended is a zombie until somebody collects it.
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the group lives on")


def test_ask_logs_neither_question_nor_answer(fake_program, recorded):
    fake_program("docker-credential-x", "sys.stdout.write(sys.stdin.read() + ' secret')")
    assert process.ask(["docker-credential-x", "get"], "r.example") == "r.example secret"
    assert recorded.lines == ["$ docker-credential-x get # what it says is not logged"]


def test_ask_a_program_that_has_no_answer(fake_program):
    fake_program("docker-credential-x", output="credentials not found", status=1)
    assert process.ask(["docker-credential-x", "get"], "r.example") == ""
    with pytest.raises(ToolError, match="docker-credential-y cannot be run"):
        process.ask(["docker-credential-y", "get"], "r.example")


def test_a_program_has_the_terminal(fake_program, recorded, tmp_path):
    fake_program("shell", "import os\nopen('was', 'w').write(os.environ['WHAT'])")
    process.hand_over(["shell", "-t"], cwd=tmp_path, env={"WHAT": "here"})
    assert (tmp_path / "was").read_text() == "here"
    assert recorded.lines == ["$ shell -t # has the terminal"]
    fake_program("shell", status=3)
    with pytest.raises(CommandError, match=r"shell failed \(exit status 3\)"):
        process.hand_over(["shell"], cwd=tmp_path, env={})
