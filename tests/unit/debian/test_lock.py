import dataclasses
import json

import pytest

from buildchain.core.errors import ChecksumError, LockError, PinError
from buildchain.debian import archive as debian
from buildchain.debian import lock
from buildchain.debian.lock import Entry, Locked
from buildchain.project.model import DebianFile
from buildchain.store.blobs import Store


@pytest.fixture
def locked(tmp_path):
    return Locked(tmp_path / "debian.lock", "roll", "")


@pytest.fixture
def filled(archive, layout, locked):
    """Lock the sets `base` and `node` at what the archive has, and empty the store."""
    base = debian.resolve(layout, "base", ["b"])
    debian.list_closure(layout, "base", base, ())
    status = layout.build / "status"
    files = debian.resolve(layout, "node", ["a"], status)
    on = lock.foundation(layout, status, "")
    entries = {"base": Entry(("b",), "", base), "node": Entry(("a",), on, files)}
    lock.write(locked.path, entries)
    for file in (*base, *files):
        Store(layout.store).path(file.sha256).unlink()
    archive.programs.forget()
    return locked


def close(layout, locked, name="node", packages=("a",)):
    status = None if name == "base" else layout.build / "status"
    return lock.close(layout, locked, name, packages, status)


def test_what_is_written_is_read(filled, layout):
    entries = lock.read(filled.path, DebianFile)
    assert entries["node"].wanted == ("a",)
    assert [file.name for file in entries["node"].packages] == ["a"]
    before = filled.path.read_bytes()
    lock.write(filled.path, entries)
    assert filled.path.read_bytes() == before


def test_no_lock_yet(locked):
    assert lock.read(locked.path, DebianFile) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"wanted": []}}'])
def test_what_is_no_lock(locked, text):
    locked.path.write_text(text)
    with pytest.raises(PinError, match="is not a lock"):
        lock.read(locked.path, DebianFile)


def test_locked_packages_are_fetched_without_asking_what_is_newest(archive, filled, layout):
    made = close(layout, filled)
    assert made.facts == {"packages": 1, "replaced": []}
    assert [argv[3] for argv in archive.programs.calls("apt-get")] == ["download"]
    assert (
        debian.read_closure(layout.closure("node"))
        == lock.read(filled.path, DebianFile)["node"].packages
    )


def test_locked_packages_in_the_store_need_no_network(archive, filled, layout):
    close(layout, filled)
    archive.programs.forget()
    close(layout, filled)
    assert archive.programs.calls("apt-get") == []


def test_a_package_that_is_gone_is_replaced_and_told_at_the_end(archive, filled, layout, recorded):
    archive.set("versions", json.dumps({"a": "3.0-1"}))
    made = close(layout, filled)
    assert made.facts["replaced"] == ["a 1:2.0-1 -> 3.0-1"]
    assert "not as locked, node: a 1:2.0-1 -> 3.0-1" in recorded.notes


def test_strict_stops_and_names_what_is_gone(archive, filled, layout):
    archive.set("versions", json.dumps({"a": "3.0-1"}))
    layout.closure("node").unlink(missing_ok=True)
    strict = Locked(filled.path, "strict", "")
    with pytest.raises(LockError, match=r"cannot be had as locked in debian\.lock: a 1:2\.0-1 ->"):
        close(layout, strict)
    assert not layout.closure("node").exists()


def test_strict_stops_over_a_set_that_is_not_locked(archive, filled, layout):
    strict = Locked(filled.path, "strict", "")
    with pytest.raises(LockError, match="Debian packages for other are not in") as caught:
        close(layout, strict, name="other")
    assert "./doit.sh lock" in caught.value.solution


@pytest.mark.parametrize("change", ["wanted", "base"])
def test_a_set_for_other_wishes_or_another_base_is_resolved_anew(archive, filled, layout, change):
    if change == "base":
        debian.list_closure(layout, "base", (), ())
    wanted = ("a", "c") if change == "wanted" else ("a",)
    close(layout, filled, packages=wanted)
    assert "install" in archive.programs.calls("apt-get")[0]
    with pytest.raises(LockError, match=r"for other packages or another base|c 1:2\.0-1 is new"):
        close(layout, Locked(filled.path, "strict", ""), packages=wanted)


def test_another_file_of_the_locked_version_is_refused(archive, filled, layout):
    archive.set("evil", "evil")
    with pytest.raises(ChecksumError):
        close(layout, filled)
    assert [p for p in layout.store.rglob("*") if p.is_file()] == []


def test_the_lock_of_our_base_says_nothing_of_a_foreign_one(archive, filled, layout):
    archive.set("versions", json.dumps({"a": "3.0-1"}))
    made = close(layout, Locked(filled.path, "roll", "debian@sha256:1"))
    assert made.facts["replaced"] == []


def file(name, version):
    return DebianFile(name, version, "amd64", f"{name}.deb", 1, "0" * 64)


def test_changes():
    before = [file("a", "1"), file("b", "1"), file("c", "1")]
    after = [file("a", "1"), file("b", "2"), file("d", "1")]
    assert lock.changes(before, after) == ["b 1 -> 2", "c 1 is gone", "d 1 is new"]


def test_another_file_of_the_same_version_is_a_change():
    one = file("a", "1")
    other = dataclasses.replace(one, sha256="a" * 64)
    expected = [f"a 1 is another file, SHA-256 {'0' * 12}… -> {'a' * 12}…"]
    assert lock.changes([one], [other]) == expected
    foreign = dataclasses.replace(one, architecture="i386")
    assert lock.changes([one, foreign], [one, dataclasses.replace(foreign, sha256="b" * 64)])
    assert lock.changes([one, foreign], [foreign, one]) == []


def test_refresh_shows_what_changed(filled, recorded):
    entries = {
        "base": lock.read(filled.path, DebianFile)["base"],
        "new": Entry((), "", (file("a", "1"),)),
    }
    lock.refresh(filled, entries, DebianFile)
    assert recorded.notes == ["new: a 1 is new", "node: a 1:2.0-1 is gone"]
    assert lock.read(filled.path, DebianFile) == entries
    lock.refresh(filled, entries, DebianFile)
    assert recorded.notes[-1] == "nothing changed"


def test_a_foreign_base_is_its_own_foundation(layout):
    assert lock.foundation(layout, layout.base_status, "debian@sha256:1") == "debian@sha256:1"
    assert lock.foundation(layout, None, "debian@sha256:1") == ""
