"""Authorities are made once."""

from __future__ import annotations

import json
import os
import pathlib
import stat

import pytest

from .loader import load


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("ca.key", "ca.crt", "sa.key", "sa.pub"):
        (tmp_path / name).write_text(name)
    return tmp_path


def intact(folder: pathlib.Path) -> dict[str, object]:
    pairs = [
        {"key": f"{folder}/ca.key", "public": f"{folder}/ca.crt"},
        {"key": f"{folder}/sa.key", "public": f"{folder}/sa.pub"},
    ]
    state = load("_states/metalk8s_authorities")
    return dict(state.intact(f"{folder}/made.json", pairs))


def recorded(folder: pathlib.Path, test: bool = False) -> dict[str, object]:
    state = load("_states/metalk8s_authorities", opts={"test": test})
    files = [f"{folder}/{name}" for name in ("ca.key", "ca.crt", "sa.key")]
    return dict(state.recorded(f"{folder}/made.json", files))


def test_a_first_time(tmp_path: pathlib.Path) -> None:
    assert intact(tmp_path)["result"] is True


def test_a_run_that_was_killed_between_a_key_and_its_certificate(folder: pathlib.Path) -> None:
    (folder / "ca.crt").unlink()
    (folder / "sa.pub").unlink()
    assert intact(folder)["result"] is True


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (("ca.key",), "Lost: {0}/ca.key. "),
        (("ca.crt",), "Lost: {0}/ca.crt. "),
        (("sa.key", "sa.pub"), "Lost: {0}/sa.key. "),
        (("ca.key", "ca.crt", "sa.key"), "Lost: {0}/ca.crt, {0}/ca.key, {0}/sa.key. "),
    ],
)
def test_what_is_lost_is_named_and_not_made_anew(
    folder: pathlib.Path, lost: tuple[str, ...], named: str
) -> None:
    assert recorded(folder)["changes"]
    for name in lost:
        (folder / name).unlink()
    told = intact(folder)
    assert told["result"] is False
    assert str(told["comment"]).startswith(named.format(folder))
    assert "restore them from a backup" in str(told["comment"])


@pytest.mark.parametrize("lost", ["ca", "sa"])
def test_a_certificate_without_a_record_is_one(folder: pathlib.Path, lost: str) -> None:
    """Of a version that kept none, or where the record is lost too."""
    (folder / f"{lost}.key").unlink()
    assert f"Lost: {folder}/{lost}.key. " in str(intact(folder)["comment"])


def test_a_public_half_can_be_made_again(folder: pathlib.Path) -> None:
    recorded(folder)
    (folder / "sa.pub").unlink()
    assert intact(folder)["result"] is True


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_record(folder: pathlib.Path, umask: int) -> None:
    assert recorded(folder, test=True)["result"] is None
    assert not (folder / "made.json").exists()
    (folder / ".made.json.new").write_text("left by a killed run")
    before = os.umask(umask)
    try:
        assert recorded(folder)["result"] is True
    finally:
        os.umask(before)
    path = folder / "made.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert json.loads(path.read_text()) == [f"{folder}/{n}" for n in ("ca.crt", "ca.key", "sa.key")]
    assert recorded(folder)["changes"] == {}
    state = load("_states/metalk8s_authorities")
    state.recorded(str(path), ["/new/ca.key"])
    assert len(json.loads(path.read_text())) == 4
