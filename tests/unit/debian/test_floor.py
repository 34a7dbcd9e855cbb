"""What every machine has, from real packages that are made here."""

import subprocess

import pytest

from buildchain.core.receipt import sha256
from buildchain.debian import archive, floor, lock
from buildchain.debian.lock import Locked
from buildchain.project.model import DebianFile
from buildchain.store.blobs import Store

CONTROL = """\
Package: {name}
Version: 1
Architecture: all
Maintainer: a <a@b.invalid>
Depends: other
Description: first line
 second line
"""


@pytest.fixture
def stored(layout, tmp_path, require):
    """Return a layout with two packages in its store, which are what every machine has."""
    require("dpkg-deb")
    files = []
    for name in ("bash", "mount"):
        control = tmp_path / name / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        control.write_text(CONTROL.format(name=name))
        deb = tmp_path / f"{name}_1_all.deb"
        argv = ["dpkg-deb", "--build", control.parents[1], deb]
        subprocess.run(argv, check=True, capture_output=True)
        files.append(DebianFile(name, "1", "all", deb.name, deb.stat().st_size, sha256(deb)))
        Store(layout.store).add(deb, files[-1].sha256, origin=deb.name)
    archive.list_closure(layout, floor.NAME, files, ())
    return layout


def test_they_are_installed(stored):
    """The paragraphs are those of dpkg's status file, each with all that the package says."""
    made = floor.make_status(stored)
    assert made.paths == (stored.floor_status,)
    paragraphs = stored.floor_status.read_text().split("\n\n")
    assert [text.splitlines()[0] for text in paragraphs] == ["Package: bash", "Package: mount"]
    for text in paragraphs:
        assert "\nDepends: other\n" in text
        assert text.rstrip().endswith("second line\nStatus: install ok installed")
    assert floor.names(stored) == ("bash", "mount")


@pytest.mark.parametrize(
    ("name", "below"),
    [("floor", ""), ("base", ""), ("node", "floor"), ("builder", "base"), ("image-etcd", "base")],
)
def test_what_stands_on_what(name, below):
    assert floor.below(name) == below


def test_a_foreign_base_is_no_floor(stored):
    """Whatever images stand on, machines have what they have."""
    on = lock.foundation(stored, stored.floor_status, "debian@sha256:1")
    assert on == sha256(stored.closure(floor.NAME))
    entry = lock.Entry(("bash",), on, archive.read_closure(stored.closure(floor.NAME)))
    path = stored.root / "debian.lock"
    lock.write(path, {"node": entry})
    locked = Locked(path, "strict", "debian@sha256:1")
    made = lock.close(stored, locked, "node", ("bash",), stored.floor_status)
    assert made.facts == {"packages": 2, "replaced": []}
