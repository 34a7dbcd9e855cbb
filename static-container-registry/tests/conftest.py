"""Options and fixtures of all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import fixture_tree

_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-goldens", action="store_true", help="rewrite tests/goldens, then review"
    )


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate-goldens"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with a plain, a dotted and a nested name, aliases, Docker and OCI."""
    return fixture_tree.standard(tmp_path / "images")


def require(tool: str) -> str:
    program = shutil.which(tool, path=_PATH)
    if program is None and os.environ.get("CI"):
        pytest.fail(f"{tool} is not installed, and CI skips nothing")
    if program is None:
        pytest.skip(f"{tool} is not installed")
    return program


@pytest.fixture(scope="session")
def nginx() -> str:
    return require("nginx")


@pytest.fixture(scope="session")
def skopeo() -> str:
    return require("skopeo")
