"""Names out of locks, resolutions and closures: none leads out of a folder, none is an option."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import PinError
from buildchain.debian import archive as debian
from buildchain.debian import lock
from buildchain.project.model import DebianFile, RedhatFile, package_file
from buildchain.redhat import closure

DEB = DebianFile("libc6", "1:2.36-9+deb12u14", "amd64", "libc6_2.36_amd64.deb", 3, "a" * 64)
RPM = RedhatFile(
    "zlib", 0, "1.2", "3.el9", "x86_64", "Packages/z/zlib-1.2.rpm", 3, "b" * 64, "BaseOS"
)
BAD = {
    **{
        field: ["../x", "/etc/x", "a/../../x", "..", ".", "", "-oX=y", "a\nb", "a b", None, ["a"]]
        for field in ("name", "version", "release", "architecture", "file", "repository")
    },
    "sha256": ["", "A" * 64, "a" * 63, f"../{'a' * 61}", None, 7],
    "size": [0, -1, True, "1", 1.5, None],
    "epoch": [-1, False, "0", None],
}  # fmt: skip
CASES = [
    (file, field, value)
    for file in (DEB, RPM)
    for field in dataclasses.asdict(file)
    for value in BAD[field]
]


@pytest.mark.parametrize(("file", "field", "value"), CASES)
def test_what_is_refused(file, field, value, tmp_path):
    entry = {**dataclasses.asdict(file), field: value}
    what = "SHA-256" if field == "sha256" else field
    with pytest.raises(ValueError, match=f"is no {what}"):
        package_file(type(file), entry)
    # Whoever reads such files reads them through it.
    path = tmp_path / "file"
    path.write_text(json.dumps([entry]))
    with pytest.raises(ValueError, match=f"is no {what}"):
        (debian if file is DEB else closure).read_closure(path)
    path.write_text(json.dumps({"node": {"wanted": [], "on": "", "packages": [entry]}}))
    with pytest.raises(PinError, match=f"is not a lock: .*is no {what}"):
        lock.read(path, type(file))


@pytest.mark.parametrize("file", [DEB, RPM])
def test_what_is_read(file):
    assert package_file(type(file), dataclasses.asdict(file)) == file


@pytest.mark.parametrize("entry", [None, [], "x", {}, {"name": "a"}])
def test_what_is_no_package(entry):
    with pytest.raises(ValueError, match="expected architecture, file, name"):
        package_file(DebianFile, entry)


def test_more_than_a_package():
    with pytest.raises(ValueError, match="expected architecture"):
        package_file(DebianFile, {**dataclasses.asdict(DEB), "more": 1})


def test_everything_is_named_at_once():
    with pytest.raises(ValueError, match=r"package '\.\.': '\.\.' is no name, 0 is no size"):
        package_file(DebianFile, {**dataclasses.asdict(DEB), "name": "..", "size": 0})


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_what_is_read_stays_in_its_folder(name, version, architecture):
    entry = dataclasses.asdict(DEB) | {
        "name": name, "version": version, "architecture": architecture
    }  # fmt: skip
    try:
        file = package_file(DebianFile, entry)
    except ValueError:
        return
    path = Path("/folder") / file.pool_name
    assert path.parent == Path("/folder")
    assert not file.pool_name.startswith(("-", "."))


def test_a_damaged_memory_is_none(archive, layout):
    layout.apt.mkdir(parents=True)
    (layout.apt / "debian.sources").write_text("Suites: bookworm\n")
    files = debian.resolve(layout, "node", ["a"])
    for kind in ("update", "resolve", "download"):
        archive.set(kind, "9")
    [kept] = (layout.cache / "resolutions").iterdir()
    for text in ("", "[", "{}", json.dumps([{**dataclasses.asdict(files[0]), "name": "../a"}])):
        kept.write_text(text)
        with pytest.raises(debian.FetchError, match="cannot be reached"):
            debian.resolve(layout, "node", ["a"], believed=files)
