"""Regular expressions that match exactly one of many names.

Common beginnings are factored out, so the time to match depends on the length of the
name asked for and hardly on how many names there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby


def alternation(words: Sequence[str]) -> str:
    """Return a PCRE group for a non-empty set of names of the OCI grammar."""
    unique = sorted(set(words))
    if len(unique) == 1:
        return escape(unique[0])
    head = _common_beginning(unique[0], unique[-1])
    tails = [word[len(head) :] for word in unique]
    branches = [alternation(list(group)) for _, group in groupby(tails, lambda tail: tail[:1])]
    return f"{escape(head)}(?:{'|'.join(branches)})"


def _common_beginning(first: str, last: str) -> str:
    """What the ends of a sorted list share is shared by everything between them."""
    length = next((i for i, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    return first[:length]


def escape(text: str) -> str:
    """Escape a name; the dot is the only character of its grammar that means more."""
    return text.replace(".", r"\.")


def batches(words: Iterable[str], budget: int, extra: int) -> list[list[str]]:
    """Cut into runs of at most ``budget`` characters, counting ``extra`` more per word."""
    runs: list[list[str]] = []
    room = 0
    for word in words:
        cost = len(word) + extra
        if not runs or cost > room:
            runs.append([])
            room = budget
        runs[-1].append(word)
        room -= cost
    return runs
