"""How many requests a server gets at once: more while all goes well, half when it complains."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST, MOST = 4.0, 8.0  # requests at a time


class Gate:
    """The requests to one host; not shared by threads without a lock around it.

    :param clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.limit = FIRST
        self.active = 0
        self.closed_until = 0.0
        self._lowered = 0.0

    def wait(self) -> float:
        """Return the seconds until the next request may go; infinite: when another has ended."""
        if self.active >= int(self.limit):
            return float("inf")
        return max(0.0, self.closed_until - self._clock())

    def enter(self) -> float:
        """Begin a request; return when, for :meth:`crowded`."""
        self.active += 1
        return self._clock()

    def leave(self) -> None:
        """End a request."""
        self.active -= 1

    def went_well(self) -> None:
        """A request brought what it was for."""
        self.limit = min(MOST, self.limit + 1.0 / self.limit)

    def crowded(self, begun: float, after: float) -> None:
        """The host complained about a request that was begun then; nobody asks before ``after``.

        Requests that were under way together complain together: that counts once.
        """
        now = self._clock()
        self.closed_until = max(self.closed_until, now + after)
        if begun >= self._lowered:
            self.limit = max(1.0, self.limit / 2)
            self._lowered = now
