"""A machine that nobody prepared: what it is made of, what it is given, and what is compared."""

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from buildchain.core.errors import BuildError, ConfigError, ContentError
from buildchain.project import catalog, context
from buildchain.quality import fresh, unprepared
from buildchain.quality import steps as quality
from tests.conftest import ROOT

SOURCES = "http://archive.example/debian|bookworm|main|Debian|deb\n"
SETTINGS = 'Acquire::http::Proxy "http://proxy.example:3128";\nAPT::Architecture "amd64";\n'
MAKE_ROOT = """
import pathlib
root = pathlib.Path(argv[-2])
(root / "usr/bin").mkdir(parents=True)
(root / "etc").mkdir()
"""
APT = "print({!r}, end='') if argv[0] == 'indextargets' else None"
# The clone is where the place is bound to; a build leaves an ISO and its tree.
BUILD = """
import pathlib
place = pathlib.Path(argv[argv.index("sh", argv.index("-euc")) + 2])
socket = argv[argv.index("sh", argv.index("-euc")) + 3]
(place.parent / ("with-" + ("host" if socket else "own"))).touch()
out = place / "checkout" / "_build"
out.mkdir(parents=True, exist_ok=True)
"""


@pytest.fixture
def machine(fake_program, monkeypatch, tmp_path):
    """Provide root's machine, every program on it pretended."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fresh, "SITE", (tmp_path / "resolv.conf",))
    monkeypatch.setattr(fresh, "CERTIFICATES", tmp_path / "certificates")
    monkeypatch.setattr(fresh, "BRIDGE", tmp_path / "docker0")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    fake_program("apt-get", APT.format(SOURCES))
    fake_program("apt-config", output=SETTINGS)
    script = "import os\nif 'clone' in argv: os.mkdir(argv[-1])\n"
    fake_program("git", f"{script}if 'describe' in argv: sys.stdout.write('1-0-gabc')")
    fake_program("mmdebstrap", MAKE_ROOT)
    fake_program("unshare", BUILD)
    return fake_program


@pytest.fixture(scope="module")
def pins():
    return catalog.load(ROOT, "default")


def build(layout, pins, settings=None):
    return fresh.built(layout, pins, "git", settings or {})


def entered(machine):
    """Return, of each time the root was entered: engine's socket, environment and command."""
    found = []
    for argv in machine.calls("unshare"):
        start = argv.index("sh", argv.index("-euc") + 2)
        words = argv[argv.index("-i", start) + 1 :]
        settings = [word for word in words[: words.index("sh")] if "=" in word]
        environment = dict(word.split("=", 1) for word in settings)
        found.append((argv[start + 3], environment, words[words.index("sh") :]))
    return found


def test_the_machine_has_what_it_is_given_and_nothing_else(machine, layout, pins, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.example/simple")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    user = fresh.PIP_OF_USER.expanduser()
    user.parent.mkdir(parents=True)
    user.write_text("[global]\n")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with build(layout, pins, {"PROFILE": "default"}) as there:
        folder = layout.build / "fresh"
        assert there.root == folder / "place" / "checkout"
        assert there.build == there.root / "_build"
        assert "bridge" in (folder / "root/etc/docker/daemon.json").read_text()
        sources = (folder / "apt/debian.sources").read_text()
        assert "URIs: http://archive.example/debian" in sources
        settings = (folder / "apt/apt.conf").read_text()
        assert settings == 'Acquire::http::Proxy "http://proxy.example:3128";\n'
        assert list((folder / "place/home").iterdir()) == []
        assert (folder / "root" / fresh.PIP_OF_ALL).read_text() == "[global]\n"
    [argv] = machine.calls("mmdebstrap")
    assert {"--variant=minbase", "--include=ca-certificates,git"} <= set(argv)
    [(socket, environment, command)] = entered(machine)
    assert socket == ""
    assert command[-3:] == ["./doit.sh", "setup", "iso"]
    handed = {name: value for name, value in os.environ.items() if fresh.HANDED.fullmatch(name)}
    assert environment == {
        **handed, "PATH": unprepared.PATH, "PIP_INDEX_URL": "http://index.example/simple",
        "https_proxy": "http://proxy.example:3128", "PROFILE": "default",
        "HOME": str(layout.build / "fresh/place/home"), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    assert not (layout.build / "fresh").exists(), "nothing is left behind"


def test_certificates_of_the_site_come_along(machine, layout, pins):
    machine("chroot")
    fresh.CERTIFICATES.mkdir()
    (fresh.CERTIFICATES / "site.crt").write_text("x")
    with build(layout, pins):
        inside = layout.build / "fresh/root" / fresh.CERTIFICATES.relative_to("/")
        assert (inside / "site.crt").exists()
    [[_, command]] = machine.calls("chroot")
    assert command == "update-ca-certificates"


def test_a_machine_that_is_not_fresh(machine, layout, pins):
    machine("mmdebstrap", MAKE_ROOT + "(root / 'usr/bin/python3').touch()")
    with pytest.raises(ContentError, match="has Python"), build(layout, pins):
        pass
    assert not (layout.build / "fresh").exists()


NO_ENGINE = "print('EngineError: the Docker engine was started and ended before it answered')\n"


def test_where_no_engine_runs_inside_this_machines_is_used(
    machine, layout, pins, monkeypatch, tmp_path, recorded
):
    import socket

    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        monkeypatch.setattr(fresh, "OWN_SOCKET", place)
        machine("unshare", BUILD + f"if not socket:\n    {NO_ENGINE}    sys.exit(1)\n")
        with build(layout, pins):
            pass
    assert [given for given, _, _ in entered(machine)] == ["", str(place)]
    assert "no engine runs in it: going on with that of this machine" in recorded.notes


def test_the_bridge_of_this_machine_stays(machine, layout, pins, monkeypatch, tmp_path, recorded):
    """An engine without one, in the same network, would remove it."""
    (tmp_path / "docker0").mkdir()
    monkeypatch.setattr(fresh, "OWN_SOCKET", tmp_path / "docker.sock")
    with build(layout, pins):
        pass
    assert [given for given, _, _ in entered(machine)] == [str(tmp_path / "docker.sock")]
    assert "this machine's engine has docker0: going on with that engine" in recorded.notes


@pytest.mark.parametrize(
    ("script", "has_socket"), [("", True), (NO_ENGINE, False)], ids=["other", "no engine at all"]
)
def test_a_build_that_fails_there(machine, layout, pins, monkeypatch, script, has_socket):
    monkeypatch.setattr(fresh, "OWN_SOCKET", Path("/dev/null" if has_socket else "/nonexistent"))
    machine("unshare", script + "sys.exit(7)")
    message = r"setup iso fails on a fresh machine \(exit status 7\)"
    with pytest.raises(BuildError, match=message), build(layout, pins):
        pass
    assert len(machine.calls("unshare")) == 1
    assert not (layout.build / "fresh").exists()


def test_folders_that_pip_looks_into(machine, layout, pins, monkeypatch, tmp_path):
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}/wheels /nonexistent http://x.example/y")
    with build(layout, pins):
        pass
    [argv] = machine.calls("unshare")
    end = argv.index("--")
    assert argv[end - 1] == f"{tmp_path}/wheels"
    assert argv[end - 2] == "", "the socket"


def test_what_it_needs(machine, layout, monkeypatch):
    fresh.check(layout, "git")
    machine("git", output="1-0-gabc-dirty")
    with pytest.raises(ConfigError, match="differ from its commit"):
        fresh.check(layout, "git")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BuildError, match="by root only"):
        fresh.check(layout, "git")


def tree(layout, name, **files):
    made = dataclasses.replace(layout, build=layout.build / name)
    rows = []
    for path, content in files.items():
        file = made.iso_root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        rows.append(f"{content} f 0644 1 {path}\n")
    (made.iso_root / "MANIFEST").write_text("".join(sorted(rows)))
    return made


SAME = {"product.txt": "p", "images/a/1/manifest.json": "m"}
OF_THE_KEY = (
    "keys/metalk8s.gpg", "SHA256SUM", "MANIFEST.sig", "sbom/metalk8s.spdx.json",
    "packages/debian/metalk8s/dists/bookworm/InRelease",
    "packages/debian/metalk8s/dists/bookworm/Release.gpg",
    "packages/redhat/metalk8s-el9/repodata/repomd.xml",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_THE_KEY)
def test_what_depends_on_the_key_may_differ(layout, name):
    first = tree(layout, "one", **SAME, **{name: "1"})
    assert fresh.compare(first, tree(layout, "two", **SAME, **{name: "2"})) == len(SAME)


@pytest.mark.parametrize(
    "name", ["product.txt", "salt/top.sls", "packages/debian/metalk8s/dists/bookworm/Release"]
)
def test_what_does_not_is_told(layout, recorded, name):
    first = tree(layout, "one", **{**SAME, name: "1"})
    second = tree(layout, "two", **{**SAME, name: "2"})
    with pytest.raises(ContentError, match=rf"1 files of the ISO differ.*{name}"):
        fresh.compare(first, second)
    assert f"differs: {name}: " in "\n".join(recorded.lines)


@pytest.mark.parametrize("digests", [("a", "a"), ("a", "b"), ("", "")])
def test_rpms_are_compared_without_their_signatures(layout, fake_program, digests):
    name = "packages/redhat/metalk8s-el9/a.rpm"
    first = tree(layout, "one", **SAME, **{name: digests[0] + "1"})
    second = tree(layout, "two", **SAME, **{name: digests[1] + "2"})
    fake_program("rpm", "print(open(argv[-1]).read()[:-1])")
    if digests == ("a", "a"):
        assert fresh.compare(first, second) == len(SAME)
    else:
        with pytest.raises(ContentError, match="1 files of the ISO differ"):
            fresh.compare(first, second)


@pytest.fixture
def tasks(monkeypatch, layout):
    """Return the tasks of quality for a build whose ISO is there."""
    monkeypatch.setenv("BUILD_ROOT", str(layout.build))
    monkeypatch.setenv("CACHE_ROOT", str(layout.cache))
    context.current.cache_clear()
    yield quality
    context.current.cache_clear()


def test_the_task_stands_on_the_iso_and_is_not_part_of_test(tasks):
    task = tasks.task_test_fresh()
    assert task["basename"] == "test:fresh"
    assert "iso" in task["task_dep"]
    assert "test:fresh" not in {f"{task['basename']}:{task['name']}" for task in tasks.task_test()}


def test_the_task_compares_what_was_built(machine, tasks, monkeypatch, recorded):
    """With the settings of the first build, but for places and keys of this machine."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    here = context.current()
    first = here.layout.iso_root
    first.mkdir(parents=True)
    (first / "MANIFEST").write_text("p f 0644 1 product.txt\nk f 0644 1 keys/a.gpg\n")
    second = "p f 0644 1 product.txt\nK f 0644 1 keys/a.gpg\n"
    made = f"(out / 'root').mkdir()\n(out / 'root/MANIFEST').write_text({second!r})\n"
    machine("unshare", BUILD + made)
    tasks._test_fresh(here)
    [(_, environment, _)] = entered(machine)
    assert environment["SOURCE_DATE_EPOCH"] == "1700000000"
    assert not {"BUILD_ROOT", "CACHE_ROOT"} & set(environment)
    assert "the ISO of a fresh machine is the same: 1 files and folders" in recorded.notes


def test_what_enters_the_root_is_a_script_that_shells_understand(require):
    done = subprocess.run([require("sh"), "-n", "-c", unprepared.ENTER], check=False)
    assert done.returncode == 0


def test_the_root_is_entered_in_namespaces_of_its_own():
    argv = unprepared.argv_in_root(
        Path("/r"), Path("/p"), {"HOME": "/h"}, ["true"], socket="/s", folders=["/w"]
    )
    assert argv == [
        "unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts",
        "sh", "-euc", unprepared.ENTER, "sh", Path("/r"), Path("/p"), "/s", "/w", "--",
        "env", "-i", f"PATH={unprepared.PATH}", "HOME=/h", "true",
    ]  # fmt: skip
