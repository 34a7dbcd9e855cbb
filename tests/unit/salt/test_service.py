"""Services that read files only when they are started."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from .loader import load

Renewed = Callable[..., dict[str, Any]]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kubelet.crt"
    path.write_text("")
    return path


@pytest.fixture
def renewed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, file: pathlib.Path) -> Renewed:
    """Ask about a service that systemd started a hundred seconds ago."""
    (tmp_path / "systemctl").write_text(
        """#!/bin/sh
        [ "$1 $4" = "show kubelet" ]
        echo "ActiveState=$STATE"
        echo "ExecMainStartTimestampMonotonic=$STARTED"
        """
    )
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("STARTED", str(int((time.monotonic() - 100) * 1e6)))

    def ask(age: int, state: str = "active", test: bool = False, works: bool = True) -> Any:
        monkeypatch.setenv("STATE", state)
        os.utime(file, (0, time.time() - age))
        functions = {"service.restart": lambda name: works}
        module = load("_states/metalk8s_service", salt=functions, opts={"test": test})
        return module.renewed("kubelet", [str(file)])

    return ask


def test_restarted_when_a_file_is_newer(renewed: Renewed, file: pathlib.Path) -> None:
    """Not when it is older, and not when the service does not run."""
    answer = renewed(50)
    assert (answer["result"], answer["changes"]) == (True, {"newer": [str(file)]})
    assert (renewed(150)["result"], renewed(150)["changes"]) == (True, {})
    assert (renewed(50, state="inactive")["result"], renewed(50, "failed")["changes"]) == (True, {})


def test_test_mode_restarts_nothing(renewed: Renewed) -> None:
    """It foresees the restart."""
    answer = renewed(50, test=True, works=False)
    assert answer["result"] is None
    assert answer["changes"]


def test_service_that_does_not_start(renewed: Renewed) -> None:
    """Is a failure."""
    answer = renewed(50, works=False)
    assert (answer["result"], answer["comment"]) == (False, "kubelet could not be restarted")


def test_a_file_that_is_still_to_be_written_is_newer(renewed: Renewed, file: pathlib.Path) -> None:
    """In a test, states before have only said that they would write it."""
    ask = renewed(150, test=True)
    assert ask["changes"] == {}
    missing = file.with_name("missing")
    module = load("_states/metalk8s_service", opts={"test": True})
    answer = module.renewed("kubelet", [str(file), str(missing)])
    assert (answer["result"], answer["changes"]) == (None, {"newer": [str(missing)]})
