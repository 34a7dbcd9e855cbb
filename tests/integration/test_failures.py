"""What goes wrong on real machines: one clear error, exit status not 0, and the next run recovers.

Each case runs the real ``./doit.sh`` in a copy of the checkout, with a build root of its own.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.integration.checkout import Checkout
from tests.integration.conftest import require, run

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("export VAGRANT_PROVIDER=vmware", "VAGRANT_PROVIDER=vmware: expected one of"),
        ("export BUILD_ROT=/tmp", "BUILD_ROT is not an option (did you mean BUILD_ROOT?)"),
        ("export SOURCE_DATE_EPOCH=yesterday", "SOURCE_DATE_EPOCH=yesterday: expected seconds"),
        ("export BASE_IMAGE=debian:12", "BASE_IMAGE=debian:12: expected an image by digest"),
        ("export PROFILE=nothing", "PROFILE=nothing: expected one of default"),
        ("export PROJECT_NAME='a b'", "PROJECT_NAME=a b: expected"),
    ],
)
def test_bad_setting(checkout: Checkout, line: str, said: str) -> None:
    settings = checkout.folder / ".env"
    settings.write_text(f"{line}\n", encoding="utf-8")
    assert said in checkout.fails("list")
    settings.unlink()
    checkout.succeeds("list")


def test_settings_file_that_is_no_shell(checkout: Checkout) -> None:
    (checkout.folder / ".env").write_text("export BUILD_ROOT='_build\n", encoding="utf-8")
    done = checkout.doit("list")
    assert done.returncode == 2
    assert ".env is no shell file" in done.stdout


@pytest.mark.parametrize(
    ("option", "task", "reason"),
    [
        ("SKOPEO_BIN", "check_for:skopeo", "copy images between the engine and the ISO tree"),
        ("MKISOFS_BIN", "iso", "write the ISO image"),
        ("HARDLINK_BIN", "_image_dedup_layers", "share equal image layers"),
        ("DOCKER_BIN", "iso", "run builders and make images"),
        ("GIT_BIN", "iso", "name the commit that is built"),
    ],
)
def test_missing_tool(checkout: Checkout, option: str, task: str, reason: str) -> None:
    tool = {"MKISOFS_BIN": "xorrisofs"}.get(option, option.removesuffix("_BIN").lower())
    said = checkout.fails(f"check_for:{tool}", **{option: "no-such-program"})
    assert f"no-such-program ({option}) is missing; it is needed to {reason}" in said
    assert "./doit.sh setup" in said
    if task == "iso":
        # Nothing is built before the last tool of the chain has been looked for.
        said = checkout.fails("iso", **{option: "no-such-program"})
        assert "BUILD" not in said.split("no-such-program")[0]


def test_tool_that_is_too_old(checkout: Checkout, tmp_path: pathlib.Path) -> None:
    old = tmp_path / "skopeo"
    old.write_text("#!/bin/sh\necho skopeo version 0.1.18\n", encoding="utf-8")
    old.chmod(0o755)
    said = checkout.fails("check_for:skopeo", SKOPEO_BIN=str(old))
    assert "is 0.1.18, below 0.1.19" in said


def test_docker_engine_that_does_not_answer(checkout: Checkout) -> None:
    checkout.succeeds("_debian_closure:builder")
    said = checkout.fails("_builder_image", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert "no Docker engine answers at unix:///nonexistent/docker.sock" in said
    assert "./doit.sh setup" in said


def test_no_network(checkout: Checkout) -> None:
    require("unshare")
    cut = ("unshare", "--net")
    empty = str(checkout.folder / "_cache")
    said = checkout.fails("_debian_closure:base", prefix=cut, CACHE_ROOT=empty)
    assert "the Debian archive cannot be reached" in said
    checkout.succeeds("_debian_closure:base", CACHE_ROOT=empty)
    # From nothing again, but with what was fetched once.
    shutil.rmtree(checkout.folder / "_build")
    done = checkout.doit("_debian_closure:base", prefix=cut, CACHE_ROOT=empty)
    assert done.returncode == 0, done.stdout


SMALL = "_build_packages:cni-plugins"
PACKAGE_PINS = "buildchain/pins/default/packages.toml"


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "stage", "said"),
    [
        pytest.param(
            "packages/cni-plugins/cni-plugins.spec", r"(?m)^(Source|Patch)\d*:.*\n", "",
            "pkg_rpmspec", "cni-plugins.spec: no Source line", id="no source",
        ),
        pytest.param(
            "packages/cni-plugins/cni-plugins.spec", "x86_64", "aarch64",
            "pkg_rpmspec", "of cni-plugins.spec is for another architecture", id="architecture",
        ),
        pytest.param(
            PACKAGE_PINS, r'(?s)(\[\[cni-plugins.sources\]\].*?sha256 = ")[0-9a-f]{64}',
            rf"\g<1>{'0' * 64}", "pkg_get_source", f"expected SHA-256 {'0' * 64}, got", id="hash",
        ),
        pytest.param(
            PACKAGE_PINS,
            r'(?s)(\[\[cni-plugins.sources\]\].*?version = ")[^"]+(".*?sha256 = ")[0-9a-f]{64}',
            # What is in the store needs no archive: another file of another version.
            rf"\g<1>9.9-1\g<2>{'0' * 64}",
            "pkg_get_source", "9.9-1 cannot be had from the archive", id="gone",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "packages/cni-plugins/debian/control", "Build-Depends: ",
            "Build-Depends: libmissing-dev, ", "pkg_compile",
            "package cni-plugins: the builder lacks libmissing-dev", id="build dependency",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "buildchain/pins/default/profile.toml", '"conntrack",', '"no-such-package",',
            "_debian_closure:node", "Unable to locate package no-such-package", id="unsatisfiable",
        ),
    ],
)  # fmt: skip
def test_bad_package(
    checkout: Checkout, file: str, pattern: str, replacement: str, stage: str, said: str
) -> None:
    path = checkout.folder / file
    right = path.read_text(encoding="utf-8")
    wrong = re.sub(pattern, replacement, right)
    assert wrong != right
    path.write_text(wrong, encoding="utf-8")
    task = stage if stage.startswith("_") else f"{SMALL}:{stage}"
    told = checkout.fails(task)
    assert said in told
    assert re.search(r"(packages\.toml:\d+|control:\d+|line \d+ of|\.spec: no|package )", told)
    assert not (checkout.folder / "_build/repositories").exists()
    assert not any((checkout.folder / "_build/packages").glob("*/[RD][PE][MB]S/*"))
    path.write_text(right, encoding="utf-8")
    checkout.succeeds(task)


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Mount a file system of 40 MB."""
    mount = tmp_path / "small"
    mount.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", mount)
    try:
        yield mount
    finally:
        run("umount", mount)


def test_full_disk(checkout: Checkout, small_disk: pathlib.Path) -> None:
    build = str(small_disk / "build")
    said = checkout.fails("_debian_closure:builder", BUILD_ROOT=build)
    assert "SpaceError" in said
    assert "BUILD_ROOT" in said
    run("mount", "-o", "remount,size=4g", small_disk)
    checkout.succeeds("_debian_closure:builder", BUILD_ROOT=build)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="ctrl-c", marks=pytest.mark.soak),
        pytest.param(signal.SIGKILL, id="kill-9"),
    ],
)
def test_interrupted_run_goes_on(checkout: Checkout, number: signal.Signals) -> None:
    process = subprocess.Popen(
        checkout.command("_base_image"),
        env=checkout.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    receipt = checkout.folder / "_build/receipts/debian_closure.base.json"
    deadline = time.monotonic() + 300
    while not receipt.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    # Ctrl-C goes to everything in the foreground, kill -9 to whom it is sent.
    target = os.killpg if number == signal.SIGINT else os.kill
    target(process.pid, number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in said
    again = checkout.succeeds("_base_image")
    assert re.search(r"^--  RESOLVE +Debian packages for base$", again, re.MULTILINE), again
    assert re.search(r"^\.\.  BUILD IMAGE +base ", again, re.MULTILINE), again
