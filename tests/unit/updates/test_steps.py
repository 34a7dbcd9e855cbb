"""``./doit.sh update_pack`` and who makes packs: arguments, what is refused, what is made."""

import pytest

from buildchain.core.errors import ConfigError, ContentError, SigningError
from buildchain.updates import make, pack
from tests.unit.updates.world import AFTER, NEW, OLD


@pytest.fixture
def doit(doit_with_a_key):
    return doit_with_a_key(SOURCE_DATE_EPOCH="1700000000")


def test_update_pack(doit, world, tmp_path):
    """Of files and of folders: the same pack, which makes the new ISO."""
    for name, old, new in (
        ("one", world.old, world.new),
        ("two", world.old.parent, world.new.parent),
    ):
        words = ("--key", str(world.key), "-o", name, str(old), str(new))
        done = doit("update_pack", *words)
        assert done.status == 0, done.out + done.err
        assert f"one makes {NEW} of {OLD}: " in done.out or name != "one"
    first, second = (tmp_path / name for name in ("one", "two"))
    assert b"".join(pack.rebuild(world.old, first)) == AFTER
    manifests = [pack.split(file)[0] for file in (first, second)]
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "takes two ISOs, and has to be told where to write"),
        (("-o", "x", "one"), "takes two ISOs"),
        (("one", "two"), "has to be told where to write"),
        (("-o", "x", "one", "two"), "one is no ISO, and no folder with one ISO"),
    ],
)
def test_what_is_asked_wrongly(doit, argv, words):
    done = doit("update_pack", *argv)
    assert done.status == 1
    assert words in " ".join((done.out + done.err).split())


def written(world, old, new, output, floor=""):
    """Write a pack of what lists say."""
    base, target = (make.read(path, [world.key]) for path in (old, new))
    wish = make.Wish(floor)
    make.write(
        base, target, output, wish, keyrings=[world.key], signer=world.signer, epoch=1700000000
    )


def test_back_needs_a_floor(world, tmp_path):
    with pytest.raises(ConfigError, match=f"is version {OLD}, older than the floor, {NEW}"):
        written(world, world.new, world.old, tmp_path / "pack")
    assert not list(tmp_path.iterdir())
    written(world, world.new, world.old, tmp_path / "pack", OLD)
    assert b"floor=2.9.0" in (tmp_path / "pack").read_bytes()


@pytest.fixture
def copied(world, tmp_path):
    """Return copies of both releases."""
    found = []
    for file in (world.old, world.new):
        folder = tmp_path / file.parent.name
        folder.mkdir()
        for path in file.parent.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        found.append(folder / file.name)
    return found


@pytest.mark.parametrize(
    ("of", "suffix", "content", "error", "words"),
    [
        (0, "", b"damaged", ContentError, "is not what its list of blocks says"),
        (1, "", b"damaged", ContentError, "is not what its list of blocks says"),
        (0, ".blocks", b"#size=1\n", SigningError, "is not signed by the keys"),
        (1, ".blocks.sig", b"", SigningError, "is not signed by the keys"),
        (1, ".blocks.sig", None, ContentError, "there is no"),
        (0, ".blocks", None, ContentError, "there is no"),
    ],
)
def test_what_is_no_release(world, copied, tmp_path, of, suffix, content, error, words):
    file = copied[of].with_name(copied[of].name + suffix)
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error, match=words):
        written(world, *copied, tmp_path / "pack")
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_list_that_says_nothing(world, copied, tmp_path):
    blocks = copied[1].with_name(f"{copied[1].name}.blocks")
    blocks.write_text("#volume=Demo 1\n")
    world.sign(blocks)
    with pytest.raises(ContentError, match="is no list of an ISO's blocks"):
        written(world, *copied, tmp_path / "pack")


def test_checksum_of_another_build(world, copied, tmp_path):
    sums = copied[1].with_name("SHA256SUM")
    sums.write_text(sums.read_text().replace(sums.read_text()[:4], "0000"))
    world.sign(sums)
    with pytest.raises(ContentError, match="does not say of"):
        written(world, *copied, tmp_path / "pack")
