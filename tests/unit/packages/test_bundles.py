import io
import sys
import tarfile
import zipfile

import pytest

from buildchain.core import receipt
from buildchain.core.errors import ChecksumError, FetchError, PinError
from buildchain.debian import archive as debian
from buildchain.debian.archive import closure_name
from buildchain.packages import bundles
from buildchain.project.model import Package
from buildchain.store.blobs import Store
from tests.unit import fakes

EPOCH = 1700000000
GO = Package("demo", "1.0", "1", (), (), (), go_debs=("golang-x-dev", "golang-y-dev"))
WHEELS = Package("demo", "1.0", "1", (), (), (), wheels="wheels.sha256")
# Downloads what a hashed requirements file names: content is in FOLDER.
PIP = """
import pathlib, shutil, sys
argv = sys.argv[1:]
lock = pathlib.Path(argv[argv.index("--requirement") + 1]).read_text()
target = pathlib.Path(argv[argv.index("--dest") + 1])
if "--no-binary=:all:" in argv:
    import lib  # what the distribution is built with comes out of the listed wheels
for line in lock.splitlines():
    name = line.split("==")[0]
    for file in pathlib.Path({folder!r}).glob(f"{{name}}-*"):
        shutil.copy(file, target)
        break
    else:
        sys.exit(f"no {{name}}")
"""


def wheel(name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{name}.py", f"NAME = {name!r}\n")
    return stream.getvalue()


@pytest.fixture
def index(layout, tmp_path, monkeypatch):
    """Return a folder of distributions that pip downloads from, all of them listed."""
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "lib-1.0-py3-none-any.whl").write_bytes(wheel("lib"))
    (folder / "fast-2.0-cp311-cp311-manylinux_2_17_x86_64.whl").write_bytes(b"fast")
    (folder / "salty-3.tar.gz").write_bytes(b"salty")
    lines = [f"{receipt.sha256(file)}  {file.name}\n" for file in sorted(folder.iterdir())]
    sources = layout.package_sources("demo")
    sources.mkdir(parents=True)
    (sources / "wheels.sha256").write_text("".join(lines))
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n" + PIP.format(folder=str(folder)))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return folder


def members(path):
    with tarfile.open(path) as archive:
        return {
            entry.name: (oct(entry.mode), entry.uid, entry.uname, entry.mtime)
            for entry in archive.getmembers()
        }


def test_wheels(layout, index, tmp_path):
    (path,) = bundles.make(layout, WHEELS, tmp_path, EPOCH)
    assert path.name == "demo-1.0-wheels.tar"
    assert members(path) == {file.name: ("0o644", 0, "", EPOCH) for file in sorted(index.iterdir())}
    assert list(members(path)) == sorted(members(path))
    first = path.read_bytes()
    for file in index.iterdir():
        assert Store(layout.store).has(receipt.sha256(file))
        file.unlink()
    bundles.make(layout, WHEELS, tmp_path, EPOCH)
    assert path.read_bytes() == first, "out of the store, byte for byte"


def test_a_distribution_that_cannot_be_had(layout, index, tmp_path):
    (index / "salty-3.tar.gz").unlink()
    with pytest.raises(FetchError, match=r"cannot be had: salty-3\.tar\.gz") as caught:
        bundles.make(layout, WHEELS, tmp_path, EPOCH)
    assert "pip config list" in caught.value.solution
    assert list(tmp_path.glob("*.tar")) == []


@pytest.mark.parametrize(
    ("name", "now", "error", "words"),
    [
        ("salty-3.tar.gz", "salty-4.tar.gz", PinError, r"another file than salty-3\.tar\.gz"),
        ("salty-3.tar.gz", "", ChecksumError, r"salty-3\.tar\.gz: expected SHA-256"),
    ],
)
def test_another_distribution_than_listed(layout, index, tmp_path, name, now, error, words):
    (index / name).write_bytes(b"evil")
    if now:
        (index / name).rename(index / now)
    with pytest.raises(error, match=words):
        bundles.make(layout, WHEELS, tmp_path, EPOCH)
    assert list(tmp_path.glob("*.tar")) == []


@pytest.mark.parametrize("line", ["nonsense", f"{'a' * 64} one-space.whl", f"{'a' * 64}  a/b.whl"])
def test_a_bad_line(layout, index, line):
    path = layout.package_sources("demo") / "wheels.sha256"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(PinError, match=r"wheels\.sha256:4: not a SHA-256"):
        bundles.read_wheels(path)


def test_a_name_that_is_no_distributions(layout, index, tmp_path):
    path = layout.package_sources("demo") / "wheels.sha256"
    path.write_text(f"{'a' * 64}  strange.whl\n")
    with pytest.raises(PinError, match=r"strange\.whl"):
        bundles.make(layout, WHEELS, tmp_path, EPOCH)


def test_go_sources(layout, archive, fake_program, tmp_path):
    fake_program("dpkg-deb", fakes.DPKG_DEB)
    files = debian.resolve(layout, "source-demo", GO.go_debs)
    debian.list_closure(layout, closure_name(GO), files, ())
    (path,) = bundles.make(layout, GO, tmp_path, EPOCH)
    assert path.name == "demo-1.0-gocode.tar"
    stems = [f"{name}_2.0-1_amd64" for name in GO.go_debs]
    assert set(members(path)) == {
        "usr/share/gocode/src",
        *(f"usr/share/gocode/src/{stem}.go" for stem in stems),
        *(f"usr/share/doc/{stem}/copyright" for stem in stems),
    }
    first = path.read_bytes()
    bundles.make(layout, GO, tmp_path, EPOCH)
    assert path.read_bytes() == first
