"""How long to wait before the next attempt."""

from __future__ import annotations

import random


class Backoff:
    """Seconds that double with every failure, each drawn from the upper half of its span.

    Programs of many machines lose the API server at the same moment: they must not come back so.
    """

    def __init__(self, first: float = 0.5, last: float = 30.0) -> None:
        self._first, self._last = first, last
        self._next = first

    def reset(self) -> None:
        """Start again from the shortest pause."""
        self._next = self._first

    def pause(self) -> float:
        """Return the seconds to wait now."""
        span = self._next
        self._next = min(self._last, span * 2)
        return random.uniform(span / 2, span)  # noqa: S311 -- no secret
