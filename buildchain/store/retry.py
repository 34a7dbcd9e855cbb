"""Whether a failed request is tried again, and when.

``Retry-After``: RFC 9110 section 10.2.3, seconds or a date.
"""

from __future__ import annotations

import email.utils
import random
import time

ATTEMPTS = 8  # of one object on one server, counted while nothing of it arrives
FIRST, LONGEST = 0.5, 30.0  # seconds to wait after the first and at most after any failure
PATIENCE = 300.0  # seconds; a server that asks for more is given up
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
CROWDED = frozenset({429, 503})  # the server says it has too much to do


class TransferError(Exception):
    """A request that did not bring what it was made for.

    :param passing: it may work when tried again.
    :param crowded: the server, or the way to it, has too much to do.
    :param after: seconds the server asked to wait.
    """

    def __init__(
        self, reason: str, *, passing: bool, crowded: bool = False, after: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing and after <= PATIENCE
        self.crowded = crowded
        self.after = after


def pause(failures: int, after: float = 0.0) -> float:
    """Return seconds to wait after so many failures in a row.

    Half of it is chance: clients that failed together do not come back together.
    """
    longest = min(LONGEST, FIRST * 2.0 ** (failures - 1))
    return max(after, longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


def requested_pause(value: str | None, now: float | None = None) -> float:
    """Return the seconds of a ``Retry-After`` header; 0 for none or nonsense."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return max(0.0, moment - (time.time() if now is None else now))
