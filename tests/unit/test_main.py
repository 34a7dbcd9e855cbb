"""``python -m buildchain``, which is what ``./doit.sh`` runs."""

import os
import signal
import subprocess
import sys
import time

import pytest


def command(*arguments):
    return [sys.executable, "-m", "buildchain", *arguments]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_for_the_command_users_type(root, require, shell):
    argv = command("tabcompletion", "--shell", shell, "--hardcode-tasks")
    script = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout
    assert "__main__" not in script
    assert "doit.sh" in script
    assert "populate_iso" in script
    if shell == "bash":
        require("bash")
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_an_unknown_task_is_an_error_that_names_the_command(root):
    done = subprocess.run(
        command("nonsense"), cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert 'Invalid parameter: "nonsense"' in done.stderr
    assert "doit.sh list" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_stops_reading(root):
    lines = f"{sys.executable} -m buildchain list --all --private | head -n 1"
    done = subprocess.run(lines, shell=True, cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_interruption_is_told_in_a_sentence(tmp_path, root):
    (tmp_path / "dodo.py").write_text(
        "import pathlib, time\n"
        "def wait():\n"
        "    pathlib.Path('began').touch()\n"
        "    time.sleep(60)\n"
        "def task_wait():\n"
        "    return {'actions': [wait]}\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen(
        command("wait"), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted; the same command goes on where it stopped." in said
    assert "Traceback" not in said
