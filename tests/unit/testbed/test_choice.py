"""Which of Kubernetes' own tests are chosen: the patterns, beside the list of all there are."""

import re

import pytest

from tests.conformance import choice
from tests.conformance.choice import Choice


@pytest.fixture(scope="module")
def chosen():
    return choice.read()


@pytest.fixture(scope="module")
def known():
    return choice.known()


def test_it_fits_the_tests_that_there_are(chosen, known):
    assert known == sorted(set(known))
    assert chosen.problems(known) == []


def test_what_has_to_pass_is_chosen_or_has_a_reason(chosen, known):
    """All that the suite marks as conformance, and all about policies, however it is marked."""
    whole = set(chosen.whole(known))
    required = {n for n in known if "[Conformance]" in n or "NetworkPolicy" in n}
    assert len(required) > 60
    assert required - whole == set(chosen.excluded)
    assert whole - required == set()
    for subject, least in (("] DNS ", 8), ("] Services ", 16), ("] NetworkPolicy ", 30)):
        assert sum(subject in name for name in whole) >= least


def test_the_dozen_is_of_every_kind(chosen):
    for word in ("DNS", "NodePort", "affinity", "deny", "named port", "CIDR", "Namespace"):
        assert any(word in name for name in chosen.dozen), word


ALL = ["[n] A one [C]", "[n] A two", "[n] B three [Serial]", *(f"[n] D {i:02}" for i in range(12))]
DOZEN = tuple(ALL[3:])


@pytest.mark.parametrize(
    ("subjects", "dozen", "excluded", "problem"),
    [
        ({"d": "] D"}, DOZEN, {ALL[0]: "why"}, "excluded, but of no subject: [n] A one [C]"),
        ({"d": "] D", "a": "] A"}, DOZEN, {ALL[1]: ""}, "excluded without a reason: [n] A two"),
        ({"d": "] D"}, (*DOZEN[1:], ALL[1]), {}, "of the dozen, but not of the whole: [n] A two"),
        ({"d": "] D"}, DOZEN[1:], {}, "the dozen has 11 tests"),
        ({"d": "] D", "b": "] B"}, DOZEN, {}, "cannot run beside others: [n] B three [Serial]"),
        ({"d": "] D", "e": "] E"}, DOZEN, {}, "no test is about e"),
    ],
)
def test_mistakes(subjects, dozen, excluded, problem):
    assert Choice(subjects, dozen, excluded).problems(ALL) == [problem]


def test_focus_is_those_and_no_others(known):
    """By whole names, whatever they have in common or in the way of special characters."""
    for name in known:
        pattern = choice.focus([name, "[sig-none] nothing"])
        assert [other for other in known if re.search(pattern, f"Kubernetes {other}")] == [name]
