import dataclasses
import os
import re

import pytest

from buildchain.core.errors import BuildError, EngineAccessError, EngineError, ToolError
from buildchain.machine import engine, engine_service, host, programs
from buildchain.project import catalog, config
from buildchain.project.model import Tool
from tests.conftest import ROOT

# docker-py leaves the socket of a client that could not be made to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
TOOL = Tool("skopeo", "skopeo-package", "copy images", ("build",), option="skopeo", minimum="1.2")


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


@pytest.mark.parametrize(
    ("status", "problem"), [(0, ""), (1, ""), (2, ""), (126, "does not run"), (127, "does not run")]
)
def test_a_tool_without_minimum_has_to_start(bare, settings, status, problem):
    """Usage with a status other than 0 is an answer; what loaders and shells say is none."""
    bare("plain", status=status)
    finding = host.examine(Tool("plain", "p", "r", ("build",)), settings)
    assert finding.problem.startswith(problem)
    assert bool(finding.problem) is bool(problem)
    assert bare.calls("plain") == [["--version"]]


def test_a_tool_without_arguments_is_not_run(bare, settings):
    bare("plain", status=127)
    host.check(Tool("plain", "p", "r", ("build",), version=()), settings)
    assert bare.calls("plain") == []


def no_program(path):
    path.write_bytes(b"\x7fELF of another machine")


def no_interpreter(path):
    path.write_text("#!/no/such/interpreter\n")


def killed(path):
    path.write_text("#!/bin/sh\nkill -SEGV $$\n")


def without_library(path):
    path.write_text("#!/bin/sh\necho 'cannot open shared object file' >&2\nexit 127\n")


@pytest.mark.parametrize("spoil", [no_program, no_interpreter, killed, without_library])
@pytest.mark.parametrize("tool", catalog.tools(ROOT), ids=lambda tool: tool.name)
def test_each_tool_that_is_found_and_does_not_run(bare, settings, tool, spoil):
    settings = dataclasses.replace(settings, binaries={tool.option: tool.name})
    path = bare(tool.name)
    spoil(path)
    finding = host.examine(tool, settings)
    assert (finding.path, finding.version) == (str(path), "")
    assert finding.problem.startswith("does not run: ")
    with pytest.raises(ToolError, match=f"does not run.*needed to {tool.reason}"):
        host.check(tool, settings)


@pytest.mark.parametrize(
    "tool", [t for t in catalog.tools(ROOT) if t.minimum], ids=lambda tool: tool.name
)
def test_each_tool_that_is_too_old(bare, settings, tool):
    settings = dataclasses.replace(settings, binaries={tool.option: tool.name})
    bare(tool.name, output=f"{tool.name} 0.0.1")
    assert host.examine(tool, settings).problem == f"is 0.0.1, below {tool.minimum}"
    bare(tool.name, output=f"{tool.name} {tool.minimum}")
    assert host.examine(tool, settings).problem == ""


def test_each_tool_of_this_machine_runs(settings):
    """What is asked of the real ones is something that they answer."""
    settings = config.load(ROOT, {})
    there = [tool for tool in catalog.tools(ROOT) if host.locate(tool, settings)]
    assert [f.sentence for t in there if (f := host.examine(t, settings)).problem] == []


def test_diagnosis(bare, settings):
    bare("my-skopeo", output="skopeo version 1.1.9")
    bare("old", output="1")
    bare("broken", status=127)
    bare("dpkg-query", output="half\thalf-configured\n")
    orphan = Tool("operator-sdk", "", "generate code", ("operator",))
    half = Tool("old", "half", "r", ("build",))
    broken = Tool("broken", "b", "r", ("build",))
    rows = [
        re.split("  +", line) for line in host.diagnosis([TOOL, orphan, half, broken], settings)
    ]
    assert [[row[0], row[1], row[-1]] for row in rows] == [
        ["TOOL", "FOUND", "TO DO"],
        ["my-skopeo", "1.1.9", "install skopeo-package"],
        ["operator-sdk", "missing", "get it from its project"],
        ["old", "half-configured", "install half"],
        ["broken", "does not run", "install b"],
        ["Docker engine", "silent at tcp://127.0.0.1:1", "unset DOCKER_HOST, or start it"],
    ]


THERE = "".join(f"{name}\tinstalled\n" for name in host.ALWAYS)


def test_missing_packages(bare, settings):
    bare("good", output="1.0")
    bare("dpkg-query", output=f"{THERE}good-package\tinstalled\n")
    tools = [
        Tool("good", "good-package", "r", ("build",)),
        Tool("bad", "z", "r", ("build",)),
        Tool("bad2", "a", "r", ("build",)),
        Tool("bad3", "", "r", ("build",)),
    ]
    assert host.missing_packages(tools, settings) == ("a", "z")


@pytest.mark.parametrize("state", programs.UNFINISHED)
def test_a_package_that_was_left_unfinished_is_missing(bare, settings, state):
    bare("good", output="1.0")
    bare("dpkg-query", output=f"{THERE}p\t{state}\nother\t{state}\n")
    assert host.missing_packages([Tool("good", "p", "r", ("build",))], settings) == ("p",)


@pytest.mark.parametrize("state", ["not-installed", "config-files", "half-configured", None])
def test_packages_that_are_always_needed(bare, settings, state):
    rows = [f"{name}\t{state}\n" for name in host.ALWAYS if state]
    bare("dpkg-query", output="".join(rows) + "dpkg\tinstalled\n")
    assert host.missing_packages([], settings) == tuple(sorted(host.ALWAYS))


def test_a_machine_without_dpkg_needs_no_packages_for_their_own_sake(bare, settings):
    assert host.missing_packages([], settings) == ()


CLIENT = Tool("docker", "docker.io", "make images", ("build",), minimum="17.03", server="dockerd")
ELSEWHERE = "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    ("host_variable", "context", "has_server", "missing", "row"),
    [
        ("", "", False, ("docker.io",), ("client alone", "setup installs docker.io")),
        ("", "", True, (), ("silent", "setup starts it")),
        (
            ELSEWHERE, "", False, (),
            (f"silent at {ELSEWHERE}", "unset DOCKER_HOST, or start it"),
        ),
        (
            "", ELSEWHERE, False, (),
            (f"silent at {ELSEWHERE}", "run docker context use default, or start it"),
        ),
    ],
)  # fmt: skip
def test_a_client_and_its_server(
    bare, settings, monkeypatch, tmp_path, host_variable, context, has_server, missing, row
):
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", ())
    own = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setattr(engine_service, "OWN", ("", own))
    monkeypatch.setenv("DOCKER_HOST", host_variable)
    bare("docker", f"print('Docker version 28.0' if '--version' in argv else {context or own!r})")
    bare("dpkg-query", output=THERE)
    bare("apt-get")
    if has_server:
        bare("dockerd")
    assert host.missing_packages([CLIENT], settings) == missing
    engine_row = re.split("  +", host.diagnosis([CLIENT], settings)[-1])
    assert (engine_row[1], engine_row[-1]) == row
    if host_variable or context:
        with pytest.raises(EngineError, match=f"no Docker engine answers at {ELSEWHERE}"):
            host.check_servers([CLIENT], settings)
    else:
        host.check_servers([CLIENT], settings)


@pytest.mark.parametrize(("is_own", "missing"), [(True, ("docker.io",)), (False, ())])
def test_an_engine_that_is_too_old(bare, engine, settings, monkeypatch, is_own, missing):
    """This machine's gets a newer package; what is elsewhere is not ours to mend."""
    if is_own:
        monkeypatch.setattr(engine_service, "OWN", ("", engine.url))
    bare("docker", output="Docker version 28.0")
    bare("dpkg-query", output=THERE)
    new = dataclasses.replace(CLIENT, minimum="25.0")
    assert host.missing_packages([new], settings) == missing
    assert host.missing_packages([CLIENT], settings) == ()


def test_an_engine_for_others(bare, settings, monkeypatch):
    def refuse(*_arguments, **_more):
        raise EngineAccessError("you may not use it")

    monkeypatch.setattr(engine, "connect", refuse)
    row = re.split("  +", host.diagnosis([], settings)[-1])
    assert (row[1], row[-1]) == ("not for you", 'join the group "docker"')


def test_what_installing_did_not_help_is_told_all_at_once(bare, settings):
    path = bare("my-skopeo", output="skopeo version 1.1.9")
    tools = [TOOL, Tool("gone", "g", "r", ("build",)), Tool("orphan", "", "r", ("build",))]
    with pytest.raises(ToolError) as caught:
        host.check_installed(tools, settings)
    for word in ("my-skopeo (SKOPEO_BIN) is 1.1.9", "gone is missing", "orphan is missing"):
        assert word in caught.value.reason
    assert f"Remove {path} or set SKOPEO_BIN to the skopeo of" in caught.value.solution
    assert "no Debian package has it" in caught.value.solution


def test_install_nothing_does_nothing(bare):
    host.install(())


def test_install(fake_program, recorded, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake_program("dpkg-query")
    fake_program("apt-get", output="Get:1 x\nGet:2 y\nSetting up x\nSetting up y\n")
    host.install(["x", "y"])
    assert [argv[-1] for argv in fake_program.calls("apt-get")] == ["update", "y"]
    (installation,) = [r for r in fake_program.records("apt-get") if "install" in r["argv"]]
    assert installation["env"]["DEBIAN_FRONTEND"] == "noninteractive"
    assert recorded.notes == ["installing x y"]
    assert [(p.done, p.total) for p in recorded.progress] == [(1, 2), (2, 2)]


def test_what_dpkg_left_is_finished_first(fake_program, recorded, monkeypatch):
    """APT refuses to go on after an interrupted dpkg; what cannot be finished it unpacks again."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    order = fake_program.folder.parent / "order"
    log = f"open({str(order)!r}, 'a').write(argv[-1] + '\\n')"
    fake_program("dpkg-query", output="b\tunpacked\na\thalf-configured\nc\tinstalled\n")
    fake_program("dpkg", log, output="cannot configure", status=1)
    fake_program("apt-get", log)
    host.install(["a"])
    assert order.read_text().splitlines() == ["--pending", "update", "a"]
    assert recorded.notes == ["finishing the installation of a b", "installing a"]


def test_install_without_root_uses_sudo(fake_program, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "isatty", lambda _fd: False)
    fake_program("sudo")
    fake_program("dpkg-query")
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
    assert programs.root_prefix() == ["sudo"]


def test_install_with_neither_root_nor_sudo(bare, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    bare("apt-get")
    with pytest.raises(BuildError, match="need root, and there is no sudo"):
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
