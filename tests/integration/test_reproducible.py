"""The ISO built again, without a network, from the archive of the first build's inputs.

Another path, host, user, zone, locale, mode mask and number of workers too; the bytes must be the
same. And what is not reproducible is found. In CI it is a package and an image, with the base and
the builder that they stand on; in the soak all of it, which takes a quarter of an hour.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest

from buildchain.compare import reproduce
from buildchain.core import events, receipt
from buildchain.core.errors import ContentError, LockError
from buildchain.core.layout import Layout
from buildchain.inputs import steps as inputs
from buildchain.project import context as contexts
from buildchain.project.context import Context
from tests.integration.checkout import Checkout
from tests.integration.conftest import ROOT, require, run

pytestmark = pytest.mark.integration


@dataclasses.dataclass
class Elsewhere:
    """The build that the ring's tests look at, and another one of the same commit."""

    checkout: Checkout
    first: Layout
    second: Layout


# No network, another name of the host, another mode mask.
ELSEWHERE = (
    *("unshare", "--net", "--uts", "sh", "-c"),
    'hostname elsewhere && umask 077 && exec "$0" "$@"',
)
SOME = (
    *("_build_packages:cni-plugins:pkg_rpm", "_build_packages:cni-plugins:pkg_deb"),
    "_image_build:etcd",
)
SOMEBODY = {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "USER": "somebody", "LOGNAME": "somebody"}


@contextlib.contextmanager
def cloned(scratch: pathlib.Path, build_root: pathlib.Path, *shared: str) -> Iterator[Elsewhere]:
    """Clone the project and give the clone its inputs.

    :param shared: folders of the cache that it has of the first build.
    """
    archive = scratch / "inputs.tar"
    # What ./doit.sh inputs does; the build root is the test runner's as long as it runs.
    context = contexts.load(ROOT, {**os.environ, "BUILD_ROOT": str(build_root)})
    try:
        inputs.pack(context, archive)
    except LockError:
        context = as_locked(scratch / "here", build_root, context.layout.cache)
        inputs.pack(context, archive)
    folder = copy_of(context.layout.root, scratch / "elsewhere")
    other = scratch / "cache"
    other.mkdir()
    for name in shared:
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).symlink_to(context.layout.cache / name)
    there = Checkout(folder, other)
    there.succeeds(
        "inputs_unpack", "--key", str(context.layout.keys / "metalk8s.gpg"), str(archive)
    )
    archive.unlink()
    second = dataclasses.replace(context.layout, build=folder / "_build")
    yield Elsewhere(there, context.layout, second)
    shutil.rmtree(scratch)


def copy_of(root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Clone a checkout; what is being worked on is built like what was committed."""
    run("git", "clone", "--quiet", "--no-hardlinks", root, folder)
    for name in run("git", "-C", root, "ls-files", "-mo", "--exclude-standard").splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_file():
            shutil.copy2(root / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def as_locked(folder: pathlib.Path, build_root: pathlib.Path, cache: pathlib.Path) -> Context:
    """Build again what the archive has now, as locked: only that is rebuilt without a network."""
    copy_of(ROOT, folder)
    lock = folder / "buildchain/pins/default/debian.lock"
    shutil.copyfile(build_root / "lock/debian.lock", lock)
    somebody = ("-c", "user.name=test", "-c", "user.email=test@invalid")
    run("git", "-C", folder, *somebody, "commit", "--quiet", "--message=lock: refresh", lock)
    Checkout(folder, cache).succeeds("-n", "2", "iso")
    return contexts.load(folder, {**os.environ, "BUILD_ROOT": str(folder / "_build")})


@pytest.fixture(scope="module")
def elsewhere(
    build_root: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Elsewhere]:
    # The same key signs; what was compiled is compiled again in a soak.
    scratch = tmp_path_factory.mktemp("reproducible")
    with cloned(scratch, build_root, "keys", "compiled") as found:
        yield found


@pytest.mark.soak
def test_the_same_iso_with_a_cold_compiler(
    build_root: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with cloned(tmp_path_factory.mktemp("cold"), build_root, "keys") as cold:
        cold.checkout.succeeds("iso")
        reproduce.compare(cold.first, cold.second)


def test_a_package_and_an_image_elsewhere(elsewhere: Elsewhere) -> None:
    require("unshare")
    done = elsewhere.checkout.doit("-n", "4", *SOME, prefix=ELSEWHERE, **SOMEBODY)
    assert done.returncode == 0, done.stdout
    for name in SOME:
        first, second = (
            receipt.read(layout.receipt(name)) for layout in (elsewhere.first, elsewhere.second)
        )
        assert first.outputs, name
        # Modes are the mask's, until the medium is made.
        sums = [{(one.path, one.sha256) for one in made.outputs} for made in (first, second)]
        assert sums[0] == sums[1], name
        assert first.facts == second.facts, name


@pytest.mark.soak
def test_the_same_iso_elsewhere(elsewhere: Elsewhere) -> None:
    require("unshare")
    done = elsewhere.checkout.doit("-n", "4", "iso", prefix=ELSEWHERE, **SOMEBODY)
    assert done.returncode == 0, done.stdout
    reproduce.compare(elsewhere.first, elsewhere.second)


@pytest.mark.soak
def test_what_is_not_reproducible_is_named(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instruction that does something else each time, planted into an image."""
    there, layout = elsewhere.checkout, elsewhere.second
    recipe = there.folder / "images" / "etcd" / "Dockerfile"
    planted = "RUN cat /proc/sys/kernel/random/uuid > /usr/share/planted"
    recipe.write_text(recipe.read_text().replace("VOLUME", f"{planted}\nVOLUME"))
    there.succeeds("iso")
    before = dataclasses.replace(layout, build=layout.build.parent / "before")
    before.build.mkdir()
    run("cp", "-a", "--link", layout.iso_root, layout.iso, before.build)
    layout.receipt("_image_build:etcd").unlink()
    shutil.rmtree(there.cache / "made")
    there.succeeds("iso")
    told: list[str] = []
    monkeypatch.setattr(events, "closing", told.append)
    with pytest.raises(ContentError, match="images/etcd/"):
        reproduce.compare(before, layout)
    named = r"images/etcd/[\d.]+: layer \d: .*usr/share/planted"
    assert re.search(named, "\n".join(told), re.DOTALL)
