"""The whole ISO built again, without a network, from the archive of the first build's inputs.

Another path, zone, mode mask and number of workers too; the bytes must be the same.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil

import pytest

from buildchain import config
from buildchain.actions import reproduce
from buildchain.layout import Layout
from tests.integration.checkout import Checkout
from tests.integration.conftest import ROOT, require, run

pytestmark = pytest.mark.integration


def test_the_same_iso_elsewhere(build_root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "elsewhere"
    run("git", "clone", "--quiet", "--no-hardlinks", ROOT, folder)
    # What is being worked on is built like what was committed.
    for name in run("git", "-C", ROOT, "ls-files", "-mo", "--exclude-standard").splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    cache = config.load(ROOT, os.environ).cache_root
    here = Checkout(ROOT, cache)
    here.succeeds("inputs", BUILD_ROOT=str(build_root))
    # What a build finds there besides its inputs: the same key signs, and the compiler's cache is
    # no input of anything, only quicker.
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    for name in ("keys", "go-build"):
        (elsewhere / name).symlink_to(cache / name)
    there = Checkout(folder, elsewhere)
    there.succeeds("inputs_unpack", str(build_root / "metalk8s-inputs.tar"))
    (build_root / "metalk8s-inputs.tar").unlink()
    require("unshare")
    mask = ("unshare", "--net", "sh", "-c", 'umask 077; exec "$0" "$@"')
    done = there.doit("-n", "3", "iso", prefix=mask, TZ="Asia/Tokyo")
    assert done.returncode == 0, done.stdout
    first = Layout(ROOT, build_root, cache, "metalk8s")
    reproduce.compare(first, dataclasses.replace(first, build=folder / "_build"))
