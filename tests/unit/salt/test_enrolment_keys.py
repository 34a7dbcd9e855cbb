"""Keys of a machine that joins: somebody else's, ones that were lost, and what is none."""

from __future__ import annotations

import base64
import pathlib

import pytest

from .newcomer import Newcomer
from .test_enrolment import call


@pytest.fixture
def newcomer(tmp_path: pathlib.Path) -> Newcomer:
    return Newcomer(tmp_path)


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("minions", "has accepted a minion named worker that never joined here"),
        ("minions_rejected", "rejects a minion named worker"),
    ],
)
def test_key_of_somebody(newcomer: Newcomer, folder: str, words: str) -> None:
    place = newcomer.pki / "salt-master" / folder
    place.mkdir(exist_ok=True)
    (place / "worker").write_text("KEY")
    (problem,) = call(newcomer, "check")["problems"]
    assert words in problem
    assert call(newcomer, "forget")["changed"]
    assert call(newcomer, "check")["problems"] == []


def test_key_that_was_lost_there(newcomer: Newcomer) -> None:
    """The machine makes another; it is the same one, so the master gets that."""
    call(newcomer, "enrol")
    (newcomer.root / "etc/salt/pki/minion/minion.pem").unlink()
    answer = call(newcomer, "enrol")
    accepted = newcomer.pki / "salt-master/minions/worker"
    assert str(accepted) in answer["comment"]
    public = newcomer.there()["etc/salt/pki/minion/minion.pub"][0]
    assert accepted.read_text() == public


@pytest.mark.parametrize("said", [b"\xff", b"/etc/kubernetes/pki/ca.crt", b"KEY"])
def test_keys_that_are_none(newcomer: Newcomer, said: bytes) -> None:
    """A machine that lies names no file of this one, which Salt would read."""
    enrolment = newcomer.modules["enrolment"]
    for answer in (base64.b64encode(said).decode(), "no base64"):
        with pytest.raises(enrolment.FailedError, match=r"of its keys \(minion\) is not in PEM"):
            enrolment._pem({"minion": answer}, "minion")
    assert enrolment._pem({}, "certificate") == ""
