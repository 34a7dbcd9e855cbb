"""What ``publish`` refuses: nothing is sent, and the index before stays."""

import json
import shutil

import pytest

from buildchain.core.errors import ConfigError, ContentError, PlaceError, SigningError, SpaceError
from tests.unit.publication.world import make_release, sign, tree


def remove(name):
    return lambda world, stranger: (world.build / name).unlink()


def write(name, content):
    return lambda world, stranger: (world.build / name).write_bytes(content)


def signed(name, content):
    def change(world, stranger):
        (world.build / name).write_bytes(content)
        sign(world.build, world.signer)

    return change


def record(**changes):
    def change(world, stranger):
        path = world.build / "release.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        sign(world.build, world.signer)

    return change


def listed(*lines):
    def change(world, stranger):
        path = world.build / "SHA256SUM"
        path.write_text(path.read_text() + "".join(f"{line}\n" for line in lines))
        world.signer.sign(path, world.build / "SHA256SUM.sig", epoch=1700000000)

    return change


def link(world, stranger):
    (world.build / "demo-2.4.0.iso").unlink()
    (world.build / "demo-2.4.0.iso").symlink_to("/etc/passwd")


def published_other(world, stranger):
    world.released("2.4.0")
    world.release("2.4.0", **{"demo-2.4.0.iso": b"other"})


def rolled_back(world, stranger):
    world.released("2.4.0")
    saved = tree(world.place)
    world.released("2.4.1")
    (world.place / "releases.json").write_bytes(saved["releases.json"])


def other_of_the_same_serial(world, stranger):
    world.released("2.4.0")
    world.rewrite(lambda document: document.update(date=5))


def index_gone(world, stranger):
    world.released("2.4.0")
    (world.place / "releases.json").unlink()


def index_of_a_stranger(world, stranger):
    world.released("2.4.0")
    world.rewrite(lambda document: document.update(serial=9), stranger)


def index_unsigned(world, stranger):
    world.released("2.4.0")
    shutil.rmtree(world.place / "signatures")


def index_damaged(world, stranger):
    world.released("2.4.0")
    path = world.place / "releases.json"
    path.write_bytes(path.read_bytes()[:-30])


def index_damaged_and_signed(world, stranger):
    world.released("2.4.0")
    world.rewrite(lambda content: content[:-30], by_text=True)


def other_product(world, stranger):
    world.released("2.4.0")
    world.rewrite(lambda document: document.update(name="other", serial=9))


def memory_damaged(world, stranger):
    world.released("2.4.0")
    [path] = world.publisher_memory.iterdir()
    path.write_text("{")


def place_is_a_file(world, stranger):
    world.place.write_text("")


def place_below_a_file(world, stranger):
    (world.folder / "file").write_text("")
    world.to = "file/place"


def read_only_place(world, stranger):
    world.to = "/proc/1/place"


def full_disk(world, stranger):
    part = world.place / "2.4.0" / ".SHA256SUM.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")


def huge_list(world, stranger):
    path = world.build / "SHA256SUM"
    path.write_bytes(b"\n" * ((1 << 20) + 1))
    world.signer.sign(path, world.build / "SHA256SUM.sig", epoch=1700000000)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda w, s: shutil.rmtree(w.build), ContentError, "is no release: it has no SHA256SUM"),
        (remove("SHA256SUM.sig"), ContentError, "is no release: it has no SHA256SUM.sig"),
        (remove("release.json"), ContentError, "it has no release.json"),
        (lambda w, s: make_release(w.build, "2.4.0", s), SigningError, "not signed by the keys"),
        (write("SHA256SUM.sig", b"x"), SigningError, "not signed by the keys"),
        (write("SHA256SUM", b"x"), SigningError, "not signed by the keys"),
        (remove("demo-2.4.0.iso"), ContentError, "demo-2.4.0.iso is missing"),
        (write("demo-2.4.0.iso", b"x"), ContentError, "demo-2.4.0.iso was changed"),
        (write("more", b"x"), ContentError, "more does not belong there"),
        (link, ContentError, "demo-2.4.0.iso is no file"),
        (listed(f"{'a' * 64}  ../x"), ContentError, "line 5 of SHA256SUM is not as it should be"),
        (listed("hello"), ContentError, "line 5 of SHA256SUM is not as it should be: 'hello'"),
        (huge_list, ContentError, "SHA256SUM is larger than 1048576 bytes"),
        (signed("release.json", b"{"), ContentError, "release.json is no record of a release"),
        (signed("release.json", b"[]"), ContentError, "release.json is no record of a release"),
        (record(schema=2), ContentError, "release.json is of schema 2, this knows 1"),
        (record(version="../2"), ContentError, "'../2' is no version"),
        (record(date=-1), ContentError, "'-1' is no date"),
        (record(name="Other"), ConfigError, "has a release of other, this project is demo"),
        (record(name="a/b"), ContentError, "'a/b' is no name"),
        (record(bases=["x"]), ContentError, "'x' is no version"),
        (record(artefacts=[{"file": "gone", "kind": "", "size": 1, "sha256": "a" * 64}]),
         ContentError, "release.json names 'gone', which is not there"),
        (signed("demo-2.4.0.iso", b"x"), ContentError, "describes another demo-2.4.0.iso"),
        (published_other, ContentError, "has another 2.4.0: SHA256SUM, SHA256SUM.sig, demo-2.4.0"),
        (rolled_back, SigningError, "has serial 1; one with serial 2 was seen there before"),
        (other_of_the_same_serial, SigningError, "is another one; one with serial 1 was seen"),
        (index_gone, SigningError, "is gone; one with serial 1 was seen there before"),
        (index_of_a_stranger, SigningError, "is not signed by the keys in"),
        (index_unsigned, SigningError, "has no signature"),
        (index_damaged, SigningError, "has no signature"),
        (index_damaged_and_signed, SigningError, "is signed, but damaged: it is no JSON"),
        (other_product, ConfigError, "has releases of other, these are of demo"),
        (memory_damaged, ConfigError, "is damaged: it says which releases.json was seen last"),
        (place_is_a_file, PlaceError, "place: Not a directory"),
        (place_below_a_file, PlaceError, "place: Not a directory"),
        (read_only_place, PlaceError, "/proc/1/place: "),
        (full_disk, SpaceError, "place: No space left on device"),
    ],
)  # fmt: skip
def test_what_is_not_published(world, stranger, change, kind, said):
    world.release("2.4.0")
    change(world, stranger)
    before = tree(world.folder)
    with pytest.raises(kind) as caught:
        world.publish()
    assert said in caught.value.reason
    assert caught.value.solution
    after = tree(world.folder)
    assert {name: after.get(name) for name in before} == before
    assert after.get("place/releases.json") == before.get("place/releases.json")
    if kind is not SpaceError:
        new = {*after} - {*before}
        assert not [name for name in new if "2.4.0/" in name], "nothing was sent"


def test_all_that_is_wrong_is_told_at_once(world):
    world.release("2.4.0")
    (world.build / "demo-2.4.0.iso").write_bytes(b"x")
    (world.build / "release.json").touch()
    (world.build / "strange").write_bytes(b"x")
    (world.build / "demo-2.4.0-changelog.md").unlink()
    with pytest.raises(ContentError) as caught:
        world.publish()
    for said in ("changelog.md is missing", "strange does not belong", "demo-2.4.0.iso was chang"):
        assert said in caught.value.reason
