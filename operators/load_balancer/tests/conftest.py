from __future__ import annotations

import os
import shutil

import hypothesis
import pytest
from needed import need

# No deadline: machines that build are busy. No database: tests leave nothing in the checkout.
EXAMPLES = int(os.environ.get("METALK8S_EXAMPLES", "100"))
hypothesis.settings.register_profile("unit", deadline=None, max_examples=EXAMPLES, database=None)
hypothesis.settings.load_profile("unit")


def without(*programs):
    """Name the programs that are missing, and root."""
    missing = [name for name in programs if not shutil.which(name)]
    return missing if os.geteuid() == 0 else [*missing, "root"]


@pytest.fixture(scope="session")
def namespaces():
    """Need what makes networks on this machine, and keepalived."""
    need(without("ip", "bridge", "nft", "sysctl", "keepalived"))
