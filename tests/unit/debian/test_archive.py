import hashlib
import json
import shutil

import pytest

from buildchain.core.errors import ChecksumError, FetchError, LockError
from buildchain.debian import archive as debian
from buildchain.project import catalog
from buildchain.project.model import Package, Source
from buildchain.store.blobs import Store


def close(layout, name, packages, status=None, believed=frozenset()):
    """Resolve a set of packages and list it."""
    files = debian.resolve(layout, name, packages, status, believed)
    return debian.list_closure(layout, name, files, [])


@pytest.fixture
def pins(root):
    return catalog.load(root, "default")


def test_refresh(archive, layout, pins):
    made = debian.refresh(layout, pins)
    assert made.facts["entries"] == 1
    text = (layout.apt / "debian.sources").read_text()
    assert "URIs: http://deb/" in text
    assert f"Signed-By: {pins.keyring}" in text
    update = archive.programs.calls("apt-get")[-1]
    assert update[:2] == ["-c", str(layout.apt / "update.conf")]
    assert (layout.apt / "lists" / "partial").is_dir()


def test_refresh_without_debian_sources(archive, layout, pins):
    archive.set("targets", "http://x/|noble|main|Ubuntu|deb\n")
    assert debian.refresh(layout, pins).facts == {"entries": 0}
    archive.set("resolve", "9")
    with pytest.raises(FetchError, match="no indexes of the Debian suite"):
        close(layout, "node", ["a"])


def test_without_network_only_what_was_not_resolved_before_fails(archive, layout, pins, recorded):
    debian.refresh(layout, pins)
    close(layout, "node", ["b", "a"])
    first = layout.closure("node").read_bytes()
    for kind in ("update", "resolve", "download"):
        archive.set(kind, "9")
    shutil.rmtree(layout.build)
    debian.refresh(layout, pins)
    assert any("going on with what is in" in note for note in recorded.notes)
    a, b = debian.parse_list(first)
    with pytest.raises(FetchError, match="the Debian archive cannot be reached"):
        close(layout, "node", ["a", "b"])
    with pytest.raises(LockError, match=r"1 packages that node was .* not in the lock: b 1:2\.0-1"):
        close(layout, "node", ["a", "b"], believed={a})
    close(layout, "node", ["a", "b"], believed={a, b})
    assert layout.closure("node").read_bytes() == first
    assert any("are those of the last build" in note for note in recorded.notes)
    with pytest.raises(FetchError, match="the Debian archive cannot be reached") as caught:
        close(layout, "node", ["c"], believed={a, b})
    assert "no update today" in caught.value.details
    assert "network" in caught.value.solution
    next(path for path in layout.store.rglob("*") if path.is_file()).unlink()
    with pytest.raises(FetchError, match="the Debian archive cannot be reached"):
        close(layout, "node", ["a", "b"], believed={a, b})


def test_close_fetches_into_the_store_and_lists(archive, layout, recorded):
    made = close(layout, "node", ["b", "a"])
    assert made.facts == {"packages": 2, "replaced": []}
    files = debian.read_closure(layout.closure("node"))
    assert [(f.name, f.version) for f in files] == [("a", "1:2.0-1"), ("b", "1:2.0-1")]
    store = Store(layout.store)
    assert all(store.has(file.sha256) for file in files)
    assert [(p.done, p.total) for p in recorded.progress] == [(1, 2), (2, 2)]
    links = debian.link_closure(layout, "node", layout.build / "debs")
    assert [link.name for link in links] == ["a_2.0-1_amd64.deb", "b_2.0-1_amd64.deb"]
    assert all(link.samefile(store.path(f.sha256)) for link, f in zip(links, files, strict=True))
    assert list(layout.temporary.iterdir()) == []


def test_what_is_in_the_store_is_not_fetched_again(archive, layout):
    close(layout, "one", ["a"])
    close(layout, "two", ["a"])
    assert archive.verbs() == ["print", "download", "print"]
    close(layout, "three", ["a", "b"])
    assert archive.verbs()[3:] == ["print", "download"]


def test_status_says_what_is_installed(archive, layout, tmp_path):
    status = tmp_path / "status"
    close(layout, "node", ["a"], status)
    assert f'Dir::State::status "{status}"' in (layout.apt / "node.conf").read_text()


@pytest.mark.parametrize("kind", ["resolve", "download"])
def test_an_archive_that_moved_on_is_read_again_once(archive, layout, recorded, kind):
    archive.set(kind, "")
    close(layout, "node", ["a"])
    assert "update" in archive.verbs()
    assert any("moved on" in note for note in recorded.notes)


@pytest.mark.parametrize("kind", ["resolve", "download"])
def test_packages_that_cannot_be_had(archive, layout, kind):
    archive.set(kind, "9")
    with pytest.raises(FetchError, match="Debian packages for node cannot be had: a, b") as caught:
        close(layout, "node", ["a", "b"])
    assert f"no {kind} today" in caught.value.details
    assert not layout.closure("node").exists()


def test_wrong_bytes_do_not_enter_the_store(archive, layout):
    archive.set("evil", "evil")
    with pytest.raises(ChecksumError, match=r"a_1%3a2\.0-1_amd64\.deb: expected SHA-256"):
        close(layout, "node", ["a"])
    assert [p for p in layout.store.rglob("*") if p.is_file()] == []
    assert not layout.closure("node").exists()


@pytest.fixture(autouse=True)
def _sources(layout):
    layout.apt.mkdir(parents=True)
    (layout.apt / "debian.sources").write_text("Suites: bookworm\n")


def package(*texts: str) -> Package:
    sources = tuple(
        Source(f"{text}.tar", hashlib.sha256(text.encode()).hexdigest(), "demo", "1.0-1")
        for text in texts
    )
    return Package("demo", "1.0", "1", (), (), (), sources)


def test_sources(archive, layout, tmp_path):
    archive.set("sources/one.tar", "one")
    archive.set("sources/two.tar", "two")
    made = debian.get_sources(layout, package("one", "two"), tmp_path / "out")
    assert [path.read_text() for path in made.paths] == ["one", "two"]
    assert set(made.digests) == set(made.paths)
    (call,) = archive.programs.calls("apt-get")
    assert call[-1] == "demo=1.0-1"
    debian.get_sources(layout, package("one", "two"), tmp_path / "again")
    assert len(archive.programs.calls("apt-get")) == 1, "they were in the store"


def test_source_that_one_suite_dropped(archive, layout, tmp_path):
    archive.set("sources/one.tar", "one")
    archive.set("source", "1")
    debian.get_sources(layout, package("one"), tmp_path / "out")
    asked = [argv[-1] for argv in archive.programs.calls("apt-get") if "source" in argv]
    assert asked == ["demo=1.0-1", "demo/bookworm"]


def test_source_that_one_suite_has_in_another_version(archive, layout, tmp_path):
    archive.set("sources/one.tar", "one")
    archive.set("source", "1")
    archive.set("versions", '{"source": "2.0-1"}')
    with pytest.raises(FetchError, match=r"source package demo 1\.0-1 cannot be had"):
        debian.get_sources(layout, package("one"), tmp_path / "out")


def test_source_that_is_gone(archive, layout, tmp_path):
    archive.set("source", "9")
    with pytest.raises(FetchError, match=r"source package demo 1\.0-1 cannot be had") as caught:
        debian.get_sources(layout, package("one"), tmp_path / "out")
    assert "buildchain/pins" in caught.value.solution


def test_source_without_the_pinned_file(archive, layout, tmp_path):
    with pytest.raises(FetchError, match=r"demo 1\.0-1 cannot be had") as caught:
        debian.get_sources(layout, package("one"), tmp_path / "out")
    assert "no file one.tar" in caught.value.details


def test_source_with_wrong_bytes(archive, layout, tmp_path):
    archive.set("sources/one.tar", "evil")
    with pytest.raises(ChecksumError, match=r"demo 1\.0-1: one\.tar: expected SHA-256"):
        debian.get_sources(layout, package("one"), tmp_path / "out")
    assert [p for p in layout.store.rglob("*") if p.is_file()] == []
    assert not (tmp_path / "out").exists()


def test_the_format_of_a_closure(archive, layout):
    close(layout, "node", ["a"])
    assert [sorted(entry) for entry in json.loads(layout.closure("node").read_text())] == [
        ["architecture", "file", "name", "sha256", "size", "version"]
    ]
