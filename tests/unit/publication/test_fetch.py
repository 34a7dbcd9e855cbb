import fcntl
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from buildchain.core.errors import (
    ChecksumError,
    ConfigError,
    ContentError,
    PlaceError,
    SigningError,
    SpaceError,
)
from buildchain.publication.folder import Folder
from tests.unit.publication.world import make_release, tree

ISO = "demo-2.4.0.iso"


class Counting(Folder):
    """A folder that tells from which byte on it was read."""

    asked: dict[str, int]

    def pieces(self, name, start=0):
        self.asked[name] = start
        return super().pieces(name, start)


@pytest.fixture
def asked(monkeypatch):
    """Return from where each file was asked for."""
    from buildchain.publication import address

    Counting.asked = {}
    monkeypatch.setattr(address, "Folder", Counting)
    return Counting.asked


@pytest.mark.parametrize(
    ("left", "start"),
    [
        (lambda content: content[:12345], 12345),
        (lambda content: b"", 0),
        # what an earlier run left may be of another release, or damaged
        (lambda content: b"x" * 12345, 0),
        (lambda content: b"x" * len(content), 0),
        (lambda content: content + b"x", 0),
        (lambda content: content, None),
    ],
)
def test_a_fetch_goes_on_where_it_was(world, asked, left, start):
    world.released("2.4.0")
    asked.clear()
    part = world.folder / ".got.part"
    part.mkdir()
    (part / ISO).write_bytes(left((world.build / ISO).read_bytes()))
    (part / "strange").mkdir()
    (part / "strange" / "file").touch()
    (part / ".other").touch()
    assert world.fetch() == "2.4.0"
    assert tree(world.got) == tree(world.build)
    assert asked.get(f"2.4.0/{ISO}") == start
    assert not part.exists()


def test_the_folder_appears_at_once_and_is_not_fetched_again(world, asked, recorded):
    world.released("2.4.0")
    world.fetch()
    asked.clear()
    assert world.fetch("2.4.0") == "2.4.0"
    assert {name for name in asked if name.startswith("2.4.0")} == set()
    assert recorded.notes[-1].endswith("is 2.4.0 already")


def at_place(name, content):
    """Change a file at the place, in the middle of its bytes."""

    def change(world, stranger):
        path = world.place / "2.4.0" / name
        path.write_bytes(content(path.read_bytes()))

    return change


def strangers_release(world, stranger):
    """The index is ours, the release's own signature is not."""
    folder = make_release(world.folder / "other", "2.4.0", stranger)
    signature = folder / "SHA256SUM.sig"
    shutil.copy2(signature, world.place / "2.4.0" / signature.name)
    put(world, signature)


def put(world, *files):
    """Let the signed index describe files as they are."""
    import hashlib

    def change(document):
        for row in document["releases"][0]["artefacts"]:
            for file in files:
                if row["file"] == file.name:
                    content = file.read_bytes()
                    row["size"] = len(content)
                    row["sha256"] = hashlib.sha256(content).hexdigest()
        document["serial"] = 9

    world.rewrite(change)


def other_version(world, stranger):
    """The index calls one release by the name of another."""
    (world.place / "2.4.0").rename(world.place / "2.4.7")

    def change(document):
        document["releases"][0]["version"] = document["channels"]["candidate"] = "2.4.7"
        document["serial"] = 9

    world.rewrite(change)


def huge(world, stranger):
    def change(document):
        document["releases"][0]["artefacts"][0]["size"] = 1 << 40
        document["serial"] = 9

    world.rewrite(change)


def traversal(world, stranger):
    def change(document):
        document["releases"][0]["artefacts"][0]["file"] = "../../../etc/cron.d/x"
        document["serial"] = 9

    world.rewrite(change)


def rolled_back(world, stranger):
    saved = (world.place / "releases.json").read_bytes()
    world.released("2.4.1")
    world.fetch("candidate", world.folder / "seen")
    (world.place / "releases.json").write_bytes(saved)


def by_stranger(world, stranger):
    world.rewrite(lambda document: document.update(serial=9), stranger)


def fetched_before(world, stranger):
    world.got.mkdir()
    (world.got / "precious").write_text("mine")


def other_there(world, stranger):
    make_release(world.got, "2.4.0", world.signer, **{ISO: b"other"})


def a_file_there(world, stranger):
    world.got.write_text("mine")


def channel_moved(world, stranger):
    """What a channel means is signed, too."""
    path = world.place / "releases.json"
    path.write_bytes(path.read_bytes().replace(b'"candidate"', b'"stable"'))


CASES = [
    (lambda w, s: shutil.rmtree(w.place), "candidate", {}, PlaceError, "has no releases.json"),
    (by_stranger, "candidate", {}, SigningError, "is not signed by the keys in"),
    (rolled_back, "candidate", {}, SigningError, "has serial 1; one with serial 2 was seen"),
    (channel_moved, "stable", {}, SigningError, "has no signature"),
    (traversal, "candidate", {}, SigningError, "'../../../etc/cron.d/x' is no file name"),
    (None, "stable", {}, ConfigError, "there is no release in channel stable"),
    (None, "2.9.0", {}, ConfigError, "'2.9.0' is no version that there is"),
    (None, "beta", {}, ConfigError, "'beta' is no channel that there is"),
    (None, "candidate", {"at_least": "2.4.1"}, ConfigError, "2.4.0 is older than 2.4.1"),
    (None, "candidate", {"at_least": "new"}, ConfigError, "--at-least: 'new' is no version"),
    (lambda w, s: w.rewrite(lambda d: d.update(date=1, serial=9)), "2.4.0", {"days": 30},
     ConfigError, "--max-age allows 30"),
    (huge, "candidate", {}, SpaceError, "2.4.0 has 1048576 MiB"),
    (at_place(ISO, lambda c: c[:-1]), "2.4.0", {}, ChecksumError, "is not what the index says"),
    (at_place(ISO, lambda c: c + b"x" * 9999), "2.4.0", {}, ChecksumError, "is not what the index"),
    (at_place(ISO, lambda c: b"x" + c[1:]), "2.4.0", {}, ChecksumError, f"2.4.0/{ISO} of"),
    (lambda w, s: (w.place / "2.4.0" / ISO).unlink(), "2.4.0", {}, PlaceError,
     f"has no 2.4.0/{ISO}"),
    (strangers_release, "candidate", {}, SigningError, "is not signed by the keys in"),
    (other_version, "2.4.7", {}, ContentError, "has 2.4.0 where its index says 2.4.7"),
    (fetched_before, "2.4.0", {}, ConfigError, "is there, and it is not 2.4.0"),
    (other_there, "2.4.0", {}, ConfigError, "is there, and it is not 2.4.0"),
    (a_file_there, "2.4.0", {}, ConfigError, "is there, and it is not 2.4.0"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "what", "wishes", "kind", "said"), CASES)
def test_what_is_not_fetched(world, stranger, change, what, wishes, kind, said):
    world.released("2.4.0")
    if change:
        change(world, stranger)
    before = tree(world.got) if world.got.is_dir() else world.got.exists()
    with pytest.raises(kind) as caught:
        world.fetch(what, **wishes)
    assert said in caught.value.reason
    assert caught.value.solution
    assert (tree(world.got) if world.got.is_dir() else world.got.exists()) == before


def test_of_a_strangers_release_no_more_than_the_list_is_fetched(world, stranger, asked):
    world.released("2.4.0")
    strangers_release(world, stranger)
    asked.clear()
    with pytest.raises(SigningError):
        world.fetch()
    assert {name.partition("/")[2] for name in asked if name.startswith("2.4.0/")} == {
        "SHA256SUM", "SHA256SUM.sig",
    }  # fmt: skip


def test_the_key_that_comes_along_is_not_believed(world, stranger):
    """The keyring decides, whatever public keys lie beside the index."""
    world.signer, ours = stranger, world.key
    world.key = stranger.export(world.folder / "theirs", "demo")[0]
    world.released("2.4.0", **{"metalk8s.gpg": world.key.read_bytes()})
    world.key = ours
    with pytest.raises(SigningError):
        world.fetch()
    assert not world.got.exists()


def test_an_old_index_is_refused_from_the_first_look_on_even_if_the_fetch_failed(world):
    world.released("2.4.0")
    saved = (world.place / "releases.json").read_bytes()
    world.released("2.4.1")
    (world.place / "2.4.1" / "SHA256SUM").unlink()
    with pytest.raises(PlaceError):
        world.fetch()
    (world.place / "releases.json").write_bytes(saved)
    with pytest.raises(SigningError, match="one with serial 2 was seen there before"):
        world.fetch()


@pytest.fixture
def small_files():
    """Let files have 4096 bytes at most, as FAT lets them have 4 GiB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_the_disk_does_not_take(world, small_files):
    world.released("2.4.0")
    small_files()
    with pytest.raises(SpaceError, match=r"got: File too large") as caught:
        world.fetch()
    assert "FAT" in caught.value.solution
    assert not world.got.exists()


def test_a_folder_that_cannot_be_made(world):
    world.released("2.4.0")
    with pytest.raises(PlaceError, match=r"/proc/1/got: "):
        world.fetch(output=Path("/proc/1/got"))


def test_two_do_not_fetch_into_one_folder(world):
    world.released("2.4.0")
    part = world.folder / ".got.part"
    part.mkdir()
    handle = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="somebody else is fetching"):
            world.fetch()
    finally:
        os.close(handle)
    assert world.fetch() == "2.4.0"
