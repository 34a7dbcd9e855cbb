"""YAML that would take a machine's memory or Python's patience."""

import time

import pytest
from metalk8s_bootstrap import document
from metalk8s_bootstrap.document import DEPTH, Reader

# Each list holds the one before nine times: 9 to the 9th values in 310 bytes.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(9 * [f'*{before}'])}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (BOMB, 2, "*a is an alias"),
        ("a: &a\n  b: *a\n", 2, "*a is an alias"),
        ("a: &a [*a]\n", 1, "*a is an alias"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", 3, "*a is an alias"),
        ("a: " + "[" * (DEPTH + 1) + "]" * (DEPTH + 1), 1, f"is nested more than {DEPTH} deep"),
        ("a:\n " + "- " * 5000 + "x\n", 2, f"is nested more than {DEPTH} deep"),
        ("[" * 100000, 1, f"is nested more than {DEPTH} deep"),
        ("{a: " * 5000, 1, f"is nested more than {DEPTH} deep"),
    ],
)
def test_what_grows_is_refused(tmp_path, text, line, words):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    reader = Reader(path)
    began = time.process_time()
    assert reader.read() is None
    assert time.process_time() - began < 2
    (problem,) = reader.problems
    assert (problem.where, problem.what) == (f"{path}:{line}", words)
    assert problem.remedy


def test_what_a_configuration_needs_is_read(tmp_path):
    deep = "x"
    for _ in range(DEPTH - 1):
        deep = f"[{deep}]"
    path = tmp_path / "a.yaml"
    path.write_text(f"a: &unused {deep}\nb: 2\n")
    reader = Reader(path)
    read = reader.read()
    assert reader.problems == []
    assert read is not None
    assert read.plain()["b"] == 2
    assert document.DEPTH >= 10
