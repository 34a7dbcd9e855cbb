"""RPMs of other people, resolved with the real dnf against a mirror that stands here."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from buildchain.core import receipt
from buildchain.core.errors import BuildError, ChecksumError, FetchError, PinError, SigningError
from buildchain.core.layout import Layout
from buildchain.project.model import RedhatFile, RedhatRepository
from buildchain.redhat import closure
from buildchain.redhat.closure import System
from buildchain.store.blobs import Store
from tests.integration import el_mirror, stub_rpms
from tests.integration.conftest import require
from tests.integration.el_mirror import Key, Server
from tests.integration.stub_rpms import Stub

pytestmark = pytest.mark.integration

MINIMAL = ("bash", "coreutils", "systemd")
BASEOS = (
    Stub("bash", version="5", provides=("/bin/sh",), requires=("glibc",), architecture="x86_64"),
    Stub("coreutils", requires=("glibc", "libselinux")),
    Stub("glibc", version="2.28", architecture="x86_64"),
    Stub("libselinux"),
    Stub("systemd", version="239"),
)
# What differs between the releases: a version, an epoch, who provides a library.
APPSTREAM = {
    "8": (
        Stub("conntrack-tools", version="1.4.4", release="11.el8", architecture="x86_64",
             requires=("libmnl", "systemd"), recommends=("conntrack-docs",)),
        Stub("iptables", epoch=1, version="1.8.5", release="11.el8", requires=("/bin/sh",)),
        Stub("libmnl", version="1.0.4"),
    ),
    "9": (
        Stub("conntrack-tools", version="1.4.7", release="2.el9", architecture="x86_64",
             requires=("libmnl", "libnfct >= 2")),
        Stub("iptables-nft", version="1.8.8", release="6.el9", provides=("iptables = 1.8.8",)),
        Stub("libmnl", version="1.0.4"),
        Stub("libnfct-compat", provides=("libnfct = 2.1",)),
    ),
}  # fmt: skip
COMMON = (
    Stub("arm-only", architecture="aarch64"),
    Stub("broken", requires=("nothing-has-it >= 3",)),
    Stub("conntrack-docs"),
    Stub("kubelet", version="99", requires=("trouble",)),
    Stub("needs-32-bit", requires=("lib32",)),
    Stub("lib32-compat", architecture="i686", provides=("lib32",)),
)
OURS = (
    Stub("kubelet", version="1.20.2", requires=("conntrack-tools", "iptables", "kubernetes-cni")),
    Stub("kubernetes-cni"),
)
CLOSURES = {
    "8": ["conntrack-tools 1.4.4-11.el8", "iptables 1:1.8.5-11.el8", "libmnl 1.0.4-1"],
    "9": [
        "conntrack-tools 1.4.7-2.el9",
        "iptables-nft 1.8.8-6.el9",
        "libmnl 1.0.4-1",
        "libnfct-compat 1-1",
    ],
}


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    with el_mirror.key(tmp_path_factory.mktemp("vendor")) as made:
        yield made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    with el_mirror.key(tmp_path_factory.mktemp("stranger")) as made:
        yield made


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, vendor: Key) -> pathlib.Path:
    """Make the mirror once: ``<release>/{BaseOS,AppStream}`` and ``ours``."""
    require("dnf")
    top = tmp_path_factory.mktemp("mirror")
    for folder, stubs in (
        *((f"{release}/BaseOS", BASEOS) for release in APPSTREAM),
        *((f"{release}/AppStream", (*own, *COMMON)) for release, own in APPSTREAM.items()),
        ("ours", OURS),
    ):
        vendor.sign(stub_rpms.build(top / folder, stubs))
        vendor.publish(top / folder)
    return top


@pytest.fixture
def mirror(pristine: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a copy that a test may spoil."""
    return pathlib.Path(shutil.copytree(pristine, tmp_path / "mirror"))


@pytest.fixture
def server(mirror: pathlib.Path) -> Iterator[Server]:
    with Server(mirror) as running:
        yield running


@pytest.fixture
def layout(tmp_path: pathlib.Path) -> Layout:
    return Layout(tmp_path, tmp_path / "build", tmp_path / "cache", "metalk8s")


def system(url: str, key: Key, mirror: pathlib.Path, release: str = "8") -> System:
    """Return a release as its pins would say it."""
    repositories = tuple(
        RedhatRepository(name, f"{url}/$releasever/{name}", key.public)
        for name in ("BaseOS", "AppStream")
    )
    ours = RedhatRepository("metalk8s", (mirror / "ours").as_uri(), key.public)
    return System(release, repositories, MINIMAL, ours)


def changed(system: System, name: str, **values: object) -> System:
    """Return a system with one of its repositories changed."""
    repositories = tuple(
        dataclasses.replace(repository, **values) if repository.name == name else repository  # type: ignore[arg-type]
        for repository in system.repositories
    )
    return dataclasses.replace(system, repositories=repositories)


def names(files: tuple[RedhatFile, ...]) -> list[str]:
    return [f"{file.name} {file.revision}" for file in files]


@pytest.mark.parametrize("release", ["8", "9"])
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_what_is_needed_besides_the_minimal_os(
    layout: Layout, mirror: pathlib.Path, server: Server, vendor: Key, release: str, scheme: str
) -> None:
    url = server.url if scheme == "http" else mirror.as_uri()
    files = closure.resolve(layout, "node", system(url, vendor, mirror, release), ["kubelet"])
    # Neither ours nor the minimal OS with its needs nor what is only recommended.
    assert names(files) == CLOSURES[release]
    for file in files:
        origin = mirror / release / file.repository / file.file
        stored = Store(layout.store).path(file.sha256)
        assert (file.sha256, file.size) == (receipt.sha256(origin), origin.stat().st_size)
        assert stored.read_bytes() == origin.read_bytes()
    assert {file.architecture for file in files} == {"noarch", "x86_64"}
    assert server.fetched() == (sorted(f.file for f in files) if scheme == "http" else [])
    assert list(layout.temporary.iterdir()) == []


def test_a_second_time_nothing_is_downloaded_but_the_head_of_the_metadata(
    layout: Layout, mirror: pathlib.Path, server: Server, vendor: Key
) -> None:
    target = system(server.url, vendor, mirror)
    first = closure.resolve(layout, "node", target, ["kubelet"])
    server.requests.clear()
    assert closure.resolve(layout, "node", target, ["kubelet"]) == first
    assert {path.rsplit("/", 1)[1] for path in server.requests} <= {"repomd.xml", "repomd.xml.asc"}


def test_a_list_can_be_written_read_and_linked(
    layout: Layout, mirror: pathlib.Path, vendor: Key, tmp_path: pathlib.Path
) -> None:
    files = closure.resolve(layout, "node", system(mirror.as_uri(), vendor, mirror), ["kubelet"])
    made = closure.list_closure(layout, "node-el8", files, ())
    assert made.facts == {"packages": 3, "replaced": []}
    assert closure.read_closure(layout.closure("node-el8")) == files
    linked = closure.link_closure(layout, "node-el8", tmp_path / "linked")
    assert [path.name for path in linked] == [file.file for file in files]


def test_progress_is_told(
    layout: Layout,
    mirror: pathlib.Path,
    server: Server,
    vendor: Key,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="metalk8s.build"):
        closure.resolve(layout, "node", system(server.url, vendor, mirror), ["kubelet"])
    told = [record.progress for record in caplog.records if hasattr(record, "progress")]
    assert [(p.subject, p.done, p.total) for p in told] == [
        ("RPMs for node", done, 3) for done in (1, 2, 3)
    ]


def test_locked_versions_are_fetched_again_from_nothing(
    layout: Layout, mirror: pathlib.Path, server: Server, vendor: Key
) -> None:
    target = system(server.url, vendor, mirror)
    files = closure.resolve(layout, "node", target, ["kubelet"])
    shutil.rmtree(layout.store)
    server.requests.clear()
    assert closure.fetch_exactly(layout, "node", target, files)
    assert server.fetched() == sorted(file.file for file in files)
    server.requests.clear()
    assert closure.fetch_exactly(layout, "node", target, files)
    assert server.requests == [], "the store has them"


def test_a_locked_version_that_is_gone(layout: Layout, mirror: pathlib.Path, vendor: Key) -> None:
    target = system(mirror.as_uri(), vendor, mirror)
    files = closure.resolve(layout, "node", target, ["kubelet"])
    shutil.rmtree(layout.store)
    older = tuple(dataclasses.replace(file, release="0") for file in files)
    assert not closure.fetch_exactly(layout, "node", target, older)


def test_a_locked_version_with_other_bytes(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    target = system(mirror.as_uri(), vendor, mirror)
    files = closure.resolve(layout, "node", target, ["kubelet"])
    shutil.rmtree(layout.store)
    other = tuple(dataclasses.replace(file, sha256="0" * 64) for file in files)
    with pytest.raises(ChecksumError, match=r"AppStream: conntrack-tools-.*expected SHA-256 000"):
        closure.fetch_exactly(layout, "node", target, other)
    assert not Store(layout.store).has("0" * 64)


def test_metadata_without_signature_are_taken_where_the_pins_say_so(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    for name in ("BaseOS", "AppStream"):
        el_mirror.write_metadata(mirror / "8" / name)
    target = system(mirror.as_uri(), vendor, mirror)
    for name in ("BaseOS", "AppStream"):
        target = changed(target, name, is_signed=False)
    assert names(closure.resolve(layout, "node", target, ["kubelet"])) == CLOSURES["8"]


def refused(layout: Layout, target: System, *wanted: str) -> BuildError:
    with pytest.raises(BuildError) as caught:
        closure.resolve(layout, "node", target, wanted or ("kubelet",))
    assert "\n" not in caught.value.reason
    assert caught.value.solution
    stored = [path for path in layout.store.rglob("*") if path.is_file()]
    assert stored == [], "nothing that was refused is stored"
    return caught.value


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["nope", "bash", "nada"],
         "no package nope, nada in the repositories BaseOS, AppStream, metalk8s (for node)"),
        (["arm-only"], "packages for node are not for x86_64: arm-only (aarch64)"),
        (["needs-32-bit"],
         "packages for node are not for x86_64: lib32-compat-1-1.i686 (i686)"),
        (["broken"], "packages for node cannot be installed: nothing provides "
         "nothing-has-it >= 3 needed by broken-1-1.noarch"),
    ],
)  # fmt: skip
def test_what_cannot_be_resolved(
    layout: Layout, mirror: pathlib.Path, vendor: Key, wanted: list[str], said: str
) -> None:
    error = refused(layout, system(mirror.as_uri(), vendor, mirror), *wanted)
    assert (type(error), error.reason) == (FetchError, said)


def test_a_minimal_os_that_does_not_exist(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    target = dataclasses.replace(system(mirror.as_uri(), vendor, mirror), minimal=("gone",))
    assert "no package gone" in refused(layout, target).reason


def test_a_repository_that_cannot_be_reached(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    # Nobody listens on the discard port.
    target = changed(
        system(mirror.as_uri(), vendor, mirror), "AppStream", url="http://127.0.0.1:9/el"
    )
    error = refused(layout, target)
    assert isinstance(error, FetchError)
    assert error.reason.startswith("repository AppStream (http://127.0.0.1:9/el) cannot be read: ")


def test_a_repository_that_went_away_is_not_served_from_memory(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    target = system(mirror.as_uri(), vendor, mirror)
    closure.resolve(layout, "node", target, ["kubelet"])
    shutil.rmtree(layout.store)
    shutil.rmtree(mirror / "8" / "AppStream")
    assert "repository AppStream" in refused(layout, target).reason


def test_a_key_that_is_not_there(
    layout: Layout, mirror: pathlib.Path, vendor: Key, tmp_path: pathlib.Path
) -> None:
    target = changed(system(mirror.as_uri(), vendor, mirror), "BaseOS", key=tmp_path / "none.asc")
    error = refused(layout, target)
    assert (type(error), error.reason) == (
        PinError,
        f"no such key of a repository: {tmp_path}/none.asc (BaseOS)",
    )


@pytest.mark.parametrize("how", ["foreign", "none", "changed"])
def test_metadata_that_are_not_signed_with_the_key(
    layout: Layout, mirror: pathlib.Path, vendor: Key, stranger: Key, how: str
) -> None:
    folder = mirror / "8" / "AppStream"
    metadata = folder / "repodata" / "repomd.xml"
    if how == "foreign":
        stranger.publish(folder)
    elif how == "none":
        metadata.with_name("repomd.xml.asc").unlink()
    else:
        metadata.write_text(metadata.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    error = refused(layout, system(mirror.as_uri(), vendor, mirror))
    assert isinstance(error, SigningError)
    assert "metadata of the repository AppStream (file://" in error.reason
    assert f"are not signed with {vendor.public}" in error.reason


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("foreign", "it is signed with another key ("),
        ("none", "it is not signed"),
        ("changed", "it was changed after it was signed"),
    ],
)
def test_packages_that_are_not_signed_with_the_key(
    layout: Layout, mirror: pathlib.Path, vendor: Key, stranger: Key, how: str, said: str
) -> None:
    folder = mirror / "8" / "AppStream"
    package = folder / "libmnl-1.0.4-1.noarch.rpm"
    package.unlink()
    stub_rpms.build(folder, [Stub("libmnl", version="1.0.4")])
    if how == "foreign":
        stranger.sign([package])
    elif how == "changed":
        vendor.sign([package])
        stub_rpms.spoil(package)
    # Whoever can do this has the mirror, but not the key of its packages.
    vendor.publish(folder)
    error = refused(layout, system(mirror.as_uri(), vendor, mirror))
    assert isinstance(error, SigningError)
    assert "packages of the repository AppStream (file://" in error.reason
    assert f"{package.name}: {said}" in error.reason


def test_a_blob_of_the_store_is_not_trusted_because_metadata_name_it(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    folder = mirror / "8" / "AppStream"
    [package] = stub_rpms.build(folder, [Stub("libmnl", version="1.0.4")])
    vendor.publish(folder)
    Store(layout.store).add(package, receipt.sha256(package), origin="another build")
    with pytest.raises(SigningError, match=r"libmnl-1\.0\.4-1\.noarch\.rpm: it is not signed"):
        closure.resolve(layout, "node", system(mirror.as_uri(), vendor, mirror), ["kubelet"])


@pytest.mark.parametrize("how", ["truncated", "changed", "absent"])
def test_downloads_that_fail(
    layout: Layout, mirror: pathlib.Path, server: Server, vendor: Key, how: str
) -> None:
    package = "8/AppStream/libmnl-1.0.4-1.noarch.rpm"
    if how == "truncated":
        server.truncated.add(f"/{package}")
    elif how == "changed":
        stub_rpms.spoil(mirror / package)
    else:
        (mirror / package).unlink()
    error = refused(layout, system(server.url, vendor, mirror))
    assert isinstance(error, FetchError)
    assert "packages for node cannot be downloaded from the repository " in error.reason
    assert "libmnl" in error.reason


def test_a_package_of_a_folder_that_changed(
    layout: Layout, mirror: pathlib.Path, vendor: Key
) -> None:
    stub_rpms.spoil(mirror / "8/AppStream/libmnl-1.0.4-1.noarch.rpm")
    error = refused(layout, system(mirror.as_uri(), vendor, mirror))
    assert isinstance(error, FetchError)
    assert "packages for node cannot be downloaded from the repository " in error.reason
    assert "incorrect checksum" in error.reason
    assert "libmnl" in error.reason


def test_metadata_that_send_elsewhere(layout: Layout, mirror: pathlib.Path, vendor: Key) -> None:
    folder = mirror / "8" / "AppStream"
    el_mirror.write_metadata(folder, "--baseurl", "http://127.0.0.1:9/other")
    target = changed(system(mirror.as_uri(), vendor, mirror), "AppStream", is_signed=False)
    assert refused(layout, target).reason == (
        "repository AppStream redirects package downloads to http://127.0.0.1:9/other"
    )
