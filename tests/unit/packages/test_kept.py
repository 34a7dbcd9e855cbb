"""What one checkout made, another takes: when all that decides it is the same."""

import dataclasses
import functools
import shutil

import pytest

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.core.receipt import Made
from buildchain.core.step import Step
from buildchain.packages import kept


class Checkout:
    """A folder with a build, one step of which makes a folder out of a file and another's."""

    def __init__(self, root, cache):
        self.layout = Layout(root, root / "_build", cache, "demo")
        self.target = self.layout.build / "made"
        self.times = 0
        for name in ("buildchain/room/code.py", "source", "_build/other"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(name)
        other = self.layout.build / "other"
        receipt.write(self.layout.receipt("other"), self.layout.build, Made((other,)))
        self.step = Step(
            self.layout,
            "_area_verb:item",
            "MAKE item",
            self.make,
            inputs=(root / "source",),
            needs=("other",),
            config={"pin": 1},
            keep=functools.partial(kept.once, cache / "made/item", self.target),
        )

    def make(self):
        self.times += 1
        (self.target / "folder").mkdir(parents=True, exist_ok=True)
        (self.target / "folder/file").write_text("content")
        return Made((self.target,), {"digest": "abc"})

    def run(self):
        self.step._execute()
        return receipt.read(self.step.receipt)


@pytest.fixture
def checkouts(tmp_path):
    return [Checkout(tmp_path / name, tmp_path / "cache") for name in ("one", "two")]


def test_the_second_takes_what_the_first_made(checkouts):
    one, two = checkouts
    first, second = one.run(), two.run()
    assert (one.times, two.times) == (1, 0)
    assert first == second, "files, modes and facts"
    assert (two.target / "folder/file").read_text() == "content"
    assert second.facts == {"digest": "abc"}


def test_what_lies_at_its_place_goes(checkouts):
    one, two = checkouts
    one.run()
    two.target.mkdir()
    (two.target / "old").touch()
    two.run()
    assert not (two.target / "old").exists()


CHANGES = {
    "a source": lambda one: (one.layout.root / "source").write_text("other"),
    "whether it can be executed": lambda one: (one.layout.root / "source").chmod(0o755),
    "code of the build": lambda one: (one.layout.root / "buildchain/new.py").touch(),
    "code that changed": lambda one: (one.layout.root / "buildchain/room/code.py").write_text(""),
    "what another step made": lambda one: receipt.write(
        one.layout.receipt("other"), one.layout.build, Made((), {"more": 1})
    ),
    "a pin": lambda one: setattr(one, "step", dataclasses.replace(one.step, config={"pin": 2})),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_decides_it_makes_it_anew(checkouts, change):
    one, two = checkouts
    one.run()
    CHANGES[change](two)
    two.run()
    assert two.times == 1


def test_what_was_damaged_is_made_anew(checkouts):
    """An output is a link to what is kept: who writes into one writes into the other."""
    one, two = checkouts
    one.run()
    (one.target / "folder/file").write_text("CONTENT")
    two.run()
    assert two.times == 1
    assert (two.target / "folder/file").read_text() == "content"


def test_a_failure_is_not_kept(checkouts):
    one, two = checkouts
    fails = dataclasses.replace(one.step, action=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fails._execute()
    two.run()
    assert two.times == 1


def test_without_the_cache_it_is_made(checkouts, tmp_path):
    one, two = checkouts
    one.run()
    shutil.rmtree(tmp_path / "cache")
    two.run()
    assert two.times == 1
