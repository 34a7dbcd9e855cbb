import subprocess
import sys
from pathlib import Path

import pytest

from buildchain.core.errors import BuildError, CommandError
from buildchain.locks import python as locks_python
from buildchain.machine import python
from buildchain.machine.python import interpreter
from buildchain.quality import checkers


def test_has_installed(tmp_path):
    lock, environment = tmp_path / "r.txt", tmp_path / "venv"
    lock.write_text("a==1\n")
    environment.mkdir()
    assert not checkers.has_installed(environment, lock)
    (environment / "r.txt").write_text("a==2\n")
    assert not checkers.has_installed(environment, lock)
    (environment / "r.txt").write_text("a==1\n")
    assert checkers.has_installed(environment, lock)


def fake_interpreter(fake_program, environment: Path, **settings: object) -> None:
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(fake_program("fake-python", **settings))


def test_install_stamps(fake_program, tmp_path):
    lock, environment = tmp_path / "r.txt", tmp_path / "venv"
    lock.write_text("a==1\n")
    fake_interpreter(fake_program, environment)
    checkers.install(environment, lock)
    assert checkers.has_installed(environment, lock)
    assert fake_program.calls("fake-python") == [
        ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps",
         "--require-hashes", "--requirement", str(lock)]
    ]  # fmt: skip


def test_failed_install_leaves_no_stamp(fake_program, tmp_path):
    lock, environment = tmp_path / "r.txt", tmp_path / "venv"
    lock.write_text("a==1\n")
    fake_interpreter(fake_program, environment, output="no route to host\n", status=1)
    with pytest.raises(BuildError, match=r"r\.txt cannot be installed") as caught:
        checkers.install(environment, lock)
    assert "no route" in caught.value.details
    assert not checkers.has_installed(environment, lock)


def test_files_are_tracked_or_new(tmp_path, require):
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("b.sh", "a.sh", "c.py", "ignored.sh", "gone.sh"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("ignored.sh\n")
    subprocess.run(["git", "add", "b.sh", "gone.sh"], cwd=tmp_path, check=True)
    (tmp_path / "gone.sh").unlink()
    assert checkers.files("git", tmp_path, "*.sh") == [tmp_path / "a.sh", tmp_path / "b.sh"]


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [
        ("a.sh", "", True),
        ("a", "#!/bin/sh\n", True),
        ("a", "#!/bin/bash\n", True),
        ("a", "#!/usr/bin/env bash\n", True),
        ("a", "#!/usr/bin/python3\n", False),
        ("a", "plain\n", False),
        ("a", "", False),
        ("a.fish", "#!/usr/bin/fish\n", False),
    ],
)
def test_is_shell(tmp_path, name, first, expected):
    (tmp_path / name).write_text(first)
    assert checkers.is_shell(tmp_path / name) is expected


def test_run_on(fake_program, tmp_path):
    fake_program("linter")
    checkers.run_on(["linter", "-x"], [tmp_path / "a", tmp_path / "b" / "c"], root=tmp_path)
    checkers.run_on(["linter"], [], root=tmp_path)
    (call,) = fake_program.records("linter")
    assert (call["argv"], call["cwd"]) == (["-x", "a", "b/c"], str(tmp_path))


def test_findings_fail_and_are_told_once(fake_program, tmp_path, recorded):
    fake_program("linter", output="a:1: bad\n", status=1)
    with pytest.raises(CommandError) as caught:
        checkers.run_on(["linter"], [tmp_path / "a"], root=tmp_path)
    assert caught.value.solution == checkers.FOUND
    assert caught.value.details == ""
    assert recorded.echoed == ["a:1: bad"]


def test_go_that_is_not_formatted(fake_program, tmp_path):
    fake_program("gofmt", output="a.go\nb.go\n")
    with pytest.raises(BuildError, match=r"not formatted: a\.go, b\.go"):
        checkers.lint_go("gofmt", [tmp_path / "a.go"], root=tmp_path)


def test_go_that_is(fake_program, tmp_path):
    fake_program("gofmt")
    checkers.lint_go("gofmt", [], root=tmp_path)
    assert fake_program.calls("gofmt") == []
    checkers.lint_go("gofmt", [tmp_path / "a.go"], root=tmp_path)
    assert fake_program.calls("gofmt") == [["-l", "a.go"]]


def test_operators(fake_program, tmp_path):
    fake_program("sdk")
    for name in ("b", "a"):
        path = tmp_path / "images" / name / "deploy" / "operator.yaml"
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "images" / "c").mkdir()
    checkers.generate_operators("sdk", tmp_path)
    assert [(Path(r["cwd"]).name, r["argv"]) for r in fake_program.records("sdk")] == [
        ("a", ["generate", "k8s"]),
        ("a", ["generate", "crds"]),
        ("b", ["generate", "k8s"]),
        ("b", ["generate", "crds"]),
    ]


@pytest.fixture
def python_of_a_build(fake_program, monkeypatch):
    """Let the interpreter of the build be a fake, as it would be another environment's."""
    path = fake_program("python", "if 'compile' in argv: open(argv[argv.index('--output-file')"
                        " + 1], 'w').write('a==2 \\\\\\n    --hash=x\\nb==1\\n')")  # fmt: skip
    monkeypatch.setattr(sys, "executable", str(path))
    return fake_program


def test_lock_tells_what_changed(python_of_a_build, tmp_path, recorded):
    (tmp_path / "r.txt").write_text("a==1 \\\n    --hash=y\nb==1\n")
    locks_python.lock(tmp_path, "r")
    assert recorded.notes == ["- a==1", "+ a==2"]
    assert interpreter() == python_of_a_build.folder / "python"


def test_lock_for_the_first_time(python_of_a_build, tmp_path, recorded):
    locks_python.lock(tmp_path, "r")
    assert recorded.notes == ["+ a==2", "+ b==1"]


def test_python_checks(python_of_a_build, tmp_path):
    for name in ("static-container-registry", "operators/a", "operators/b"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pyproject.toml").touch()
    checkers.lint_python(tmp_path)
    checkers.format_python(tmp_path)
    words = [argv[1:3] for argv in python_of_a_build.calls("python")]
    assert words == [["ruff", "check"], ["ruff", "format"], *[["mypy"]] * 4,
                     ["ruff", "check"], ["ruff", "format"]]  # fmt: skip


def test_tests_get_their_environment(python_of_a_build, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("CIRCLE", "true")
    monkeypatch.setenv("METALK8S_KILLS", "10")
    checkers.run_tests(tmp_path, ["tests/unit"], "--cov", env={"A": "1"})
    (call,) = python_of_a_build.records("python")
    assert call["argv"] == [
        "-m", "pytest", "-v", "--no-header", "--color=no", "-o", "console_output_style=count",
        "--cov", "tests/unit",
    ]  # fmt: skip
    assert (call["env"]["CI"], call["env"]["A"]) == ("true", "1")
    assert call["env"]["METALK8S_KILLS"] == "10"
    assert "CIRCLE" not in call["env"]


def test_a_module_has_the_terminal(python_of_a_build, tmp_path):
    checkers.interact(tmp_path, "tests.testbed", ["ssh"], env={"A": "1"})
    (call,) = python_of_a_build.records("python")
    assert call["argv"] == ["-m", "tests.testbed", "ssh"]
    assert call["env"]["A"] == "1"


def test_environment_arguments():
    assert python.argv_for_environment(Path("/p"), Path("/usr/bin/python3"), Path("/f")) == [
        Path("/p"), "-m", "virtualenv", "--quiet", "--clear", "--copies", "--no-download",
        "--python", Path("/usr/bin/python3"), Path("/f"),
    ]  # fmt: skip


def test_make_environment(fake_program, monkeypatch, tmp_path):
    target = tmp_path / "salt"
    lock = tmp_path / "r.txt"
    lock.write_text("salt==1\n")
    fake_interpreter(fake_program, target)
    monkeypatch.setattr(sys, "executable", str(fake_program.folder / "fake-python"))
    checkers.make_environment(target, lock)
    assert [argv[1] for argv in fake_program.calls("fake-python")] == ["virtualenv", "pip"]
    assert checkers.has_installed(target, lock)


TESTS = """
import pytest
@pytest.mark.parametrize("x", ["a b", "[ 1/2]"])
def test_good(x): pass
@pytest.mark.skip(reason="no tool [ 9/9]")
def test_skipped(): pass
def test_bad(): assert 1 == 2
@pytest.fixture
def broken(): raise OSError("broken")
def test_error(broken): pass
@pytest.mark.xfail
def test_known(): assert False
"""


def test_how_many_tests_of_how_many_are_done(tmp_path, recorded):
    """Told for each as it ends; on the terminal are those that fail, and the sum."""
    (tmp_path / "test_x.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    with pytest.raises(CommandError):
        checkers.run_tests(tmp_path, ["test_x.py"], "-p", "no:cacheprovider", env={})
    assert [(p.done, p.total, p.unit) for p in recorded.progress] == [
        (1, 6, "tests"), (2, 6, "tests"), (3, 6, "tests"), (4, 6, "tests, 1 failed"),
        (5, 6, "tests, 2 failed"), (6, 6, "tests, 2 failed"),
    ]  # fmt: skip
    shown = "\n".join(recorded.echoed)
    assert "test_good" not in shown
    assert "test_x.py::test_bad FAILED" in shown
    assert "test_x.py::test_error ERROR" in shown
    assert "1 failed, 2 passed, 1 skipped, 1 xfailed, 1 error" in shown
    assert "test_x.py::test_good[a b] PASSED" in "\n".join(recorded.lines)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("t.py::test_a PASSED                  [   1/3021]", ("PASSED", 1, 3021)),
        ("t.py::test_a[x PASSED] FAILED [2/3]", ("FAILED", 2, 3)),
        ("t.py::test_a SKIPPED (no x [1/2])    [ 3/3]", ("SKIPPED", 3, 3)),
        ("[gw1] [  3/154] FAILED t.py::test_a[x y] ", ("FAILED", 3, 154)),
        ("3 passed in 1.2s", None),
        ("FAILED t.py::test_a - assert", None),
        ("PASSED", None),
        ("", None),
    ],
)
def test_lines_of_pytest(line, result):
    found = python.parse_result(line)
    assert (found and (found.outcome, found.done, found.total)) == result


@pytest.mark.parametrize(
    ("line", "is_begun"),
    [
        ("tests/unit/test_x.py::test_a[a b] ", True),
        ("test_x.py::test_a", True),
        ("test_x.py::test_a PASSED [1/2]", False),
        ("FAILED test_x.py::test_a - assert 1 == 2", False),
        ("test_x.py:12: AssertionError", False),
    ],
)
def test_what_begins_is_no_result(line, is_begun):
    assert python.is_begun(line) is is_begun
