import os
from pathlib import Path

import pytest

from buildchain import config
from buildchain.actions import host
from buildchain.errors import BuildError, EngineError, ToolError
from buildchain.model import Tool

TOOL = Tool("skopeo", "skopeo-package", "copy images", ("build",), option="skopeo", minimum="1.2")


WITHOUT_SYSTEMD = pytest.mark.skipif(
    Path("/run/systemd/system").is_dir(), reason="systemd runs here"
)
# A daemon is not waited for, that is the point of it; Python warns.
DAEMON = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def settings(root):
    return config.load(root, {"SKOPEO_BIN": "my-skopeo"})


@pytest.fixture
def bare(fake_program, monkeypatch):
    """Provide fakes that are all there is on PATH."""
    monkeypatch.setenv("PATH", str(fake_program.folder))
    return fake_program


def test_a_good_tool(fake_program, settings):
    path = fake_program("my-skopeo", output="skopeo version 1.9.3")
    finding = host.examine(TOOL, settings)
    assert (finding.command, finding.path, finding.version) == ("my-skopeo", str(path), "1.9.3")
    assert finding.problem == ""
    host.check(TOOL, settings)
    status = path.stat()
    assert host.identity(TOOL, settings) == [str(path), status.st_size, status.st_mtime_ns]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (None, "my-skopeo (SKOPEO_BIN) is missing; it is needed to copy images"),
        ({"output": "skopeo version 1.1.9"}, "my-skopeo (SKOPEO_BIN) is 1.1.9, below 1.2"),
        ({"status": 5}, "my-skopeo (SKOPEO_BIN) does not run"),
    ],
)
def test_a_bad_tool_is_named_with_purpose_and_package(bare, settings, program, message):
    if program is not None:
        bare("my-skopeo", **program)
    with pytest.raises(ToolError) as caught:
        host.check(TOOL, settings)
    assert caught.value.reason.startswith(message)
    assert "copy images" in caught.value.reason
    assert "./doit.sh setup" in caught.value.solution
    assert "skopeo-package" in caught.value.solution


def test_a_tool_without_a_package(bare, settings):
    tool = Tool("operator-sdk", "", "generate code", ("operator",))
    with pytest.raises(ToolError, match="operator-sdk is missing") as caught:
        host.check(tool, settings)
    assert "no Debian package has it" in caught.value.solution
    assert host.identity(tool, settings) == []


def test_a_tool_without_minimum_is_not_run(bare, settings):
    bare("plain", status=1)
    host.check(Tool("plain", "p", "r", ("build",)), settings)
    assert bare.calls("plain") == []


def test_diagnosis(bare, settings):
    bare("my-skopeo", output="skopeo version 1.1.9")
    orphan = Tool("operator-sdk", "", "generate code", ("operator",))
    lines = host.diagnosis([TOOL, orphan], settings)
    assert [line.split("  ")[0] for line in lines] == [
        "TOOL",
        "my-skopeo",
        "operator-sdk",
        "Docker engine",
    ]
    assert lines[1].endswith("install skopeo-package")
    assert lines[2].endswith("get it from its project")
    assert lines[3].endswith("start it")


def test_missing_packages(bare, settings):
    bare("good", output="1.0")
    bare("dpkg-query")
    tools = [
        Tool("good", "good-package", "r", ("build",)),
        Tool("bad", "z", "r", ("build",)),
        Tool("bad2", "a", "r", ("build",)),
        Tool("bad3", "", "r", ("build",)),
    ]
    assert host.missing_packages(tools, settings) == ("a", "z")
    assert bare.calls("dpkg-query") == [["--show", *host.ALWAYS]]


def test_packages_that_are_always_needed(bare, settings):
    bare("dpkg-query", output="no packages found", status=1)
    assert host.missing_packages([], settings) == tuple(sorted(host.ALWAYS))


def test_install_nothing_does_nothing(bare):
    host.install(())


def test_install(fake_program, recorded, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake_program("apt-get", output="Get:1 x\nGet:2 y\nSetting up x\nSetting up y\n")
    host.install(["x", "y"])
    assert [argv[-1] for argv in fake_program.calls("apt-get")] == ["update", "y"]
    (installation,) = [r for r in fake_program.records("apt-get") if "install" in r["argv"]]
    assert installation["env"]["DEBIAN_FRONTEND"] == "noninteractive"
    assert recorded.notes == ["installing x y"]
    assert [(p.done, p.total) for p in recorded.progress] == [(1, 2), (2, 2)]


def test_install_without_root_uses_sudo(fake_program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "isatty", lambda _fd: False)
    fake_program("sudo")
    fake_program("apt-get")
    host.install(["x"])
    assert [argv[:3] for argv in fake_program.calls("sudo")] == [
        ["-n", "apt-get", "-q"],
        ["-n", "env", "DEBIAN_FRONTEND=noninteractive"],
    ]
    assert fake_program.calls("apt-get") == []


def test_sudo_may_ask_on_a_terminal(fake_program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "isatty", lambda _fd: True)
    fake_program("sudo")
    assert host.root_prefix() == ["sudo"]


def test_install_with_neither_root_nor_sudo(bare, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    bare("apt-get")
    with pytest.raises(BuildError, match="needs root, and there is no sudo"):
        host.install(["x"])


def test_install_without_apt(bare):
    with pytest.raises(BuildError, match="no apt-get to install a b"):
        host.install(["a", "b"])


def test_install_without_network(fake_program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake_program("apt-get", output="E: Failed to fetch", status=100)
    with pytest.raises(BuildError, match="cannot install a") as caught:
        host.install(["a"])
    assert "Failed to fetch" in caught.value.details


def test_engine_answers(engine):
    assert host.engine_answers("docker") is True
    assert "GET /_ping" in engine.calls


def test_no_engine_answers():
    assert host.engine_answers("docker") is False


@WITHOUT_SYSTEMD
@DAEMON
def test_start_engine_without_systemd(engine, fake_program, monkeypatch, recorded, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(host, "ENGINE_LOG", tmp_path / "dockerd.log")
    fake_program("dockerd", "")
    host.start_engine("docker")
    assert any("starting the Docker engine" in note for note in recorded.notes)


@WITHOUT_SYSTEMD
@DAEMON
def test_engine_that_never_answers(fake_program, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(host, "ENGINE_LOG", tmp_path / "dockerd.log")
    monkeypatch.setattr(host, "ENGINE_PATIENCE", 0)
    fake_program("dockerd")
    with pytest.raises(EngineError, match="does not answer after 0 s") as caught:
        host.start_engine("docker")
    assert str(tmp_path / "dockerd.log") in caught.value.solution
