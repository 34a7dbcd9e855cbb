"""Keys, a place and releases to publish there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildchain.core.layout import Layout
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from tests.unit.publication.world import World


@pytest.fixture(scope="session")
def signer(development_key: Path, require: Callable[[str], str]) -> Iterator[Signer]:
    """Provide a real key whose agent runs as long as the tests do."""
    require("gpgv")
    folder = development_key.parents[2]
    with signing.signer(Layout(folder, folder / "build", folder / "cache", "demo"), "") as signer:
        yield signer


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Iterator[Signer]:
    """Provide somebody else's key."""
    folder = tmp_path_factory.mktemp("stranger")
    with signing.signer(Layout(folder, folder / "build", folder / "cache", "demo"), "") as signer:
        yield signer


@pytest.fixture
def world(tmp_path: Path, signer: Signer) -> World:
    """Provide releases, a place for them and somebody who wants them."""
    return World(tmp_path / "world", signer)
