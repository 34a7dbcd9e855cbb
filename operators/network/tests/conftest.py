from __future__ import annotations

import os
import shutil

import hypothesis
import pytest

# No deadline: machines that build are busy. No database: tests leave nothing in the checkout.
EXAMPLES = int(os.environ.get("METALK8S_EXAMPLES", "100"))
hypothesis.settings.register_profile("unit", deadline=None, max_examples=EXAMPLES, database=None)
hypothesis.settings.load_profile("unit")


@pytest.fixture(scope="session")
def namespaces():
    """Need what makes networks on this machine."""
    missing = [name for name in ("ip", "bridge", "nft", "sysctl") if not shutil.which(name)]
    what = ", ".join(missing) or ("" if os.geteuid() == 0 else "root")
    if what and os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI skips nothing")
    if what:
        pytest.skip(f"needs {what}")
