"""How long something takes, and whether that is little enough."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds on the wall that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def at_most(name: str, value: float, limit: float) -> bool:
    """Tell a ratio beside what it may be, and whether it is."""
    print(f"{'met   ' if value <= limit else 'MISSED'} {name}: {value:.3f} (at most {limit:g})")
    return value <= limit


def at_least(name: str, value: float, limit: float) -> bool:
    """Tell a ratio beside what it has to be, and whether it is."""
    print(f"{'met   ' if value >= limit else 'MISSED'} {name}: {value:.3f} (at least {limit:g})")
    return value >= limit
