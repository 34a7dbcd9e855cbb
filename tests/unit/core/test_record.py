"""The text of records: what differs has other texts, what only moved has the same."""

import dataclasses
import enum
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest

from buildchain.core import record
from buildchain.core.record import Later


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Inner:
    name: str


@dataclass(frozen=True)
class Other:
    name: str


@dataclass
class Loose:
    name: str


@dataclass(frozen=True)
class Outer:
    value: object


def text(layout, value):
    return record.text(Outer(value), layout)


DIFFERENT = [
    None, True, 1, "1", "", "True", (), ("",), ("a", "b"), ("b", "a"), ("a", ("b",)), ("ab",),
    {}, {"a": "b"}, {"a": "b", "c": "d"}, {"c": "d", "a": "b"}, frozenset(), frozenset("ab"),
    Path("a"), Path("/a"), Colour.RED, Colour.BLUE, "RED", Inner("a"), Inner("b"), Other("a"),
    (Inner("a"),), {"Inner": {"name": "a"}},
]  # fmt: skip


def test_what_differs_has_other_texts(layout):
    texts = [text(layout, value) for value in DIFFERENT]
    assert len(set(texts)) == len(texts)
    assert texts == [text(layout, value) for value in DIFFERENT]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (frozenset("ab"), frozenset("ba")),
        ({"a": "b"}, MappingProxyType({"a": "b"})),
        (Later(lambda: "x"), "x"),
    ],
)
def test_what_is_the_same_has_the_same(layout, one, same):
    assert text(layout, one) == text(layout, same)


def test_what_only_moved_is_the_same(layout, tmp_path):
    folders = ("root", "build", "cache")

    def told(place):
        return {name: getattr(place, name) / "x" / "y" for name in folders}

    moved = dataclasses.replace(layout, **{name: tmp_path / f"other-{name}" for name in folders})
    inside = dataclasses.replace(layout, build=layout.root / "_build", cache=layout.root / "cache")
    for place in (moved, inside):
        assert text(place, told(place)) == text(layout, told(layout))
    assert text(moved, told(layout)) != text(layout, told(layout))


def test_a_file_that_can_be_executed_is_another(layout):
    file = layout.root / "script"
    file.write_text("x")
    before = text(layout, file)
    file.chmod(0o755)
    assert text(layout, file) != before
    made = layout.build / "script"
    made.write_text("x")
    before = text(layout, made)
    made.chmod(0o755)
    assert text(layout, made) == before, "a receipt says it"


def test_files(layout, tmp_path):
    given, elsewhere = layout.root / "given", tmp_path / "elsewhere"
    for path in (given, elsewhere, layout.build / "made", layout.cache / "fetched"):
        path.write_text("x")
    told = {
        "given": (given, given),
        "gone": layout.root / "gone",
        "else": Inner("x"),
        "elsewhere": Outer({elsewhere: 1}),
        "made": layout.build / "made",
        "fetched": layout.cache / "fetched",
        "receipt": layout.receipt("_x"),
    }
    found = record.files(Outer(told), layout)
    assert found == (given, elsewhere, layout.receipt("_x")), "each once"


def test_nothing_is_computed_for_the_files(layout):
    assert record.files(Outer(Later(lambda: 1 / 0)), layout) == ()


@pytest.mark.parametrize(
    "value",
    [
        ["x"],
        {"x": ["x"]},
        Loose("x"),
        1.5,
        b"x",
        object(),
        SimpleNamespace(),
        print,
        {1: {"a"}, 2: []},
    ],
)
def test_what_cannot_be_told(layout, value):
    with pytest.raises(TypeError, match=r"Outer\.value.* is a \w+, which no step can be told"):
        record.files(Outer(value), layout)
    with pytest.raises(TypeError, match="cannot be told to a step"):
        text(layout, value)


def test_what_is_known_late_is_looked_at_as_well(layout):
    with pytest.raises(TypeError, match="a list cannot be told"):
        text(layout, Later(lambda: ["x"]))


def test_a_folder_says_nothing_of_its_files(layout):
    with pytest.raises(TypeError, match=r"Outer\.value is the folder .*: name its files"):
        record.files(Outer(layout.root), layout)


def test_a_record_is_a_frozen_dataclass(layout):
    for wrong in (Loose("x"), SimpleNamespace()):
        with pytest.raises(TypeError):
            record.files(wrong, layout)
