"""Our packages as each family judges them; what we leave stands in `packages/` with reasons."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from buildchain.project import catalog
from tests.integration.conftest import ROOT, require

pytestmark = pytest.mark.integration

PACKAGES = [package.name for package in catalog.load(ROOT, "default").packages]
LARGE = 10 << 20  # bytes; lintian takes a minute for one that is larger
# A filter that only the source package needs, which this build does not make.
UNUSED = re.compile(r" E: unused-rpmlintrc-filter ")


@pytest.mark.parametrize("package", PACKAGES)
def test_rpmlint(package: str, build_root: pathlib.Path) -> None:
    require("rpmlint")
    sources = ROOT / "packages" / package
    done = subprocess.run(
        ["rpmlint", "-r", sources / f"{package}.rpmlintrc", sources / f"{package}.spec",
         *sorted((build_root / "packages" / package / "RPMS").rglob("*.rpm"))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if re.search(r" [EW]: ", line)]
    assert [line for line in said if not UNUSED.search(line)] == []
    assert " packages and 1 specfiles checked" in done.stdout


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_lintian(build_root: pathlib.Path, large: bool) -> None:
    require("lintian")
    packages = [
        file
        for file in sorted((build_root / "packages").glob("*/DEBS/*.deb"))
        if (file.stat().st_size > LARGE) == large
    ]
    assert packages
    done = subprocess.run(
        ["lintian", "--allow-root", "--profile", "debian", "--tag-display-limit", "0",
         "--fail-on", "error,warning", *packages],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
