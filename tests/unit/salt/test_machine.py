"""A minion that leaves its machine: after its answer, and with all that is its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from typing import Any

import pytest

from .loader import load

# Stand in for programs that change the machine: they say what they were asked, and when.
TELLS = """#!/bin/sh
echo "${{0##*/}} $*" >>{log}
case "$*" in "is-active"*) exit {active} ;; esac
exit {status}
"""


class Machine:
    """A folder of programs and a folder that stands for the machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.log.touch()
        self.programs()
        for name in ("etc/salt/minion.conf", "etc/metalk8s/pki/minion.key", "etc/other/theirs"):
            file = folder / name
            file.parent.mkdir(parents=True)
            file.write_text("content")
        self.arguments: dict[str, Any] = {
            "packages": ["metalk8s-salt-minion"],
            "os_family": "debian",
            "files": [str(folder / "etc/salt/minion.conf"), str(folder / "etc/metalk8s/pki")],
            "folders": [str(folder / "etc/metalk8s"), str(folder / "etc/other"), "/nonexistent"],
        }

    def programs(self, active: int = 3, status: int = 0) -> None:
        for name in ("systemd-run", "systemctl", "apt-get", "dnf"):
            program = self.folder / name
            program.write_text(TELLS.format(log=self.log, active=active, status=status))
            program.chmod(0o755)

    def leaves(self, test: bool = False) -> dict[str, Any]:
        module = load("_states/metalk8s_machine", opts={"test": test})
        answer: dict[str, Any] = module.minion_leaves("salt-minion", **self.arguments)
        return answer

    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.folder / "etc"))
            for path in (self.folder / "etc").rglob("*")
            if path.is_file()
        )


ALL = ["metalk8s/pki/minion.key", "other/theirs", "salt/minion.conf"]


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Machine(tmp_path)


def test_nothing_goes_before_the_run_is_over(machine: Machine) -> None:
    """systemd gets the work; a second time, nothing is to be done."""
    foreseen = machine.leaves(test=True)
    assert (foreseen["result"], machine.files()) == (None, ALL)
    answer = machine.leaves()
    assert (answer["result"], answer["changes"]) == (True, foreseen["changes"])
    assert machine.files() == ALL
    run = machine.log.read_text()
    assert "systemd-run --quiet --collect --unit=metalk8s-salt-minion-leaves /bin/sh -c" in run
    machine.programs(active=0)
    assert machine.leaves()["changes"] == {}
    machine.programs()
    machine.arguments["files"] = ["/nonexistent"]
    assert machine.leaves()["changes"] == {}


def test_why_it_cannot(machine: Machine) -> None:
    (machine.folder / "systemd-run").write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    answer = machine.leaves()
    assert (answer["result"], answer["comment"]) == (False, "salt-minion cannot leave: no bus")


@pytest.mark.parametrize(("os_family", "status"), [("debian", 0), ("redhat", 0), ("debian", 1)])
def test_it_goes_when_the_process_has_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, os_family: str, status: int
) -> None:
    """Service, package, files, empty folders, in that order; a step that fails stops no other."""
    machine.programs(status=status)
    module = load("_states/metalk8s_machine")
    job = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(os, "getpid", lambda: job.pid)
    machine.arguments["os_family"] = os_family
    argv = module.command("salt-minion", **machine.arguments)
    monkeypatch.undo()
    environment = {"PATH": f"{machine.folder}:/usr/bin:/bin"}
    leaving = subprocess.Popen(argv, env=environment)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            leaving.wait(0.5)
        assert (leaving.poll(), machine.files(), machine.log.read_text()) == (None, ALL, "")
        job.kill()
        job.wait()
        leaving.wait(20)
    finally:
        job.kill()
        leaving.kill()
        leaving.wait()
    removal = {
        "debian": "apt-get --yes purge metalk8s-salt-minion",
        "redhat": "dnf --assumeyes --disablerepo=* remove metalk8s-salt-minion",
    }
    log = machine.log.read_text().splitlines()
    assert log == ["systemctl disable --now salt-minion", removal[os_family]]
    assert machine.files() == ["other/theirs"]
    assert not (machine.folder / "etc/metalk8s").exists()
