"""The ISO as other programs read it, and what an ISO has to be able to hold."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from buildchain.medium import iso
from buildchain.medium.iso import Medium
from buildchain.project.model import Version
from tests.integration.conftest import require, run

pytestmark = pytest.mark.integration

EPOCH = 1793491200  # seconds since 1970
GIB = 1 << 30
LONG = "sha256:" + "0123456789abcdef" * 8  # characters that Joliet has no room for
END = b"the very end"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a tree with all that is hard to store."""
    root = tmp_path_factory.mktemp("format") / "root"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / LONG).write_text("long")
    (root / "deep" / "er" / f"{LONG}2").write_text("longer")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "layer").write_bytes(os.urandom(8 << 20))
    for number in range(4):
        (root / f"link{number}").hardlink_to(root / "layer")
    with (root / "huge").open("wb") as stream:
        stream.truncate(4 * GIB)
        stream.seek(4 * GIB)
        stream.write(END)
    return root


@pytest.fixture(scope="module")
def image(tree: pathlib.Path) -> pathlib.Path:
    require("xorrisofs")
    medium = Medium("Demo", Version(1, 0, 0, ""), tree, tree.parent / "demo.iso")
    iso.build(medium, "xorrisofs", "Demo 1.0.0", EPOCH)
    return medium.image


def test_a_file_of_more_than_4_gib_arrives_whole(
    tree: pathlib.Path, image: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    require("fuseiso", "fusermount", "cmp")
    run("fuseiso", image, tmp_path)
    try:
        found = tmp_path / "run.sh"
        assert found.stat().st_mode & 0o777 == 0o755
        assert (tmp_path / "deep/er" / LONG).read_text() == "long"
        assert (tmp_path / "deep/er" / f"{LONG}2").read_text() == "longer"
    finally:
        run("fusermount", "-u", "-z", tmp_path)
    target = tree.parent / "extracted"
    run("xorriso", "-osirrox", "on", "-indev", image, "-extract", "/huge", target)
    try:
        assert target.stat().st_size == 4 * GIB + len(END)
        with target.open("rb") as stream:
            stream.seek(4 * GIB)
            assert stream.read() == END
    finally:
        target.unlink()


def test_hard_links_are_stored_once(tree: pathlib.Path, image: pathlib.Path) -> None:
    once = 4 * GIB + (8 << 20)
    assert once < image.stat().st_size < once + (4 << 20)


@pytest.mark.parametrize(
    ("argv", "pattern"),
    [
        (["isoinfo", "-R", "-f", "-i"], r"(?m)^/deep/er/{name}$"),
        (["isoinfo", "-J", "-f", "-i"], r"(?m)^/run\.sh$"),
        (["7z", "l", "-slt"], r"(?m)^Path = deep/er/"),
        (["xorriso", "-find", "/", "-indev"], r"(?m)^'/deep/er/{name}'$"),
    ],
    ids=["isoinfo, Rock Ridge", "isoinfo, Joliet", "7z", "xorriso"],
)
def test_other_programs_read_it(image: pathlib.Path, argv: list[str], pattern: str) -> None:
    require(argv[0])
    if argv[0] == "xorriso":
        said = run("xorriso", "-indev", image, "-find", "/")
    else:
        said = run(*argv, image)
    assert re.search(pattern.replace("{name}", re.escape(LONG)), said), said


def test_verifying_opens_no_socket(iso_tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    require("strace", "unshare")
    key, calls = iso_tree / "keys" / "metalk8s.gpg", tmp_path / "calls"
    done = subprocess.run(
        [*("unshare", "--net", "strace", "-f", "-qq", "-e", "trace=%network", "-o", calls),
         *("sh", iso_tree / "verify.sh", "--key", key, iso_tree)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in calls.read_text().splitlines() if "SIGCHLD" not in line]
