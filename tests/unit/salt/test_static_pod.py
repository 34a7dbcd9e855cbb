"""Manifests of static pods."""

from __future__ import annotations

import itertools
import pathlib
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .loader import load

ENGINE = {"metalk8s_engine.command": lambda: ["ctr", "--address", "/s", "--namespace", "k8s.io"]}

NOTHING_RUNS: Iterator[list[str]] = itertools.repeat([])


def render(**arguments: Any) -> str:
    context = arguments["context"]
    return f"\n{arguments['path']} {context['config_digest'][:8]} {context['word']}\n\n"


def managed(
    path: pathlib.Path,
    word: str = "a",
    test: bool = False,
    containers: Iterator[list[str]] = NOTHING_RUNS,
    **more: Any,
) -> dict[str, Any]:
    functions = {
        "slsutil.renderer": render,
        "metalk8s_pods.running": lambda pod: next(containers),
    }
    module = load("_states/metalk8s_static_pod", salt=functions, opts={"test": test})
    module.PAUSE, module.TIMEOUT = 0, 0.2
    answer: dict[str, Any] = module.managed(
        str(path), source="salt://x", pod="etcd-node", context={"word": word}, **more
    )
    return answer


def test_written_once(tmp_path: pathlib.Path) -> None:
    """The second time there is nothing to do; nothing is left beside it; only root reads it."""
    path = tmp_path / "manifests" / "etcd.yaml"
    assert managed(path)["changes"]["diff"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["etcd.yaml"]
    again = managed(path)
    assert (again["result"], again["changes"]) == (True, {})


def test_left_over_of_a_killed_run_is_no_obstacle(tmp_path: pathlib.Path) -> None:
    """What was being written then is written anew."""
    (tmp_path / ".etcd.yaml.new").write_text("half")
    assert managed(tmp_path / "etcd.yaml")["result"] is True
    assert [file.name for file in tmp_path.iterdir()] == ["etcd.yaml"]


def test_changed_configuration_changes_the_manifest(tmp_path: pathlib.Path) -> None:
    """So that the kubelet runs the pod anew."""
    file, path = tmp_path / "server.crt", tmp_path / "etcd.yaml"
    file.write_text("one")
    managed(path, config_files=[str(file)])
    assert not managed(path, config_files=[str(file)])["changes"]
    file.write_text("two")
    assert managed(path, config_files=[str(file)])["changes"]


def test_opened_manifest_is_closed(tmp_path: pathlib.Path) -> None:
    """The mode is part of it."""
    path = tmp_path / "etcd.yaml"
    managed(path)
    path.chmod(0o644)
    assert managed(path)["changes"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_missing_configuration_is_an_error(tmp_path: pathlib.Path) -> None:
    """A pod that can't start is not written."""
    answer = managed(tmp_path / "etcd.yaml", config_files=["/nonexistent/ca.crt"])
    assert answer["result"] is False
    assert "/nonexistent/ca.crt" in answer["comment"]
    assert not (tmp_path / "etcd.yaml").exists()


@pytest.mark.parametrize("there", [True, False])
def test_test_mode_writes_nothing(tmp_path: pathlib.Path, there: bool) -> None:
    """It foresees the change, also before the files that the pod reads are there."""
    path = tmp_path / "etcd.yaml"
    if there:
        managed(path, word="a")
    answer = managed(path, word="b", test=True, config_files=["/nonexistent/ca.crt"])
    assert answer["result"] is None
    assert answer["changes"]["diff"]
    assert path.exists() is there


def test_returns_when_the_old_pod_is_gone(tmp_path: pathlib.Path) -> None:
    """Whoever asks the pod next must not be answered by the one that goes."""
    path = tmp_path / "etcd.yaml"
    managed(path)
    looks = iter([["old"], ["old"], ["old", "new"], ["new"]])
    assert managed(path, word="b", containers=looks)["result"] is True
    assert list(looks) == []
    stuck = managed(path, word="c", containers=itertools.repeat(["old"]))
    assert stuck["result"] is False
    assert "still runs the old etcd-node" in stuck["comment"]


def absent(
    path: pathlib.Path, containers: Iterator[list[str]], test: bool = False, engine: str = "/none"
) -> Any:
    functions = {
        "metalk8s_pods.running": lambda pod: next(containers),
        "metalk8s_engine.socket": lambda: engine,
    }
    module = load("_states/metalk8s_static_pod", salt=functions, opts={"test": test})
    module.PAUSE, module.TIMEOUT = 0, 0.2
    return module.absent(str(path), pod="etcd-node")


def test_absent_returns_when_the_pod_is_gone(tmp_path: pathlib.Path) -> None:
    """The container engine is asked only while there is something to wait for: it may be gone."""
    path = tmp_path / "etcd.yaml"
    path.write_text("kind: Pod")
    foreseen = absent(path, iter([]), test=True)
    assert (foreseen["result"], path.exists()) == (None, True)
    looks = iter([["old"], ["old"], []])
    answer = absent(path, looks)
    assert (answer["result"], answer["changes"]) == (True, {"removed": str(path)})
    assert (list(looks), path.exists()) == ([], False)
    again = absent(path, iter([]))
    assert (again["result"], again["changes"]) == (True, {})


def test_absent_says_that_a_pod_stays(tmp_path: pathlib.Path) -> None:
    """It is no success then, though the file is gone."""
    path = tmp_path / "etcd.yaml"
    path.write_text("kind: Pod")
    stuck = absent(path, itertools.repeat(["old"]))
    assert (stuck["result"], path.exists()) == (False, False)
    assert "still runs etcd-node" in stuck["comment"]


@pytest.fixture
def engine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the socket of an engine that takes connections, and have its client."""
    program = tmp_path / "bin/ctr"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("engine.sock")
        listening.listen()
        yield "engine.sock"


def test_absent_waits_again(tmp_path: pathlib.Path, engine: str) -> None:
    """A run that gave up waiting has removed the manifest: the next one is no success either."""
    path = tmp_path / "etcd.yaml"
    path.write_text("kind: Pod")
    assert absent(path, itertools.repeat(["old"]), engine=engine)["result"] is False
    stuck = absent(path, itertools.repeat(["old"]), engine=engine)
    assert (stuck["result"], stuck["changes"]) == (False, {})
    assert "still runs etcd-node" in stuck["comment"]
    looks = iter([["old"], ["old"], []])
    ended = absent(path, looks, engine=engine)
    assert (ended["result"], ended["changes"], list(looks)) == (True, {}, [])
    once = absent(path, iter([[]]), engine=engine)
    assert (once["result"], once["changes"]) == (True, {})
    assert absent(path, iter([]), engine=engine, test=True)["result"] is True


def test_absent_asks_an_engine_that_is_there(
    tmp_path: pathlib.Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped, never came or went is no obstacle, and costs no time."""
    path = tmp_path / "etcd.yaml"
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind("stopped.sock")  # which takes no connections, and stays when it is closed
    for other in ("stopped.sock", "none.sock"):
        assert absent(path, iter([]), engine=other)["result"] is True

    def fails() -> Iterator[list[str]]:
        raise subprocess.CalledProcessError(1, "ctr")
        yield []

    with pytest.raises(subprocess.CalledProcessError):
        absent(path, fails(), engine=engine)  # it is there, and does not say what runs
    (tmp_path / "bin/ctr").unlink()
    assert absent(path, iter([]), engine=engine)["result"] is True


MANIFEST = """\
metadata:
  name: etcd
  annotations:
    metalk8s.scality.com/config-digest: "{digest}"
    metalk8s.scality.com/config-files: "{files}"
spec: an operator's own
"""


def renewed(
    folder: pathlib.Path, test: bool = False, containers: Iterator[list[str]] = NOTHING_RUNS
) -> dict[str, Any]:
    functions = {"metalk8s_pods.running": lambda pod: next(containers)}
    module = load("_states/metalk8s_static_pod", salt=functions, opts={"test": test})
    module.PAUSE, module.TIMEOUT = 0, 0.2
    answer: dict[str, Any] = module.renewed(str(folder), node="node")
    return answer


def test_renewal_changes_the_digest_only(tmp_path: pathlib.Path) -> None:
    """And only of pods that read other files than before; what is none of ours is left alone."""
    digest = load("_states/metalk8s_static_pod").config_digest
    file, path = tmp_path / "server.crt", tmp_path / "etcd.yaml"
    file.write_text("one")
    before = MANIFEST.format(digest=digest([str(file)]), files=file)
    path.write_text(before)
    (tmp_path / "other.yaml").write_text("metadata: {name: other}")
    assert renewed(tmp_path)["changes"] == {}
    file.write_text("two")
    foreseen = renewed(tmp_path, test=True)
    assert (foreseen["result"], list(foreseen["changes"])) == (None, [str(path)])
    assert path.read_text() == before
    answer = renewed(tmp_path, containers=iter([["old"], ["old"], ["new"]]))
    assert (answer["result"], list(answer["changes"])) == (True, [str(path)])
    assert path.read_text() == MANIFEST.format(digest=digest([str(file)]), files=file)
    assert renewed(tmp_path)["changes"] == {}


def test_renewal_goes_on_after_a_failure(tmp_path: pathlib.Path) -> None:
    """Each pod that does not start anew is named; the others do."""
    for name, files in (("a", "/nonexistent/ca.crt"), ("b", ""), ("c", "")):
        (tmp_path / f"{name}.yaml").write_text(MANIFEST.format(digest="0" * 64, files=files))
    answer = renewed(tmp_path, containers=itertools.repeat(["old"]))
    assert answer["result"] is False
    assert list(answer["changes"]) == [str(tmp_path / "b.yaml"), str(tmp_path / "c.yaml")]
    assert f"{tmp_path}/a.yaml needs /nonexistent/ca.crt: not there" in answer["comment"]
    assert answer["comment"].count("still runs the old etcd-node") == 2


def test_running_containers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pod that have a running task."""
    (tmp_path / "ctr").write_text(
        """#!/bin/sh
        case "$*" in
            *'containers list --quiet labels."io.kubernetes.pod.name"==etcd-node') echo a; echo b ;;
            *'tasks list') printf '%s\\n' 'T P S' 'a 1 RUNNING' 'b 2 STOPPED' 'c 3 RUNNING' ;;
        esac
        """
    )
    (tmp_path / "ctr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert load("_modules/metalk8s_pods", salt=ENGINE).running("etcd-node") == ["a"]
