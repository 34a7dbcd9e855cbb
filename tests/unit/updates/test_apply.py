"""``apply-update.sh``: the ISO that was signed, with its lists, in a folder or on a device."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.repairs import require_root
from tests.unit.updates.world import AFTER, BEFORE, NEW, OLD, PORTION, SHELLS


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_what_is_made(site, world, shell):
    status, said = site.run(shell=shell)
    assert (status, said) == (
        0,
        "signature  good: 1 wanted\n"
        f"pack       leads from {OLD} to {NEW}\n"
        f"base       {site.base} is what the pack starts from\n"
        f"image      {site.result} is version {NEW}, what was signed\n",
    )
    wanted = {path.name: path.read_bytes() for path in world.new.parent.iterdir()}
    assert {path.name: path.read_bytes() for path in site.output.iterdir()} == wanted
    assert wanted[site.result.name] == AFTER
    assert site.base.read_bytes() == BEFORE
    assert not list(site.scratch.iterdir())
    status, said = site.run(shell=shell)
    assert (status, "there is nothing to do" in said) == (0, True)
    verifier = site.script.with_name("verify.sh")
    argv = ["sh", verifier, "--key", world.key, "--at-least", NEW, "--quiet", site.result]
    subprocess.run(argv, check=True)


def test_dry_run(site):
    status, said = site.run("--dry-run")
    assert (status, said.splitlines()[-1]) == (
        0,
        f"dry run    {site.result} would be made; nothing was changed",
    )
    assert not site.output.exists()


def test_quiet(site):
    assert site.run("--quiet") == (0, "")


def test_it_goes_on_where_it_stopped(site):
    """By what is right in the file, not by what a journal says of it."""
    site.output.mkdir()
    part = site.output / f"{site.result.name}.part"
    part.write_bytes(AFTER[: 3 * PORTION + 100] + b"x" * (len(AFTER) + 5))
    status, said = site.run()
    assert (status, f"going on   from byte {3 * PORTION}\n" in said) == (0, True)
    assert site.result.read_bytes() == AFTER
    assert not part.exists()


def test_all_but_the_name_was_done(site):
    site.output.mkdir()
    (site.output / f"{site.result.name}.part").write_bytes(AFTER)
    assert site.run()[0] == 0
    assert site.result.read_bytes() == AFTER


def test_without_openssl(site, tmp_path):
    """As on a minimal Debian machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tools = (
        "awk base64 basename blockdev cat chmod cmp cp cut dash dd df dirname find findmnt flock"
    )
    tools += " gpgv grep gzip head id mkdir mkfifo mktemp mv od readlink rm sed sh sha256sum sort"
    for name in f"{tools} sync tr wc xargs".split():
        (folder / name).symlink_to(shutil.which(name))
    status, said = site.run(environment={"PATH": str(folder)})
    assert (status, site.result.read_bytes() == AFTER) == (0, True), said


@pytest.fixture
def device(tmp_path):
    """Provide a device that is larger than the ISO, and the file behind it."""
    require_root()
    file = tmp_path / "stick"
    file.write_bytes(bytes(len(AFTER) + PORTION))
    argv = ["losetup", "--find", "--show", str(file)]
    made = subprocess.run(argv, capture_output=True, text=True, check=False)
    if made.returncode:
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"no loop devices here: {made.stderr.strip()}")
    name = made.stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


def content(device, length):
    with Path(device).open("rb") as stream:
        return stream.read(length)


def test_device(site, device):
    status, said = site.run(output=device)
    assert (status, "holds something else than an ISO of this product" in said) == (1, True)
    assert content(device, len(AFTER)) == bytes(len(AFTER))
    assert site.run("--overwrite", output=device)[0] == 0
    assert content(device, len(AFTER)) == AFTER
    # It holds an ISO of this product now.
    assert site.run(output=device)[0] == 0
    assert content(device, len(AFTER)) == AFTER
