"""The RPM repositories of the ISO, as an EL machine meets them: network cut, signatures checked."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from buildchain.packages import rpm
from buildchain.project import catalog
from buildchain.redhat import rpmkeys
from tests.integration import el_mirror, stub_rpms
from tests.integration.conftest import ROOT, require, run
from tests.integration.el_mirror import Key
from tests.integration.stub_rpms import Stub

pytestmark = pytest.mark.integration

PINS = catalog.load(ROOT, "default")
RELEASES = PINS.redhat_releases
OURS = sorted(name for package in PINS.packages for name in package.rpms)
SMALLEST = "kubectl"  # of those that need no other package


@dataclass(frozen=True)
class Repository:
    """A repository and the key (ASCII armour) that its user trusts."""

    folder: pathlib.Path
    key: pathlib.Path
    release: str

    @property
    def packages(self) -> list[pathlib.Path]:
        return sorted(self.folder.glob("*.rpm"))

    def package(self, name: str) -> pathlib.Path:
        [path] = self.folder.glob(f"{name}-[0-9]*.rpm")
        return path


@pytest.fixture(params=RELEASES)
def shipped(request: pytest.FixtureRequest, iso_tree: pathlib.Path) -> Repository:
    """Return the repository for each release."""
    folder = iso_tree / "packages" / "redhat" / f"metalk8s-el{request.param}"
    return Repository(folder, iso_tree / "keys" / "metalk8s.asc", request.param)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    with el_mirror.key(tmp_path_factory.mktemp("stranger")) as made:
        yield made


@pytest.fixture(scope="module")
def throwaway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    """Return a key that stands for ours where a test has to sign."""
    with el_mirror.key(tmp_path_factory.mktemp("throwaway")) as made:
        yield made


def unmet(repository: Repository) -> dict[str, set[str]]:
    """Return what the packages need and none of them provides, with who needs it."""
    provides = run(*rpm.argv_for_query("PROVIDE", repository.packages))
    requires = run(*rpm.argv_for_query("REQUIRE", repository.packages))
    known = {what for _, what in rpm.parse_query(provides)}
    found: dict[str, set[str]] = {}
    for name, what in rpm.parse_query(requires):
        if what not in known:
            found.setdefault(what, set()).add(name)
    return found


@pytest.fixture
def system(shipped: Repository, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a root in which one package stands for the minimal OS."""
    require("rpm", "rpmbuild")
    root = tmp_path / "root"
    (root / "var/lib/rpm").mkdir(parents=True)
    stub = Stub("minimal-os", provides=tuple(sorted(unmet(shipped))))
    run("rpm", "--root", root, "--install", *stub_rpms.build(tmp_path / "stubs", [stub]))
    return root


def dnf(
    repository: Repository, root: pathlib.Path, *packages: str, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Install packages from one repository and from nothing else."""
    require("dnf", "unshare")
    beside = root.parent
    settings = {"gpgcheck": 1, "repo_gpgcheck": 1, **settings}
    section = {
        "name": "MetalK8s",
        "baseurl": repository.folder.as_uri(),
        "gpgkey": repository.key.as_uri(),
        **settings,
    }
    (beside / "repos").mkdir()
    lines = "".join(f"{key}={value}\n" for key, value in section.items())
    (beside / "repos" / "iso.repo").write_text(f"[metalk8s]\n{lines}", encoding="utf-8")
    (beside / "dnf.conf").write_text("[main]\n", encoding="utf-8")
    options = {
        "reposdir": beside / "repos",
        "varsdir": beside / "none",
        "cachedir": beside / "cache",
        "persistdir": beside / "persist",
        "install_weak_deps": False,
        # There is no shell that could run them; a test on a real system does.
        "tsflags": "noscripts",
    }
    # Its own process namespace takes along the GnuPG agents that dnf leaves behind.
    alone = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    argv = [
        *(*alone, "dnf", "--assumeyes", f"--config={beside}/dnf.conf", "--noplugins"),
        *(f"--installroot={root}", f"--releasever={repository.release}", "--forcearch=x86_64"),
        *(f"--setopt={key}={value}" for key, value in options.items()),
        *("install", *packages),
    ]
    return subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def installed(root: pathlib.Path) -> set[str]:
    listed = run("rpm", "--root", root, "--query", "--all", "--queryformat", "%{NAME}\n")
    return set(listed.split()) - {"minimal-os", "gpg-pubkey"}


def test_every_release_has_a_repository_of_everything_we_build(iso_tree: pathlib.Path) -> None:
    folders = sorted(path.name for path in (iso_tree / "packages" / "redhat").iterdir())
    assert folders == [f"metalk8s-el{release}" for release in RELEASES]
    for folder in (iso_tree / "packages" / "redhat").iterdir():
        names = run("rpm", "--query", "--nosignature", "--queryformat", "%{NAME}\n", "--package",
                    *sorted(folder.glob("*.rpm"))).split()  # fmt: skip
        assert set(OURS) <= set(names)


def test_nothing_is_needed_that_a_minimal_os_lacks(shipped: Repository) -> None:
    declared = set(PINS.redhat_minimal)
    unexpected = {
        f"{what} (needed by {', '.join(sorted(names))})"
        for what, names in unmet(shipped).items()
        if not declared & {what, rpm.without_versions(what)}
    }
    assert unexpected == set()


def test_dnf_installs_everything_we_build(shipped: Repository, system: pathlib.Path) -> None:
    done = dnf(shipped, system, *OURS)
    assert done.returncode == 0, done.stdout
    assert installed(system) == set(OURS)
    assert "Kubernetes v" in run(system / "usr/bin/kubelet", "--version")
    # What is in the database is what is on the disk. Owners differ: root has no /etc/passwd.
    run("rpm", "--root", system, "--verify", "--nouser", "--nogroup", "--nodeps", *OURS)


def test_rpm_checks_every_package_with_the_key_alone(
    shipped: Repository, tmp_path: pathlib.Path
) -> None:
    require("rpm", "rpmkeys")
    database = tmp_path / "rpmdb"
    run(*rpmkeys.argv_for_import(database, shipped.key))
    for package in shipped.packages:
        said = run("rpm", "--dbpath", database, "-K", package)
        assert said == f"{package}: digests signatures OK\n"
    said = run(*rpmkeys.argv_for_check(database, shipped.packages))
    assert set(rpmkeys.parse_check(said, shipped.packages).values()) == {""}
    strangers = tmp_path / "nobody"
    done = subprocess.run(
        [*map(str, rpmkeys.argv_for_check(strangers, shipped.packages))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    for wrong in rpmkeys.parse_check(done.stdout, shipped.packages).values():
        assert re.fullmatch(r"it is signed with another key \([0-9a-f]+, NOKEY\)", wrong)


@pytest.fixture
def spoilt(shipped: Repository, tmp_path: pathlib.Path) -> Repository:
    """Return a copy that may be spoilt: the metadata, and one of the packages."""
    folder = tmp_path / "spoilt"
    shutil.copytree(shipped.folder / "repodata", folder / "repodata")
    shutil.copy(shipped.package(SMALLEST), folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Repository(folder, shipped.key, shipped.release)


def refused(repository: Repository, root: pathlib.Path, **settings: object) -> str:
    """Insist on a refusal that installs nothing; return its reason."""
    done = dnf(repository, root, SMALLEST, **settings)
    assert done.returncode != 0, done.stdout
    assert installed(root) == set()
    assert "Traceback" not in done.stdout
    return done.stdout


def flip(path: pathlib.Path) -> None:
    """Change one byte near the end: of a package's payload, of an XML file's last lines."""
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)


def test_the_untouched_copy_is_accepted(spoilt: Repository, system: pathlib.Path) -> None:
    done = dnf(spoilt, system, SMALLEST)
    assert (done.returncode, installed(system)) == (0, {SMALLEST}), done.stdout


def test_a_changed_package_is_refused(spoilt: Repository, system: pathlib.Path) -> None:
    flip(spoilt.package(SMALLEST))
    said = refused(spoilt, system)
    assert re.search(rf'Package "{SMALLEST}-.*" from local repository "metalk8s" has incorrect '
                     "checksum", said)  # fmt: skip


def test_a_changed_package_with_new_metadata_is_refused(
    spoilt: Repository, system: pathlib.Path
) -> None:
    flip(spoilt.package(SMALLEST))
    el_mirror.write_metadata(spoilt.folder)
    assert "repomd.xml.asc" in refused(spoilt, system)


def test_a_changed_package_is_refused_by_its_own_signature(
    spoilt: Repository, system: pathlib.Path
) -> None:
    flip(spoilt.package(SMALLEST))
    el_mirror.write_metadata(spoilt.folder)
    said = refused(spoilt, system, repo_gpgcheck=0)
    assert f"Problem opening package {SMALLEST}" in said


def test_changed_metadata_are_refused(spoilt: Repository, system: pathlib.Path) -> None:
    metadata = spoilt.folder / "repodata" / "repomd.xml"
    changed = metadata.read_text(encoding="utf-8").replace("<revision>", "<revision>1", 1)
    metadata.write_text(changed, encoding="utf-8")
    said = refused(spoilt, system)
    assert "repomd.xml GPG signature verification error: Bad GPG signature" in said


@pytest.mark.parametrize("what", ["primary", "filelists"])
def test_changed_lists_are_refused(spoilt: Repository, system: pathlib.Path, what: str) -> None:
    [path] = (spoilt.folder / "repodata").glob(f"*-{what}.xml*")
    flip(path)
    assert "hecksum" in refused(spoilt, system)


def test_metadata_of_a_stranger_are_refused(
    spoilt: Repository, system: pathlib.Path, stranger: Key
) -> None:
    stranger.publish(spoilt.folder)
    said = refused(spoilt, system)
    assert "repomd.xml GPG signature verification error" in said


def test_an_unsigned_package_in_a_signed_repository_is_refused(
    spoilt: Repository, system: pathlib.Path, throwaway: Key
) -> None:
    run("rpmsign", "--delsign", spoilt.package(SMALLEST))
    throwaway.publish(spoilt.folder)
    repository = Repository(spoilt.folder, throwaway.public, spoilt.release)
    assert re.search(rf"Package {SMALLEST}-\S+ is not signed", refused(repository, system))


def test_a_package_of_a_stranger_in_a_signed_repository_is_refused(
    spoilt: Repository, system: pathlib.Path, throwaway: Key, stranger: Key
) -> None:
    stranger.sign([spoilt.package(SMALLEST)])
    throwaway.publish(spoilt.folder)
    repository = Repository(spoilt.folder, throwaway.public, spoilt.release)
    said = refused(repository, system)
    assert f"Public key for {SMALLEST}-" in said
    assert "is not installed" in said
