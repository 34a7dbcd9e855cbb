import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import PinError
from buildchain.project import catalog
from buildchain.project.model import Image, PulledImage, RedhatRepository, Tool, Version

PROFILE = """\
[debian]
suite = "bookworm"
architecture = "amd64"
keyring = "/keys.gpg"
[content]
epoch = 1
[base]
packages = ["a"]
[builder]
packages = ["b"]
[debian.roles]
bootstrap = ["kubectl"]
master = []
etcd = []
node = ["demo", "c"]
infra = []
"""
REDHAT = """\
[redhat]
releases = ["9"]
minimal = ["glibc"]
[redhat.repositories]
[redhat.roles]
bootstrap = ["demo-client"]
master = []
etcd = []
node = ["demo"]
infra = []
"""
# Lists of packages that these tests do not look at.
MORE = "".join(
    f'[{name}]\npackages = ["x"]\n'
    for name, keys in catalog.PROFILE_KEYS.items()
    if set(keys) == {"packages"} and f"[{name}]" not in PROFILE
)
PACKAGES = """\
[demo]
version = "1.0"
release = "2"
binaries = ["demo"]
rpms = ["demo"]
debs = ["demo"]
[[demo.sources]]
file = "demo.tar.gz"
sha256 = "00"
package = "demo"
version = "1.0-1"
"""
IMAGES = """\
[pause]
version = "3.2"
title = "Pause"
licenses = "MIT"
from_scratch = true
"""
VERSION = "# a comment=1\nVERSION_MAJOR=2\nVERSION_MINOR=8\nVERSION_PATCH=0\nVERSION_SUFFIX=dev\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with small, correct pins."""
    folder = tmp_path / "buildchain" / "pins" / "tiny"
    folder.mkdir(parents=True)
    for path, text in {
        folder / "profile.toml": PROFILE + MORE,
        folder / "redhat.toml": REDHAT,
        folder / "packages.toml": PACKAGES,
        folder / "images.toml": IMAGES,
        tmp_path / "VERSION": VERSION,
    }.items():
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_load(checkout):
    pins = catalog.load(checkout, "tiny")
    assert pins.version == Version(2, 8, 0, "dev")
    assert (pins.suite, pins.architecture, pins.keyring) == ("bookworm", "amd64", Path("/keys.gpg"))
    assert (pins.base_packages, pins.builder_packages, pins.node_packages) == (
        ("a",),
        ("b",),
        ("c", "kubectl"),
    )
    assert pins.debian_roles["bootstrap"] == ("c", "demo", "kubectl")
    assert pins.debian_roles["infra"] == ("c", "demo")
    assert pins.redhat_roles["bootstrap"] == ("demo", "demo-client")
    assert (pins.redhat_releases, pins.redhat_minimal) == (("9",), ("glibc",))
    assert (pins.redhat_repositories, pins.redhat_packages) == ((), ("demo", "demo-client"))
    assert pins.content_epoch == 1
    assert pins.package("demo").sources[0].sha256 == "00"
    assert pins.images == (Image("pause", "3.2", "Pause", "MIT", from_scratch=True),)


@pytest.mark.parametrize(
    ("file", "old", "new", "problems"),
    [
        (
            "packages.toml",
            'release = "2"',
            "relaese = 2",
            ["[demo]: unknown key relaese", "[demo]: release is missing"],
        ),
        ("packages.toml", '["demo"]', '"demo"', ["[demo]: binaries must be a list"]),
        ("packages.toml", 'sha256 = "00"', "", ["[demo] sources 1: sha256 is missing"]),
        (
            "packages.toml",
            'sha256 = "00"',
            'sha512 = "00"',
            ["[demo] sources 1: unknown key sha512", "[demo] sources 1: sha256 is missing"],
        ),
        ("packages.toml", 'version = "1.0"', "version = 1.0", ["[demo]: version must be a str"]),
        ("images.toml", "= true", '= "yes"', ["[pause]: from_scratch must be a bool"]),
        (
            "images.toml",
            'title = "Pause"\nlicenses = "MIT"',
            "",
            ["[pause]: title is missing", "[pause]: licenses is missing"],
        ),
        ("profile.toml", "[content]", "[contents]", ["unknown table [contents]"]),
        ("profile.toml", "epoch = 1", "", ["[content]: epoch is missing"]),
        (
            "profile.toml",
            'suite = "bookworm"',
            'siute = "x"',
            ["[debian]: suite is missing", "[debian]: unknown key siute"],
        ),
        ("profile.toml", "[debian]", "[debian", ["line 1"]),
        (
            "profile.toml",
            "infra = []",
            'infar = ["x"]',
            ["[debian]: no such role: infar", "[debian]: role infra is missing"],
        ),
        ("profile.toml", "etcd = []", "etcd = 1", ["[debian]: role etcd must be a list"]),
        ("images.toml", "[pause]", "pause = 1\n[pauses]", ["pause: a table"]),
    ],
)
def test_every_problem_is_named_with_the_file(checkout, file, old, new, problems):
    path = checkout / "buildchain" / "pins" / "tiny" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PinError) as caught:
        catalog.load(checkout, "tiny")
    assert caught.value.reason.startswith(f"{path}: ")
    for problem in problems:
        assert problem in caught.value.reason


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("profile.toml", '["a"]', '"apt"'),
        ("profile.toml", "epoch = 1", 'epoch = "soon"'),
        ("profile.toml", '"bookworm"', "12"),
        ("packages.toml", 'rpms = ["demo"]', "rpms = [1]"),
        ("images.toml", '"Pause"', '"\udcff"'),
    ],
)
def test_wrong_types_are_named(checkout, file, old, new):
    path = checkout / "buildchain" / "pins" / "tiny" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(PinError):
        catalog.load(checkout, "tiny")


@pytest.mark.parametrize("file", ["profile.toml", "packages.toml", "images.toml"])
def test_missing_file(checkout, file):
    (checkout / "buildchain" / "pins" / "tiny" / file).unlink()
    with pytest.raises(PinError, match=f"{file}: No such file"):
        catalog.load(checkout, "tiny")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("VERSION_MAJOR=2\nVERSION_MINOR=1\n", "VERSION_PATCH"), ("VERSION_MAJOR=two\n", "two")],
)
def test_bad_version_file(checkout, text, problem):
    (checkout / "VERSION").write_text(text, encoding="utf-8")
    with pytest.raises(PinError, match=problem):
        catalog.load(checkout, "tiny")


def with_repository(checkout, table):
    """Add a repository of RPMs to the pins."""
    folder = checkout / "buildchain/pins/tiny"
    text = REDHAT.replace("[redhat.repositories]\n", f"{table}\n")
    (folder / "redhat.toml").write_text(text, encoding="utf-8")
    return folder


REPOSITORY = """\
[redhat.repositories.BaseOS]
url = "https://mirror.invalid/$releasever/os"
key = "vendor-$releasever.asc"
is_signed = false"""


def test_repositories_of_rpms(checkout):
    folder = with_repository(checkout, REPOSITORY)
    (folder / "vendor-9.asc").touch()
    assert catalog.load(checkout, "tiny").redhat_repositories_of("9") == (
        RedhatRepository(
            "BaseOS", "https://mirror.invalid/9/os", folder / "vendor-9.asc", is_signed=False
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("$releasever.asc", "8.asc", "no key "),
        ("url =", "ulr =", "[redhat.repositories.BaseOS]: unknown key ulr"),
        ("key =", "#", "[redhat.repositories.BaseOS]: key is missing"),
        ("= false", '= "no"', "[redhat.repositories.BaseOS]: is_signed must be a bool"),
        ("BaseOS]", "metalk8s]", "[redhat.repositories.metalk8s]: expected a name"),
        ("BaseOS]", '"a b"]', "[redhat.repositories.a b]: expected a name"),
    ],
)
def test_bad_repositories_of_rpms(checkout, old, new, problem):
    (with_repository(checkout, REPOSITORY.replace(old, new)) / "vendor-9.asc").touch()
    with pytest.raises(PinError) as caught:
        catalog.load(checkout, "tiny")
    assert problem in caught.value.reason
    assert "redhat.toml" in caught.value.reason


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("repositories = 1", "[redhat]: repositories must be a table"),
        ("repositories = {BaseOS = 1}", "[redhat.repositories.BaseOS]: must be a table"),
    ],
)
def test_repositories_of_rpms_that_are_none(checkout, table, problem):
    with_repository(checkout, table)
    with pytest.raises(PinError) as caught:
        catalog.load(checkout, "tiny")
    assert problem in caught.value.reason


def test_tools_of_the_checkout(root):
    tools = catalog.tools(root)
    assert len(tools) > 10
    assert all(isinstance(tool, Tool) and tool.reason and tool.purposes for tool in tools)


def test_pins_of_the_checkout(root):
    for profile in (root / "buildchain" / "pins").glob("*/profile.toml"):
        pins = catalog.load(root, profile.parent.name)
        for package in pins.packages:
            for source in package.sources:
                assert re.fullmatch("[0-9a-f]{64}", source.sha256)
        known = {f"{p.name}/{b}" for p in pins.packages for b in p.binaries}
        debs = {deb: package.version for package in pins.packages for deb in package.debs}
        for image in pins.images:
            assert set(image.binaries) <= known
            assert set(image.packages) <= set(debs)
            assert all(debs[name] == image.version for name in image.packages)
            assert not image.version_of or image.version_of in image.debs


@given(
    st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.sampled_from(["", "dev", "rc.1"])
)
def test_version_file_round_trip(tmp_path_factory, major, minor, patch, suffix):
    path = tmp_path_factory.mktemp("version") / "VERSION"
    path.write_text(
        f"VERSION_MAJOR={major}\nVERSION_MINOR={minor}\nVERSION_PATCH={patch}\n"
        f"VERSION_SUFFIX={suffix}\n",
        encoding="utf-8",
    )
    version = catalog.read_version(path)
    assert version == Version(major, minor, patch, suffix)
    assert version.full.startswith(version.short)
    assert version.full == f"{major}.{minor}.{patch}" + (f"-{suffix}" if suffix else "")


DIGEST = "sha256:" + "0" * 64
PULLED = f"""
[coredns]
reference = "r.example/core/coredns:1.8"
digest = "{DIGEST}"
"""


def test_pulled_images(checkout):
    path = checkout / "buildchain" / "pins" / "tiny" / "images.toml"
    more = 'version = "2"\nplatforms = ["all"]\nreferrers = true\naliases = ["org/dns:1.8"]\n'
    path.write_text(IMAGES + PULLED + PULLED.replace("coredns]", "other]") + more)
    pins = catalog.load(checkout, "tiny")
    assert [image.name for image in pins.images] == ["pause"]
    assert pins.pulled_images == (
        PulledImage("coredns", "r.example/core/coredns:1.8", DIGEST),
        PulledImage(
            "other", "r.example/core/coredns:1.8", DIGEST, "2", ("all",), True, ("org/dns:1.8",)
        ),
    )
    assert [image.tag for image in pins.pulled_images] == ["1.8", "2"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("reference", "referense", "[coredns]: unknown key referense"),
        ("digest =", "digset =", "[coredns]: digest is missing"),
        (DIGEST, "sha256:12", "[coredns]: reference and digest: expected registry"),
        ("r.example/", "", "[coredns]: reference and digest: expected registry"),
        ("coredns:1.8", f"coredns@{DIGEST}", "[coredns]: reference"),
        ("coredns:1.8", "coredns", "[coredns]: coredns: is no name:version of an image"),
        ("[coredns]", "[Coredns]", "[Coredns]: Coredns:1.8 is no name:version of an image"),
        ("reference", 'version = "../x"\nreference', "coredns:../x is no name:version"),
        ("reference", 'aliases = ["pause:3.2"]\nreference', "there are two images pause:3.2"),
        ("reference", 'platforms = ["amd64"]\nreference', "platforms: amd64: expected os/arch"),
        ("reference", 'platforms = ["all", "a/b"]\nreference', "platforms: all: expected"),
        ("reference", "platforms = []\nreference", "platforms: expected at least one"),
    ],
)
def test_bad_pins_of_pulled_images(checkout, old, new, problem):
    path = checkout / "buildchain" / "pins" / "tiny" / "images.toml"
    path.write_text(IMAGES + PULLED.replace(old, new, 1))
    with pytest.raises(PinError) as caught:
        catalog.load(checkout, "tiny")
    assert problem in caught.value.reason


def test_nginx_says_the_port_it_serves_on(root):
    ports = (root / "salt/states/metalk8s/parameters/ports.yaml").read_text()
    number = re.search(r"(?m)^repositories:\n  number: (\d+)$", ports)[1]
    assert f"\nEXPOSE {number}\n" in (root / "images/nginx/Dockerfile").read_text()
