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


@pytest.fixture(scope="session")
def programs():
    need([name for name in ("haproxy", "openssl") if not shutil.which(name)])


@pytest.fixture(scope="session")
def pairs(programs, tmp_path_factory):
    """Make certificates: ``pairs("a.example")`` is one of its own each time."""
    from things import Pair

    folder, made = tmp_path_factory.mktemp("pairs"), []

    def make(name):
        made.append(name)
        return Pair(folder, f"{name}-{len(made)}", name)

    return make


@pytest.fixture
def behind():
    """Give servers of HTTP, each of which tells its name."""
    from behind import Behind

    made = Behind()
    yield made
    made.close()


@pytest.fixture
def bed(programs):
    """Give HAProxy and the program, as they are in a pod."""
    from bed import Bed

    made = Bed()
    yield made
    made.close()


@pytest.fixture(scope="module")
def api(programs):
    """Give the real API server."""
    from control_plane import lacking
    from real_api import RealApi

    need(lacking())
    made = RealApi()
    yield made
    made.close()
