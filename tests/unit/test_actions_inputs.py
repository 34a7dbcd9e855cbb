import hashlib
import io
import tarfile

import pytest

from buildchain.actions import inputs
from buildchain.errors import ChecksumError, ContentError, FetchError
from buildchain.store.blobs import Store
from buildchain.tasks import inputs as tasks


@pytest.fixture
def blobs(layout):
    store = Store(layout.store)
    return {store.keep(text): text.decode() for text in (b"one", b"two")}


def packed(layout, blobs):
    output = layout.build / "inputs.tar"
    inputs.pack(layout, output, blobs, {layout.resolution("ab" * 32): b"[]"})
    return output


def forget(layout):
    for path in layout.cache.rglob("*"):
        if path.is_file():
            path.unlink()


def test_what_is_packed_is_unpacked(layout, blobs):
    output = packed(layout, blobs)
    forget(layout)
    assert inputs.unpack(layout, output) == 3
    for digest, text in blobs.items():
        assert Store(layout.store).path(digest).read_text() == text
    assert layout.resolution("ab" * 32).read_text() == "[]"
    assert inputs.unpack(layout, output) == 3, "a second time it changes nothing"
    assert not list(layout.cache.rglob("*.part"))


def test_the_same_inputs_give_the_same_archive(layout, blobs):
    first = packed(layout, blobs).read_bytes()
    Store(layout.store).path(next(iter(blobs))).touch()
    assert packed(layout, dict(reversed(blobs.items()))).read_bytes() == first
    with tarfile.open(layout.build / "inputs.tar") as archive:
        members = archive.getmembers()
    assert {(m.uid, m.gid, m.uname, m.mtime, m.mode) for m in members} == {(0, 0, "", 0, 0o644)}


def test_missing_inputs_are_named(layout, blobs):
    missing = {hashlib.sha256(str(n).encode()).hexdigest(): f"file{n}" for n in range(7)}
    with pytest.raises(FetchError, match=r"7 inputs are not in .*: file0, .*file4 …"):
        packed(layout, {**blobs, **missing})
    assert list(layout.build.iterdir()) == []


def tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if content is None or name.endswith("link"):
                entry.size, entry.type, entry.linkname = 0, tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry, io.BytesIO(content))
    return path


GOOD = hashlib.sha256(b"one").hexdigest()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("../outside", "../outside is none of an archive of inputs"),
        ("/etc/passwd", "passwd is none of an archive"),
        (f"store/sha256/{GOOD[:2]}/../../{GOOD}", "is none of an archive"),
        (f"store/sha256/00/{GOOD}", "is none of an archive"),
        ("resolutions/x.json", "is none of an archive"),
        ("keys/development.key", "is none of an archive"),
        ("store/link", "store/link is no file"),
    ],
)
def test_other_members_are_refused(layout, tmp_path, name, sentence):
    with pytest.raises(ContentError, match=sentence):
        inputs.unpack(layout, tar(tmp_path / "x.tar", {name: b"one"}))
    assert [path for path in layout.cache.rglob("*") if path.is_file()] == []


def test_a_forged_input_does_not_enter(layout, tmp_path):
    forged = tar(tmp_path / "x.tar", {f"store/sha256/{GOOD[:2]}/{GOOD}": b"two"})
    with pytest.raises(ChecksumError, match="its SHA-256 is"):
        inputs.unpack(layout, forged)
    assert [path for path in layout.cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "gone"])
def test_what_is_no_archive(layout, blobs, damage):
    output = packed(layout, blobs)
    if damage == "cut":
        output.write_bytes(output.read_bytes()[:1300])
    elif damage == "empty":
        tar(output, {})
    elif damage == "text":
        output.write_text("x" * 5000)
    else:
        output.unlink()
    forget(layout)
    with pytest.raises(ContentError) as caught:
        inputs.unpack(layout, output)
    assert str(output) in caught.value.reason


def test_the_task(layout, blobs, tmp_path, monkeypatch):
    packed(layout, blobs).rename(tmp_path / "inputs.tar")
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    assert tasks._unpack(layout, ["inputs.tar"]) is None
    assert "takes one archive, 0 were named" in tasks._unpack(layout, []).message
