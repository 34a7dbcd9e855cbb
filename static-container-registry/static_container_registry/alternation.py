"""Regular expressions that match exactly one of many names.

Common beginnings are factored out, so the time to match depends on the length of the
name asked for and hardly on how many names there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby


def alternation(words: Sequence[str]) -> str:
    """Return a PCRE group for a non-empty set of names of the OCI grammar."""
    unique = sorted(set(words))
    if len(unique) == 1:
        return escape(unique[0])
    head = common_beginning(unique[0], unique[-1])
    tails = [word[len(head) :] for word in unique]
    branches = [alternation(list(group)) for _, group in groupby(tails, lambda tail: tail[:1])]
    return f"{escape(head)}(?:{'|'.join(branches)})"


def common_beginning(first: str, last: str) -> str:
    """What the ends of a sorted list share is shared by everything between them."""
    length = next((i for i, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    return first[:length]


def escape(text: str) -> str:
    """Escape a name; the dot is the only character of its grammar that means more."""
    return text.replace(".", r"\.")


def cost(before: str, word: str) -> int:
    """How much longer an alternation gets by a word, at most, if ``before`` sorts before it."""
    shared = len(common_beginning(before, word))
    return len(word) - shared + word.count(".", shared) + len("(?:|)")


def batches(words: Iterable[str], budget: int, cost: Callable[[str, str], int]) -> list[list[str]]:
    """Cut into runs that cost at most ``budget``, or have one word.

    :param cost: of a word behind another one; behind ``""`` at the beginning of a run.
    """
    runs: list[list[str]] = []
    room = 0
    for word in words:
        needed = cost(runs[-1][-1], word) if runs else 0
        if not runs or needed > room:
            runs.append([])
            needed, room = cost("", word), budget
        runs[-1].append(word)
        room -= needed
    return runs
