import dataclasses
import hashlib
import io
import tarfile

import pytest

from buildchain.core.errors import ChecksumError, ContentError, FetchError, LockError, SpaceError
from buildchain.debian import archive, lock
from buildchain.debian import steps as debian
from buildchain.debian.lock import Entry
from buildchain.inputs import archive as inputs
from buildchain.inputs import steps as inputs_steps
from buildchain.project import context as contexts
from buildchain.project.model import DebianFile
from buildchain.signatures import signing
from buildchain.store.blobs import Store
from tests.unit.medium.test_iso import EPOCH

LOCKED = DebianFile("a", "1", "all", "a_1_all.deb", 3, hashlib.sha256(b"one").hexdigest())
TEXT = archive.list_text([LOCKED]).encode()


@pytest.fixture
def layout(keyed):
    return keyed


@pytest.fixture
def blobs(layout):
    store = Store(layout.store)
    return {store.keep(text): text.decode() for text in (b"one", b"two")}


def packed(layout, blobs):
    output = layout.build / "inputs.tar"
    with signing.signer(layout, "") as signer:
        inputs.pack(layout, output, blobs, {layout.resolution("ab" * 32): TEXT}, signer, EPOCH)
    return output


def unpack(layout, source):
    return inputs.unpack(layout, source, {LOCKED}, None)


def forget(layout):
    for path in entered(layout):
        path.unlink()


def entered(layout):
    """Return what is in the cache besides its key."""
    files = [path for path in layout.cache.rglob("*") if path.is_file()]
    return [path for path in files if path != layout.development_key]


def test_what_is_packed_is_unpacked(layout, blobs):
    output = packed(layout, blobs)
    forget(layout)
    assert unpack(layout, output) == 3
    for digest, text in blobs.items():
        assert Store(layout.store).path(digest).read_text() == text
    assert layout.resolution("ab" * 32).read_bytes() == TEXT
    assert unpack(layout, output) == 3, "a second time it changes nothing"
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
    rows = {n: (hashlib.sha256(c).hexdigest(), len(c)) for n, c in members.items()}
    rows |= {n: (n[-64:], size) for n, (_, size) in rows.items() if n.startswith("store/sha256/")}
    index = "".join(f"{digest} {size} {name}\n" for name, (digest, size) in rows.items())
    everything = {inputs.INDEX: index.encode(), inputs.SIGNATURE: b"", **members}
    with tarfile.open(path, "w") as archive:
        for name, content in everything.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if name.endswith("link"):
                entry.size, entry.type, entry.linkname = 0, tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry, io.BytesIO(content))
    return path


GOOD = hashlib.sha256(b"one").hexdigest()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("../outside", "../outside is not an entry of an inputs archive"),
        ("/etc/passwd", "passwd is not an entry"),
        (f"store/sha256/{GOOD[:2]}/../../{GOOD}", "is not an entry"),
        (f"store/sha256/00/{GOOD}", "is not an entry"),
        ("resolutions/x.json", "is not an entry"),
        ("keys/development.key", "is not an entry"),
        ("store/link", "store/link is not an entry"),
    ],
)
def test_other_members_are_refused(layout, tmp_path, name, sentence):
    with pytest.raises(ContentError, match=sentence):
        unpack(layout, tar(tmp_path / "x.tar", {name: b"one"}))
    assert entered(layout) == []


def test_a_forged_input_does_not_enter(layout, tmp_path):
    forged = tar(tmp_path / "x.tar", {f"store/sha256/{GOOD[:2]}/{GOOD}": b"two"})
    with pytest.raises(ChecksumError, match=r"x\.tar: store/.*: expected SHA-256"):
        unpack(layout, forged)
    assert entered(layout) == []


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
        unpack(layout, output)
    assert str(output) in caught.value.reason


def test_more_than_there_is_room_for(layout, tmp_path):
    path = tmp_path / "x.tar"
    big = f"{GOOD} 987654321012345 store/sha256/{GOOD[:2]}/{GOOD}\n".encode()
    with tarfile.open(path, "w") as archive:
        for name, content in ((inputs.INDEX, big), (inputs.SIGNATURE, b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    with pytest.raises(SpaceError, match="987654321 MB of inputs are to come"):
        unpack(layout, path)


@pytest.fixture
def context(layout, root, monkeypatch, tmp_path):
    """The checkout's settings, with a lock of one set on a machine that has made it."""
    settings = {"CACHE_ROOT": str(layout.cache), "BUILD_ROOT": str(layout.build)}
    found = contexts.load(root, {**settings, "SOURCE_DATE_EPOCH": str(EPOCH)})
    path = tmp_path / "pins" / "default" / "debian.lock"
    path.parent.mkdir(parents=True)
    lock.write(path, {"node": Entry(("a",), "", (LOCKED,))})
    monkeypatch.setattr(debian, "locked", lambda context: lock.Locked(path, context.lock_policy))
    monkeypatch.setattr(inputs_steps, "_sets", lambda _context: {"node": ("a",)})
    archive.list_closure(found.layout, "node", (LOCKED,), ())
    pins = dataclasses.replace(found.catalog, packages=(), pulled_images=(), redhat_repositories=())
    Store(found.layout.store).keep(b"one")
    return dataclasses.replace(found, catalog=pins)


def test_the_tasks(context, tmp_path, monkeypatch):
    layout = context.layout
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    assert inputs_steps._pack(context) is None
    layout.inputs.rename(tmp_path / "inputs.tar")
    with signing.signer(layout, "") as signer:
        signer.export(tmp_path, "builder")
    forget(layout)
    assert inputs_steps._unpack(context, ["inputs.tar"], "builder.gpg", insecure=False) is None
    assert [path.name for path in layout.store.rglob("*") if path.is_file()] == [LOCKED.sha256]
    assert inputs_steps._unpack(context, ["inputs.tar"], "", insecure=True) is None


@pytest.mark.parametrize(
    ("files", "key", "sentence"),
    [
        ([], "", "takes one archive, 0 were named"),
        (["a", "b"], "key", "takes one archive, 2 were named"),
        (["a"], "", "was not told whose archive this is"),
        (["a"], "gone.gpg", "--key gone.gpg: there is no such file in"),
    ],
)
def test_the_task_asks_for_a_key(context, files, key, sentence):
    assert sentence in inputs_steps._unpack(context, files, key, insecure=False).message


def test_what_is_not_locked_is_not_packed(context):
    other = dataclasses.replace(LOCKED, sha256="b" * 64)
    archive.list_closure(context.layout, "node", (other,), ())
    with pytest.raises(LockError, match=r"1 packages of this build are not in .*: node: a 1$"):
        inputs_steps.pack(context, context.layout.build / "x.tar")


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({}, "roll"),
        ({"LOCK_POLICY": "strict"}, "strict"),
        ({"SIGNING_KEY": "AB" * 20}, "strict"),
        ({"SIGNING_KEY": "AB" * 20, "LOCK_POLICY": "roll"}, "strict"),
    ],
)
def test_a_release_is_as_locked(root, tmp_path, settings, policy):
    roots = {"CACHE_ROOT": str(tmp_path / "c"), "BUILD_ROOT": str(tmp_path / "b")}
    found = contexts.load(root, {**roots, **settings})
    assert found.lock_policy == debian.locked(found).policy == policy
