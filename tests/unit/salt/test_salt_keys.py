"""The keys by which a Salt master and a minion know each other."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from .loader import load


class Machine:
    """Folders of keys, and doubles of what Salt does with a key and a file."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.master, self.minion = folder / "master", folder / "minion"
        (self.master / "minions").mkdir(parents=True)
        self.minion.mkdir()
        self.written: dict[str, tuple[str, str]] = {}
        self.made = 0
        self.is_full = False

    def make_key(self, keysize: int) -> str:
        self.made += 1
        return f"key {self.made} of {keysize} bits\n"

    def managed(self, name: str, contents: str, user: str, mode: str, **_: Any) -> dict[str, Any]:
        if self.is_full:
            return {"name": name, "result": False, "changes": {}, "comment": "no space left"}
        if not self.opts["test"]:
            pathlib.Path(name).write_text(contents, encoding="ascii")
            self.written[pathlib.Path(name).name] = (user, mode)
        result = None if self.opts["test"] else True
        return {"name": name, "result": result, "changes": {"diff": "new"}, "comment": ""}

    def exchanged(self, *, test: bool = False) -> dict[str, Any]:
        self.opts = {"test": test}
        functions = {
            "x509.create_private_key": self.make_key,
            "metalk8s_keys.public": lambda key: f"public {pathlib.Path(key).read_text('ascii')}",
        }
        states = {"file.managed": self.managed}
        module = load("_states/metalk8s_salt_keys", salt=functions, states=states, opts=self.opts)
        answer: dict[str, Any] = module.exchanged(
            "first", str(self.master), str(self.minion), "keeper", 2048
        )
        return answer


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """Give a machine without keys."""
    return Machine(tmp_path)


def test_each_has_the_key_of_the_other(machine: Machine) -> None:
    """The master's files are its account's, private keys are nobody else's to read."""
    answer = machine.exchanged()
    assert (answer["result"], len(answer["changes"])) == (True, 6)
    master = (machine.master / "master.pub").read_text("ascii")
    minion = (machine.minion / "minion.pub").read_text("ascii")
    assert master != minion
    assert (machine.minion / "minion_master.pub").read_text("ascii") == master
    assert (machine.master / "minions/first").read_text("ascii") == minion
    assert machine.written == {
        "master.pem": ("keeper", "0400"),
        "master.pub": ("keeper", "0644"),
        "first": ("keeper", "0644"),
        "minion.pem": ("root", "0400"),
        "minion.pub": ("root", "0644"),
        "minion_master.pub": ("root", "0644"),
    }


def test_again(machine: Machine) -> None:
    """Also when Salt has written the public keys in its own way."""
    machine.exchanged()
    public = machine.minion / "minion.pub"
    public.write_text(public.read_text("ascii").strip(), encoding="ascii")
    answer = machine.exchanged()
    assert (answer["result"], answer["changes"]) == (True, {})
    assert answer["comment"] == "The master and first know each other"
    assert machine.made == 2


def test_another_key_is_put_right(machine: Machine) -> None:
    """A key that a stranger would know is replaced by the one that belongs there."""
    machine.exchanged()
    accepted = machine.master / "minions/first"
    accepted.write_text("public key of a stranger\n", encoding="ascii")
    answer = machine.exchanged()
    assert list(answer["changes"]) == [str(accepted)]
    assert accepted.read_text("ascii") == (machine.minion / "minion.pub").read_text("ascii")


def test_in_a_test_nothing_is_written(machine: Machine) -> None:
    """But what would be is told."""
    answer = machine.exchanged(test=True)
    assert answer["result"] is None
    assert {pathlib.Path(name).name for name in answer["changes"]} == {"master.pem", "minion.pem"}
    assert not list(machine.minion.iterdir())


def test_what_cannot_be_written_fails(machine: Machine) -> None:
    """With the reason."""
    machine.exchanged()
    (machine.minion / "minion_master.pub").unlink()
    machine.is_full = True
    answer = machine.exchanged()
    assert (answer["result"], answer["comment"]) == (False, "no space left")
