"""Requests that did not bring what they were made for."""

from __future__ import annotations

import email.utils
import time

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


def requested_pause(value: str | None, now: float | None = None) -> float:
    """Return the seconds of ``Retry-After`` (RFC 9110, 10.2.3); 0 for none or nonsense."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return max(0.0, moment - (time.time() if now is None else now))
