from __future__ import annotations

import time

PATIENCE = 20  # seconds


def until(condition, what, patience=PATIENCE):
    """Wait for something that another thread or program does."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)
