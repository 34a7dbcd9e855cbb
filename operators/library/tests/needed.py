from __future__ import annotations

import os

import pytest


def need(missing):
    """Skip, or fail in CI, when this machine lacks something."""
    what = ", ".join(missing)
    if what and os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI skips nothing")
    if what:
        pytest.skip(f"needs {what}")
