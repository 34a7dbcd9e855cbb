from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from static_container_registry import OptionError
from static_container_registry.alternation import alternation, batches, cost
from static_container_registry.grammar import (
    hex_of_digest,
    is_name,
    is_tag,
    require_name_prefix,
    require_server_root,
    split_placeholders,
)

NAME = st.from_regex(r"[a-z0-9]{1,4}((\.|_|__|-{1,3})[a-z0-9]{1,3}){0,2}", fullmatch=True)
NAMES = st.lists(NAME, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    "name", ["a", "pause", "a.b", "a_b", "a__b", "a-b", "a---b", "org/team/app", "0", "a" * 255]
)
def test_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "a.",
        ".a",
        "a..b",
        "a___b",
        "a._b",
        "/a",
        "a/",
        "a//b",
        "a b",
        "é",
        "a\n",
        "a" * 256,
    ],
)
def test_not_a_name(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("tag", "valid"),
    [
        ("1.0", True),
        ("_x", True),
        ("V1-rc.1", True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("", False),
        (".a", False),
        ("-a", False),
        ("a+b", False),
        ("a:b", False),
        ("a\n", False),
    ],
)
def test_tag(tag: str, valid: bool) -> None:
    assert is_tag(tag) is valid


def test_digest() -> None:
    assert hex_of_digest("sha256:" + "0a" * 32) == "0a" * 32
    for wrong in ("0a" * 32, "sha256:" + "0A" * 32, "sha256:" + "0a" * 32 + "\n", "sha512:" + "0a"):
        assert hex_of_digest(wrong) is None


@pytest.mark.parametrize(
    ("prefix", "result"),
    [
        ("", ""),
        ("/", ""),
        ("a/b/", "a/b"),
        ("{{ repository }}", "{{ repository }}"),
        ("metalk8s-{{ version }}/x", "metalk8s-{{ version }}/x"),
    ],
)
def test_name_prefix(prefix: str, result: str) -> None:
    assert require_name_prefix(prefix) == result


@pytest.mark.parametrize("prefix", ["A", "a b", "$x", "{{ }", "{% x %}", 'a"', "a;", "a\n", "a//b"])
def test_bad_name_prefix(prefix: str) -> None:
    with pytest.raises(OptionError) as caught:
        require_name_prefix(prefix)
    assert repr(prefix) in caught.value.reason
    assert "{{ repository }}" in caught.value.solution


@pytest.mark.parametrize(
    ("root", "result"),
    [
        ("/srv/images/", "/srv/images"),
        ("/srv/two words", "/srv/two words"),
        ("$root", "$root"),
        ("$root/images", "$root/images"),
        ("{{ registry_root }}", "{{ registry_root }}"),
        ("{{ registry_root }}/images", "{{ registry_root }}/images"),
        ("/srv/{{ name }}-{{ version }}", "/srv/{{ name }}-{{ version }}"),
    ],
)
def test_server_root(root: str, result: str) -> None:
    assert require_server_root(root) == result


@pytest.mark.parametrize(
    "root", ["", "images", "$", "$root.x", "/a$b", '/a"', "/a\\b", "/a{b", "/a\nb", "$a;{% x %}"]
)
def test_bad_server_root(root: str) -> None:
    with pytest.raises(OptionError):
        require_server_root(root)


def test_split_placeholders() -> None:
    pieces = [("a-", False), ("{{ b }}", True), ("/", False)]
    assert split_placeholders("a-{{ b }}/") == pieces


@given(NAMES)
def test_generated_names_are_names(name: str) -> None:
    assert is_name(name)


@given(NAMES, st.text(min_size=1, max_size=3))
def test_names_stay_strict_whatever_is_appended(name: str, tail: str) -> None:
    if is_name(name + tail):
        assert re.fullmatch(r"[a-z0-9._/-]+", tail)
        assert tail[-1].isalnum()


@given(st.sets(NAMES, min_size=1, max_size=20), NAMES)
def test_alternation_matches_its_names_and_no_other(names: set[str], other: str) -> None:
    pattern = re.compile(f"(?:{alternation(sorted(names))})")
    assert all(pattern.fullmatch(name) for name in names)
    assert (pattern.fullmatch(other) is not None) == (other in names)


def test_alternation_takes_dots_literally() -> None:
    assert alternation(["a.b", "a.c"]) == r"a\.(?:b|c)"
    assert alternation(["a", "a/b"]) == "a(?:|/b)"


def test_batches_keep_order_and_budget() -> None:
    assert batches(["aa", "bb", "cc"], 6, lambda _, word: len(word) + 1) == [["aa", "bb"], ["cc"]]
    assert batches(["longer than all"], 3, lambda _, word: len(word)) == [["longer than all"]]


@given(st.sets(NAMES, min_size=1, max_size=20))
def test_cost_is_not_too_low(names: set[str]) -> None:
    ordered = sorted(names)
    told = sum(cost(before, word) for before, word in zip(["", *ordered], ordered))
    assert len(alternation(ordered)) <= told
