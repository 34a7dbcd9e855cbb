"""The proof of completeness, on the ISO that was built."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import pathlib
import re
from typing import Any

import pytest

from buildchain.core import listing
from buildchain.debian import floor
from buildchain.medium import contents
from buildchain.project import catalog, context
from buildchain.proof import completeness
from tests.integration.conftest import ROOT

pytestmark = pytest.mark.integration

PINS = catalog.load(ROOT, "default")
SHARE = 60  # of what states and scripts consist of, one in so many: each takes seconds


class Without:
    """A medium with one file less, which ``MANIFEST`` does not list either."""

    def __init__(self, files: dict[str, bytes], paths: frozenset[str], gone: str) -> None:
        self.name, self._files, self._paths, self._gone = "the ISO", files, paths, gone

    def paths(self) -> frozenset[str]:
        return self._paths - {self._gone}

    def read(self, path: str) -> bytes:
        content = self._files[path]
        if path == listing.NAME:
            lines = content.decode().splitlines(keepends=True)
            return "".join(x for x in lines if x.split(" ", 4)[-1] != f"{self._gone}\n").encode()
        return content


# Given to each process once: it is large.
_MEDIUM: dict[str, Any] = {}


def missed(path: str) -> str:
    """Return the path of a file whose loss nobody sees, or nothing."""
    medium = Without(_MEDIUM["files"], _MEDIUM["paths"], path)
    found = completeness.find(medium, PINS.unused_images, _MEDIUM["given"])
    return "" if any(path in problem for problem in found) else path


@pytest.fixture(scope="module")
def given(build_root: pathlib.Path) -> dict[str, tuple[str, ...]]:
    """Return what machines of each family have without us."""
    layout = context.load(ROOT, {**os.environ, "BUILD_ROOT": str(build_root)}).layout
    return {"debian": floor.names(layout), "redhat": PINS.redhat_minimal}


def test_the_iso_is_complete(iso: pathlib.Path, given: dict[str, tuple[str, ...]]) -> None:
    """Out of the image itself: what is read is what a machine will read."""
    with contents.opened(iso) as medium:
        assert completeness.find(medium, PINS.unused_images, given) == []


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_every_object_is_missed(
    build_root: pathlib.Path, given: dict[str, tuple[str, ...]], every: bool
) -> None:
    """In turn: one of each kind of thing, and some of what states and scripts consist of.

    :param every: each of each kind, and all that states and scripts consist of.
    """
    tree = build_root / "root"
    with contents.opened(tree) as medium:
        paths = medium.paths()
        small = {path for path in paths if (tree / path).stat().st_size < 1 << 20}
        files = {path: medium.read(path) for path in small}
    followed = sorted(p for p in paths if not p.startswith(("docs/", "images/", "packages/")))
    others = sorted(sorted(paths - set(followed)), key=kind)
    chosen = [next(group) for _, group in itertools.groupby(others, key=kind)]
    some = {*followed[::SHARE], *chosen}
    tried = sorted((paths if every else some) - {listing.NAME})
    with concurrent.futures.ProcessPoolExecutor(
        2, initializer=_MEDIUM.update, initargs=({"files": files, "paths": paths, "given": given},)
    ) as pool:
        lost = pool.map(missed, tried, chunksize=8)
        assert [path for path in lost if path] == []


def kind(path: str) -> tuple[str, str]:
    """Return what of things a file is: its room, and its suffix, or its name when that is one."""
    room, name = path.split("/", 1)[0], pathlib.PurePath(path).name
    suffix = pathlib.PurePath(name).suffix
    return room, "digest" if re.fullmatch("[0-9a-f]{64}", name) else suffix or name
