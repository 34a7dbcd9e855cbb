"""Reading is free: what only looks runs beside a build, and leaves nothing of its own behind."""

import os
import subprocess

import pytest

from buildchain.core import report
from buildchain.core.step import READING
from tests.unit.running import run_doit
from tests.unit.sandbox import Checkout

# Opening a pipe for reading waits until somebody writes: the build is then at work.
WAIT = "open({began!r}, 'w').close()\nopen({go!r}).read()\nsys.exit(100)"
VERIFY = "#!/bin/sh\necho all is as it was signed\n"


class Build:
    """A build that waits in its first step."""

    def __init__(self, checkout, programs):
        self.checkout, self.programs = checkout, programs
        self.root = checkout.parent / "b"
        self.began, self.go = checkout.parent / "began", checkout.parent / "go"
        for pipe in (self.began, self.go):
            os.mkfifo(pipe)
        programs("apt-get", WAIT.format(began=str(self.began), go=str(self.go)))
        self.process = subprocess.Popen(
            [checkout.folder / "doit.sh", "_apt_update"],
            env=self.checkout.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.began.open().close()

    def end(self):
        self.go.open("w").close()
        return self.process.communicate()[0]

    def state(self):
        """Return every file of the build root: mode, times and content."""
        files = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def build(tmp_path_factory, programs_class):
    folder = tmp_path_factory.mktemp("reading")
    checkout = Checkout(folder)
    medium = folder / "medium"
    medium.mkdir()
    (medium / "MANIFEST").write_text("#name=Demo\n#version=1\n")
    root = folder / "b" / "root"
    root.mkdir(parents=True)
    (root / "verify.sh").write_text(VERIFY)
    (root.parent / "metalk8s.iso").write_text("an image")
    (root.parent / ".metalk8s").touch()
    programs = programs_class(folder / "bin")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PATH", f"{programs.folder}{os.pathsep}{os.environ['PATH']}")
        build = Build(checkout, programs)
        try:
            yield build
        finally:
            said = build.end()
    # It was disturbed by nobody: it ended by what apt-get said, and its transcript is whole.
    assert "another build" not in said
    assert "_apt_update failed" in (build.root / "build.log").read_text()
    assert not (build.root / "build.log.1").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor"], "Docker engine"),
        (["lock:check"], "CHECK          locks"),
        (["diff", "medium", "medium"], "Demo 1 -> Demo 1"),
        (["verify"], "all is as it was signed"),
        (["doctor", "verify", "lock:check"], "all is as it was signed"),
        (["--reporter", "json", "lock:check"], '"result": "success"'),
        (["list", "--all", "--private"], "_iso_build"),
        (["list", "--status"], "iso"),
        (["info", "iso"], "_iso_build"),
        (["help"], "doit.sh list"),
        (["help", "verify"], "verify"),
    ],
    ids=" ".join,
)
def test_reading_beside_a_build(build, arguments, words):
    before = build.state()
    assert build.process.poll() is None
    done = build.checkout.doit(*arguments, DOCKER_HOST="tcp://127.0.0.1:1")
    assert words in done.stdout
    assert done.returncode == 0 or arguments[0] == "info", done.stdout
    assert "another build" not in done.stdout
    assert build.state() == before
    assert build.process.poll() is None


@pytest.mark.parametrize("arguments", [["_apt_update"], ["doctor", "iso"], ["iso", "verify"], []])
def test_what_also_builds_is_refused(build, arguments):
    before = build.state()
    done = build.checkout.doit(*arguments)
    assert done.returncode == 2
    assert "another build is at work" in done.stdout
    assert build.state() == before


def test_reading_that_fails_leaves_the_transcript(build):
    before = build.state()
    done = build.checkout.doit("diff", "medium", "nothing")
    assert done.returncode == 1
    assert "nothing" in done.stdout
    assert "build.log" not in done.stdout, "it has nothing of this"
    assert build.state() == before


def test_reading_makes_no_build_root(tmp_path):
    checkout = Checkout(tmp_path)
    done = checkout.doit("lock:check")
    assert done.returncode == 0, done.stdout
    done = checkout.doit("verify")
    assert done.returncode == 1
    assert "to verify" in done.stdout
    assert "./doit.sh iso" in done.stdout
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "c").exists()


def test_only_what_stands_on_readers_alone_reads(layout, root):
    order = []

    def task(name, *, reads, deps=(), setup=()):
        return {
            "basename": name, "actions": [lambda: order.append(name)], "task_dep": list(deps),
            "setup": list(setup), "meta": READING if reads else None, "verbosity": 0,
        }  # fmt: skip

    def task_all():
        yield task("look", reads=True)
        yield task("look_again", reads=True, deps=["look"])
        yield task("make", reads=False)
        yield task("look_at_made", reads=True, deps=["make"])
        yield task("look_after", reads=True, setup=["make"])
        yield {"basename": "looks", "actions": None, "task_dep": ["look", "look_again"]}

    namespace = {
        "DOIT_CONFIG": {
            "reporter": report.BuildReporter, "backend": "whole_json",
            "dep_file": str(layout.build / ".doit.json"),
        },
        "task_all": task_all,
    }  # fmt: skip
    for name, reads in (
        ("look", True), ("look_again", True), ("looks", True), ("make", False),
        ("look_at_made", False), ("look_after", False),
    ):  # fmt: skip
        for path in layout.build.iterdir():
            path.unlink()
        assert run_doit(root, namespace, name).status == 0
        assert name in order or name == "looks"
        assert (list(layout.build.iterdir()) == []) is reads, name
