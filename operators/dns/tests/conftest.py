from __future__ import annotations

import os
import shutil

import hypothesis
import pytest

# No deadline: machines that build are busy. No database: tests leave nothing in the checkout.
EXAMPLES = int(os.environ.get("METALK8S_EXAMPLES", "100"))
hypothesis.settings.register_profile("unit", deadline=None, max_examples=EXAMPLES, database=None)
hypothesis.settings.load_profile("unit")


def lacking():
    """Name what tests with the real servers need and this machine has not."""
    return [name for name in ("knotd", "unbound") if not shutil.which(name)]


@pytest.fixture(scope="session")
def servers():
    """Need the servers on this machine."""
    what = ", ".join(lacking())
    if what and os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI skips nothing")
    if what:
        pytest.skip(f"needs {what}")


@pytest.fixture
def bed(servers, tmp_path):
    """Give Knot and Unbound, configured and started."""
    from bed import Bed

    made = Bed(tmp_path)
    yield made
    made.close()
