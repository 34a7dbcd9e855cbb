"""A key, two small signed ISOs and the pack that leads from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildchain.core.layout import Layout
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from tests.unit.updates.world import Site, World


@pytest.fixture(scope="session")
def signer(development_key: Path, require: Callable[[str], str]) -> Iterator[Signer]:
    """Provide a real key whose agent runs as long as the tests do."""
    require("gpgv")
    folder = development_key.parents[2]
    with signing.signer(Layout(folder, folder / "build", folder / "cache", "demo"), "") as signer:
        yield signer


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> World:
    """Provide two releases and a pack."""
    return World(tmp_path_factory.mktemp("world"), signer)


@pytest.fixture
def site(tmp_path: Path, world: World, root: Path) -> Site:
    """Provide who has the old ISO and got the pack."""
    return Site(tmp_path / "site", world, root / "salt/scripts/apply-update.sh")
