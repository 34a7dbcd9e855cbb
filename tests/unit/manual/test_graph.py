import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain import drawing
from buildchain.manual import graph
from tests.conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def edges(text):
    """Return edges out of `a:b,c d:`."""
    found = (word.split(":") for word in text.split())
    return {name: frozenset(filter(None, needs.split(","))) for name, needs in found}


@pytest.mark.parametrize(
    ("text", "start", "names"),
    [("a:b b:c c: d:a", "a", "abc"), ("a:b b:a c:", "b", "ab"), ("a:z", "a", "az")],
)
def test_what_is_needed(text, start, names):
    assert sorted(graph.needed(edges(text), [start])) == list(names)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:b,c b:c c:", {"a": "b", "b": "c", "c": ""}),
        ("a:b b:a,c c:", {"ab": "c", "c": ""}),
        ("a:b,c,d b:d c:d d:", {"a": "bc", "b": "d", "c": "d", "d": ""}),
        ("a:b,c b:c c:b", {"a": ["bc"], "bc": ""}),
    ],
)
def test_boxes(text, found):
    wanted = {tuple(box): {tuple(need) for need in needs} for box, needs in found.items()}
    assert {box: set(needs) for box, needs in graph.boxes(edges(text)).items()} == wanted


def test_rows():
    found = graph.boxes(edges("a:b,c b:d c:d d: e:"))
    assert graph.rows(found) == [[("d",), ("e",)], [("b",), ("c",)], [("a",)]]
    assert graph.rows({}) == []


NAMES = "abcdef"


@given(st.dictionaries(st.sampled_from(NAMES), st.frozensets(st.sampled_from(NAMES))))
def test_any_steps_are_drawn(needs):
    """Each in one box, below what it needs; boxes of a row do not touch; the order is no matter."""
    whole = graph.needed(needs, sorted(needs))
    table = graph.rows(graph.boxes(whole))
    depth = {name: number for number, row in enumerate(table) for box in row for name in box}
    assert sorted(depth) == sorted(whole)
    for name, others in whole.items():
        assert all(depth[other] <= depth[name] for other in others)
    drawn = graph.svg(whole, "<t>")
    assert drawn == graph.svg(dict(reversed(whole.items())), "<t>")
    root = ElementTree.fromstring(drawn)
    rects = [tuple(float(one.get(key)) for key in ("x", "y", "width"))
             for one in root.findall(f"{SVG}rect") if one.get("x")]  # fmt: skip
    for (x1, y1, wide), (x2, y2, _) in itertools.pairwise(
        sorted(rects, key=lambda r: (r[1], r[0]))
    ):
        assert y1 != y2 or x1 + wide < x2
    assert sorted(one.text for one in root.findall(f"{SVG}text")) == sorted(whole)


def task(name, *, needs=(), files=(), makes=()):
    return SimpleNamespace(
        name=name, task_dep=list(needs), file_dep=set(files), targets=list(makes)
    )


def test_steps_of_doit():
    found, groups = drawing.steps([
        task("_a:x", makes=["a"]),
        task("_a:y", needs=["check_for:git"]),
        task("_b", files=["a", "source"], makes=["b"]),
        task("iso", needs=["_b", "check_for:git"]),
        task("iso:more", needs=["_a:y"]),
    ])  # fmt: skip
    assert found == {"_a": frozenset(), "_b": frozenset({"_a"})}
    assert groups == {"iso": frozenset({"_a", "_b"})}


def test_the_drawing_of_the_manual(tmp_path):
    """It is what `./doit.sh graph` draws today: run that, look at the difference and commit it."""
    output = tmp_path / "graph.svg"
    subprocess.run(
        [sys.executable, "-m", "buildchain", "graph", "--output", output.name],
        cwd=ROOT, env={**os.environ, "PROFILE": "default", "CALLED_FROM": str(tmp_path)},
        check=True, timeout=120,
    )  # fmt: skip
    drawn = output.read_text(encoding="utf-8")
    assert "_iso_build" in drawn
    assert (ROOT / drawing.DRAWING).read_text(encoding="utf-8") == drawn
