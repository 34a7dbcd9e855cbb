"""RPMs locked by version and SHA-256, with the real dnf against a mirror that moves on."""

from __future__ import annotations

import logging
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from buildchain.core.errors import LockError
from buildchain.core.layout import Layout
from buildchain.debian import lock
from buildchain.debian.lock import Entry, Locked
from buildchain.project.model import RedhatFile, RedhatRepository
from buildchain.redhat import closure
from buildchain.redhat import lock as redhat_lock
from buildchain.redhat.closure import System
from tests.integration import el_mirror, stub_rpms
from tests.integration.conftest import require
from tests.integration.el_mirror import Key, Server
from tests.integration.stub_rpms import Stub

pytestmark = pytest.mark.integration

STUBS = (
    Stub("bash"),
    Stub("iptables", requires=("bash", "libmnl")),
    Stub("libmnl", release="1.el8"),
)


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    with el_mirror.key(tmp_path_factory.mktemp("vendor")) as made:
        yield made


@pytest.fixture
def layout(tmp_path: pathlib.Path) -> Layout:
    return Layout(tmp_path, tmp_path / "build", tmp_path / "cache", "metalk8s")


@pytest.fixture
def server(tmp_path: pathlib.Path, vendor: Key) -> Iterator[Server]:
    require("dnf")
    publish(tmp_path / "mirror", vendor, *STUBS)
    with Server(tmp_path / "mirror") as running:
        yield running


def publish(folder: pathlib.Path, vendor: Key, *stubs: Stub) -> None:
    vendor.sign(stub_rpms.build(folder, stubs))
    vendor.publish(folder)


@pytest.fixture
def system(server: Server, vendor: Key) -> System:
    return System("8", (RedhatRepository("mirror", server.url, vendor.public),), ("bash",))


@pytest.fixture
def locked(layout: Layout, system: System, tmp_path: pathlib.Path, server: Server) -> Locked:
    """Lock the set `node` at what the mirror has, and empty the store."""
    made = Locked(tmp_path / "redhat.lock", "roll")
    files = closure.resolve(layout, "node", system, ["iptables"])
    on = redhat_lock.foundation(system)
    lock.refresh(made, {"node": Entry(("iptables",), on, files)}, RedhatFile)
    shutil.rmtree(layout.store)
    server.requests.clear()
    return made


def strict(locked: Locked) -> Locked:
    return Locked(locked.path, "strict")


def move_on(tmp_path: pathlib.Path, vendor: Key, *, keep: bool) -> None:
    """Publish a newer libmnl; a mirror of EL keeps the older ones, a small one may not."""
    if not keep:
        (tmp_path / "mirror" / "libmnl-1-1.el8.noarch.rpm").unlink()
    publish(tmp_path / "mirror", vendor, Stub("libmnl", release="2.el8"))


def test_a_lock_says_name_version_architecture_and_sha256(locked: Locked) -> None:
    entry = lock.read(locked.path, RedhatFile)["node"]
    assert entry.wanted == ("iptables",)
    assert [(f.name, f.revision, f.architecture) for f in entry.packages] == [
        ("iptables", "1-1", "noarch"),
        ("libmnl", "1-1.el8", "noarch"),
    ]
    assert {len(f.sha256) for f in entry.packages} == {64}


def test_locked_packages_are_fetched_though_newer_ones_exist(
    layout: Layout, system: System, locked: Locked, vendor: Key, tmp_path: pathlib.Path
) -> None:
    move_on(tmp_path, vendor, keep=True)
    made = redhat_lock.close(layout, strict(locked), "node", system, ["iptables"])
    assert made.facts == {"packages": 2, "replaced": []}
    assert "1.el8" in {file.release for file in closure.read_closure(layout.closure("node"))}


def test_locked_packages_in_the_store_need_no_network(
    layout: Layout, system: System, locked: Locked, server: Server
) -> None:
    redhat_lock.close(layout, locked, "node", system, ["iptables"])
    server.requests.clear()
    redhat_lock.close(layout, strict(locked), "node", system, ["iptables"])
    assert server.requests == []


def test_a_package_that_is_gone_is_replaced_and_told(
    layout: Layout,
    system: System,
    locked: Locked,
    vendor: Key,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    move_on(tmp_path, vendor, keep=False)
    with caplog.at_level(logging.INFO, logger="metalk8s.build"):
        made = redhat_lock.close(layout, locked, "node", system, ["iptables"])
    assert made.facts["replaced"] == ["libmnl 1-1.el8 -> 1-2.el8"]
    assert "not as locked, node: libmnl 1-1.el8 -> 1-2.el8" in caplog.messages


def test_strict_stops_and_names_what_is_gone(
    layout: Layout, system: System, locked: Locked, vendor: Key, tmp_path: pathlib.Path
) -> None:
    move_on(tmp_path, vendor, keep=False)
    with pytest.raises(LockError) as caught:
        redhat_lock.close(layout, strict(locked), "node", system, ["iptables"])
    assert caught.value.reason == (
        "RPMs for node cannot be had as locked in redhat.lock: libmnl 1-1.el8 -> 1-2.el8"
    )
    assert "./doit.sh lock" in caught.value.solution
    assert not layout.closure("node").exists()


def test_strict_stops_over_a_set_that_is_not_locked(
    layout: Layout, system: System, locked: Locked
) -> None:
    with pytest.raises(LockError, match=r"RPMs for other are not in .*redhat\.lock"):
        redhat_lock.close(layout, strict(locked), "other", system, ["iptables"])
