"""Whoever carries an archive of inputs changes it: nothing of theirs gets into a build."""

import dataclasses
import random
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from buildchain.core.errors import BuildError, ContentError, FetchError, LockError, SigningError
from buildchain.core.layout import Layout
from buildchain.debian import archive as debian
from buildchain.debian import lock
from buildchain.inputs import archive as inputs
from buildchain.signatures import signing
from buildchain.store.blobs import Store
from tests.unit import forgery
from tests.unit.forgery import EVIL, Archive, forged, name_of, sha, strange
from tests.unit.medium.test_iso import EPOCH

ARCHIVES = 200


@pytest.fixture
def site(root, keyed, fake_program):
    """A machine without a network that has nothing but its development key."""
    program = fake_program.folder / "apt-get"
    program.write_text("#!/bin/sh\necho 'E: no network'\nexit 100\n")
    program.chmod(0o755)
    return forgery.site(keyed, root / "buildchain" / "pins" / "default" / "debian.lock")


@pytest.fixture
def ring(site, tmp_path):
    with signing.signer(site.layout, "") as signer:
        return signer.export(tmp_path / "ring", "builder")[0]


def signature(layout, index, folder):
    file = folder / "index"
    file.write_bytes(index)
    with signing.signer(layout, "") as signer:
        return signer.sign(file, folder / "index.sig", epoch=EPOCH).read_bytes()


def forget(site):
    """Empty the cache, but for the key."""
    for name in ("store", "resolutions"):
        shutil.rmtree(site.layout.cache / name, ignore_errors=True)


def unpack(site, path, keyring=None):
    return inputs.unpack(site.layout, path, site.records, keyring)


def test_the_honest_archive_is_enough(site, ring, tmp_path):
    archive = Archive(site)
    signed = signature(site.layout, archive.honest, tmp_path)
    path = archive.write(tmp_path / "x.tar", archive.honest, signed)
    assert unpack(site, path, ring) == len(archive.members)
    for name, entry in site.entries.items():
        site.close(name)
        assert debian.read_closure(site.layout.closure(name)) == entry.packages
        assert site.resolution(name).is_file()


# -- what is done to it: each takes the archive, the site, a set and one of its packages --------


def swap(archive, site, name, victim):
    """Put another file in the place of a locked one, under its name and version."""
    packages = site.entries[name].packages
    text = forged(packages, victim, {"sha256": sha(EVIL), "size": len(EVIL)})
    archive.replace(place(site, name), text)
    archive.drop(name_of(site.contents[victim.sha256]))
    archive.members.append((name_of(EVIL), EVIL))


def place(site, name):
    return site.resolution(name).relative_to(site.layout.cache).as_posix()


def fields(**changed):
    def change(archive, site, name, victim):
        archive.replace(place(site, name), forged(site.entries[name].packages, victim, changed))

    return change


def text(content):
    return lambda archive, site, name, _: archive.replace(place(site, name), content)


def another_member(name, content=EVIL):
    return lambda archive, *_: archive.members.append((name, content))


def in_place_of_the_blob(kind, target="", size=0, content=b""):
    def change(archive, site, _name, victim):
        blob = name_of(site.contents[victim.sha256])
        member = strange(kind, blob, target, size)
        archive.members[archive.place(blob)] = (member, content)

    return change


def before_the_blob(kind, size, content=EVIL):
    def change(archive, site, _name, victim):
        blob = archive.place(name_of(site.contents[victim.sha256]))
        archive.members.insert(blob, (strange(kind, "././@Long", size=size), content))

    return change


def other_bytes(archive, site, _name, victim):
    blob = name_of(site.contents[victim.sha256])
    same_size = (EVIL * 9)[: len(site.contents[victim.sha256])]
    archive.replace(blob, same_size)


def twice(archive, site, name, victim):
    swap(archive, site, name, victim)
    archive.members.insert(0, (place(site, name), debian.list_text(()).encode()))


def the_blob_twice(archive, site, _name, victim):
    content = site.contents[victim.sha256]
    archive.members.append((name_of(content), content))


ATTACKS = {
    "another package": swap,
    "a name that leads out": fields(name="../../../../escaped"),
    "an absolute name": fields(name="/escaped"),
    "a version that leads out": fields(version="/../../escaped"),
    "a file that leads out": fields(file="../escaped.deb"),
    "an option for apt-get": fields(name="-oDir::Bin::dpkg=/tmp/x"),
    "another size": fields(size=1),
    "a negative size": fields(size=-1),
    "no digest": fields(sha256="../../../escaped"),
    "a list for a name": fields(name=["a"]),
    "one more field": fields(more="x"),
    "no list": text(b"{}"),
    "no JSON": text(b"\xff\x00"),
    "an endless list": text(b"[" * 200_000),
    "other bytes": other_bytes,
    "a path that leads out": another_member("../../escaped"),
    "an absolute path": another_member("/tmp/escaped-from-an-archive-of-inputs"),
    "a blob that leads out": another_member(f"store/sha256/{sha(EVIL)[:2]}/../../{sha(EVIL)}"),
    "a key": another_member("keys/development.key"),
    "a symbolic link": in_place_of_the_blob(tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": in_place_of_the_blob(tarfile.LNKTYPE, "/etc/passwd"),
    "a device": in_place_of_the_blob(tarfile.CHRTYPE),
    "a disk": in_place_of_the_blob(tarfile.BLKTYPE),
    "a pipe": in_place_of_the_blob(tarfile.FIFOTYPE),
    "a folder": in_place_of_the_blob(tarfile.DIRTYPE),
    "a sparse file": in_place_of_the_blob(tarfile.GNUTYPE_SPARSE),
    "a size beyond the end": in_place_of_the_blob(tarfile.REGTYPE, size=1 << 40),
    "a size below nothing": in_place_of_the_blob(tarfile.REGTYPE, size=-512),
    "an extended header": before_the_blob(tarfile.XHDTYPE, len(EVIL)),
    "an endless extended header": before_the_blob(tarfile.XHDTYPE, 1 << 40),
    "an endless name": before_the_blob(tarfile.GNUTYPE_LONGNAME, 1 << 40),
    "a global header": before_the_blob(tarfile.XGLTYPE, 1 << 40),
    "a resolution twice": twice,
    "a blob twice": the_blob_twice,
}


def cut(path, _archive, chance):
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size - 1024)])


def compressed(path, _archive, _chance):
    forgery.as_gzip(path)


def continued(path, _archive, _chance):
    with path.open("ab") as stream:
        stream.write(EVIL)


def without(number):
    def change(path, archive, _chance):
        first = [(inputs.INDEX, archive.honest), (inputs.SIGNATURE, b"x")]
        del first[number]
        forgery.write(path, (*first, *archive.members))

    return change


def with_index(change):
    def action(path, archive, _chance):
        lines = change(archive.honest.decode().splitlines())
        archive.write(path, ("\n".join(lines) + "\n").encode(), b"x")

    return action


DAMAGES = {
    "cut": cut,
    "compressed": compressed,
    "something after its end": continued,
    "without a list": without(0),
    "without a signature": without(1),
    "a line twice": with_index(lambda lines: [*lines, lines[-1]]),
    "a line too many": with_index(lambda lines: [*lines, f"{sha(EVIL)} 9 {name_of(EVIL)}"]),
    "a line that leads out": with_index(lambda lines: [*lines, f"{sha(EVIL)} 9 ../x"]),
    "a line too few": with_index(lambda lines: lines[1:]),
    "no line": with_index(lambda _: []),
    "another size in a line": with_index(lambda rows: [rows[0].replace(" ", " 1", 1), *rows[1:]]),
    "an endless size": with_index(lambda lines: [f"{sha(EVIL)} {10**14} {name_of(EVIL)}", *lines]),
    "another digest in a line": with_index(lambda lines: [sha(EVIL) + lines[0][64:], *lines[1:]]),
}  # fmt: skip


def forge(site, path, number, signed):
    """Write one archive; return the set it is about."""
    chance = random.Random(number)
    sets = sorted(site.entries)
    name = sets[number % len(sets)]
    victim = chance.choice(site.entries[name].packages)
    archive = Archive(site)
    kind = chance.choice([*ATTACKS, *DAMAGES]) if number >= len(kinds()) else kinds()[number]
    if kind in ATTACKS:
        ATTACKS[kind](archive, site, name, victim)
        # Half of them edit the list to agree; the others leave it with its good signature.
        archive.write(path, archive.index() if number % 2 else archive.honest, signed)
    else:
        archive.write(path, archive.honest, signed)
        DAMAGES[kind](path, archive, chance)
    return name, kind


def kinds():
    return [*ATTACKS, *DAMAGES]


def check_cache(site):
    """Everything in the cache is what it is called, and no resolution is in it."""
    files = [p for p in site.layout.cache.rglob("*") if not p.is_dir() or p.is_symlink()]
    for file in files:
        assert file.is_file(), file
        assert not file.is_symlink(), file
        if file != site.layout.development_key:
            assert file == Store(site.layout.store).path(sha(file.read_bytes())), file


def test_no_forged_archive_is_accepted(site, ring, tmp_path):
    signed = signature(site.layout, Archive(site).honest, tmp_path)
    path = tmp_path / "x.tar"
    known = {file.sha256 for file in site.records}
    path.touch()
    outside = tree(tmp_path)
    accepted, reasons = [], {}
    for number in range(ARCHIVES):
        name, kind = forge(site, path, number, signed)
        # Half of them are looked at by somebody who does not ask for a signature.
        keyring = ring if number // 2 % 2 else None
        forget(site)
        site.layout.closure(name).unlink(missing_ok=True)
        try:
            unpack(site, path, keyring)
            accepted.append((number, kind, name, keyring))
            continue
        except BuildError as error:
            reasons[kind] = error.reason
        check_cache(site)
        assert not forgery.has(site.layout, EVIL) or keyring is None, kind
        restore_base(site)
        try:
            site.close(name)
        except (FetchError, LockError):
            continue
        found = {file.sha256 for file in debian.read_closure(site.layout.closure(name))}
        assert found <= known, (kind, name)
    assert accepted == []
    unnamed = {kind for kind, reason in reasons.items() if str(path) not in reason}
    assert unnamed <= {"an endless size"}, "it does not fit"
    assert tree(tmp_path) == outside
    assert not Path("/tmp/escaped-from-an-archive-of-inputs").exists()


def restore_base(site):
    debian.list_closure(site.layout, "base", site.entries["base"].packages, ())


def tree(folder):
    """Return what is there besides the cache and the build root."""
    ours = (folder / "cache", folder / "build")
    return {path for path in folder.rglob("*") if not any(map(path.is_relative_to, ours))}


def test_a_signature_by_somebody_else(site, ring, tmp_path):
    other = Layout(tmp_path, tmp_path / "b2", tmp_path / "c2", "demo")
    archive = Archive(site)
    swap(archive, site, "node", site.entries["node"].packages[0])
    path = tmp_path / "x.tar"
    archive.write(path, archive.index(), signature(other, archive.index(), tmp_path))
    with pytest.raises(SigningError, match=r"its list INPUTS is not signed by the key in"):
        unpack(site, path, ring)


@pytest.mark.parametrize("kind", ["another package", "another size"])
def test_a_resolution_that_is_in_the_cache_already(site, kind, tmp_path):
    """As left there by a build chain that believed it."""
    packages = site.entries["node"].packages
    changed = {"sha256": sha(EVIL), "size": len(EVIL)} if kind == "another package" else {"size": 1}
    store = Store(site.layout.store)
    for content in (EVIL, *site.contents.values()):
        store.keep(content)
    store.path(packages[0].sha256).unlink()
    resolution = site.resolution("node")
    resolution.parent.mkdir()
    resolution.write_bytes(forged(packages, packages[0], changed))
    with pytest.raises(FetchError, match="the Debian archive cannot be reached"):
        site.close("node")
    assert not site.layout.closure("node").exists()
    # A set that the lock does not have for these names, as on a foreign base.
    lock.write(site.locked.path, {n: e for n, e in site.entries.items() if n != "node"} | {
        "other": dataclasses.replace(site.entries["node"], wanted=("x",))})  # fmt: skip
    with pytest.raises(LockError, match=r"1 packages that node was made of last time are not in"):
        site.close("node")
    assert not site.layout.closure("node").exists()


def test_on_a_foreign_base_locked_packages_are_remembered(site, recorded):
    packages = site.entries["node"].packages
    for content in site.contents.values():
        Store(site.layout.store).keep(content)
    site.resolution("node").parent.mkdir()
    site.resolution("node").write_text(debian.list_text(packages[1:]))
    foreign = dataclasses.replace(site.locked, base_image="debian@sha256:1")
    made = lock.close(site.layout, foreign, "node", site.wanted["node"], site.layout.base_status)
    assert made.facts["replaced"] == []
    assert debian.read_closure(site.layout.closure("node")) == packages[1:]
    with pytest.raises(LockError, match="Debian packages for node are not in"):
        lock.close(
            site.layout, dataclasses.replace(foreign, policy="strict"), "node",
            site.wanted["node"], site.layout.base_status,
        )  # fmt: skip


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE,
             tarfile.DIRTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE]
)  # fmt: skip
def test_only_plain_files(site, tmp_path, kind):
    """Name, size and bytes are right, and listed."""
    archive = Archive(site)
    content = next(iter(site.contents.values()))
    member = strange(kind, name_of(content), "/etc/passwd", len(content))
    archive.members[archive.place(name_of(content))] = (member, content)
    path = archive.write(tmp_path / "x.tar", archive.honest, b"")
    with pytest.raises(ContentError, match="is not a regular file"):
        unpack(site, path)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
def test_no_size_is_read_into_memory(site, tmp_path, kind):
    path = tmp_path / "x.tar"
    forgery.write(path, [(strange(kind, inputs.INDEX, size=1 << 29), b"")])
    with path.open("r+b") as stream:
        stream.truncate(1 << 29)
    tracemalloc.start()
    try:
        with pytest.raises(ContentError):
            unpack(site, path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
