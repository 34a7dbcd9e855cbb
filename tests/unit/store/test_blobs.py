import errno
import hashlib
import os
from pathlib import Path

import pytest

from buildchain.core.errors import ChecksumError
from buildchain.store import blobs
from buildchain.store.blobs import Store, link


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_add_has_link(store, tmp_path):
    file = tmp_path / "in"
    file.write_text("x")
    digest = sha("x")
    assert not store.has(digest)
    path = store.add(file, digest, origin="test")
    assert path == store.root / "sha256" / digest[:2] / digest
    assert store.has(digest)
    assert path.stat().st_mode & 0o777 == 0o644
    assert file.exists()
    out = store.link(digest, tmp_path / "deep" / "out")
    assert out.samefile(path)


def test_add_twice_keeps_the_first(store, tmp_path):
    file = tmp_path / "in"
    file.write_text("x")
    first = store.add(file, sha("x"), origin="test").stat().st_ino
    assert store.add(tmp_path / "gone", sha("x"), origin="test").stat().st_ino == first


def test_wrong_checksum_leaves_nothing(store, tmp_path):
    file = tmp_path / "in"
    file.write_text("evil")
    with pytest.raises(ChecksumError) as caught:
        store.add(file, sha("good"), origin="demo 1.0: a.tar")
    assert caught.value.reason == (
        f"demo 1.0: a.tar: expected SHA-256 {sha('good')}, got {sha('evil')}"
    )
    assert [p for p in store.root.rglob("*") if p.is_file()] == []


def test_full_disk_leaves_nothing(store):
    with pytest.raises(OSError, match="No space left") as caught:
        _copy_into_full(store)
    assert caught.value.errno == errno.ENOSPC
    assert [p for p in store.root.rglob("*") if p.is_file()] == []


def _copy_into_full(store: Store) -> None:
    """Let the partial blob be a link to /dev/full, as a full file system would answer."""
    digest = sha("x")
    store.partials.mkdir(parents=True)
    (store.partials / digest).symlink_to("/dev/full")
    source = store.root.parent / "source"
    source.write_text("x" * 100_000)
    store.add(source, digest, origin="test")


def test_link_replaces(tmp_path):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    link(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").samefile(tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_link_over_itself(tmp_path):
    (tmp_path / "a").write_text("x")
    link(tmp_path / "a", tmp_path / "b")
    link(tmp_path / "a", tmp_path / "b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(
    not Path("/dev/shm").is_dir() or not os.access("/dev/shm", os.W_OK), reason="no /dev/shm"
)
def test_another_file_system_gets_a_copy(tmp_path):
    import tempfile

    (tmp_path / "a").write_text("x")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if Path(other).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is the same file system")
        copy = link(tmp_path / "a", Path(other) / "b")
        assert copy.read_text() == "x"
        assert not copy.samefile(tmp_path / "a")


def test_link_of_nothing_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        link(tmp_path / "none", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
    assert blobs.Store(tmp_path).has("00") is False
