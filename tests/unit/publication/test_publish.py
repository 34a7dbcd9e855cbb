import os
import shutil
import subprocess

import pytest

from buildchain.core.errors import ChecksumError, ConfigError, PlaceError, SpaceError
from buildchain.publication import address
from buildchain.publication.folder import Folder
from tests.unit.publication.world import tree


def test_what_is_published_is_there_and_is_fetched_whole(world):
    world.released("2.4.0", "2.4.1")
    assert world.channels() == {"candidate": ["2.4.0", "2.4.1"], "stable": []}
    assert world.index().serial == 2
    assert tree(world.place / "2.4.1") == tree(world.build)
    assert world.fetch() == "2.4.1"
    assert tree(world.got) == tree(world.build)
    assert sorted(path.name for path in world.place.iterdir()) == [
        "2.4.0", "2.4.1", "releases.json", "signatures",
    ]  # fmt: skip
    assert len(list((world.place / "signatures").iterdir())) == 2, "of this index and the last"


def test_publishing_again_sends_nothing_and_changes_nothing(world, recorded):
    world.released("2.4.0")
    before = tree(world.place)
    inodes = {path: path.stat().st_ino for path in world.place.rglob("*")}
    world.publish()
    assert tree(world.place) == before
    assert {path: path.stat().st_ino for path in world.place.rglob("*")} == inodes
    assert recorded.notes[-1].endswith("has it all already")


def test_only_what_is_missing_or_damaged_is_sent(world):
    world.released("2.4.0")
    folder = world.place / "2.4.0"
    kept = (folder / "release.json").stat().st_ino
    (folder / "demo-2.4.0.iso").unlink()
    changelog = folder / "demo-2.4.0-changelog.md"
    changelog.write_bytes(changelog.read_bytes().replace(b"2", b"3"))
    (world.place / "releases.json").write_bytes((world.place / "releases.json").read_bytes())
    world.publish()
    assert tree(folder) == tree(world.build)
    assert (folder / "release.json").stat().st_ino == kept


def test_what_an_interrupted_upload_of_other_bytes_left_goes(world):
    strange = world.place / "2.4.0" / "demo-2.4.0-old.json"
    strange.parent.mkdir(parents=True)
    strange.write_text("old")
    (strange.parent / "demo-2.4.0.iso").write_text("half")
    world.released("2.4.0")
    assert tree(strange.parent) == tree(world.build)


def test_a_candidate_becomes_the_release_without_an_upload(world):
    world.released("2.4.0")
    before = tree(world.place / "2.4.0")
    shutil.rmtree(world.build)
    world.publisher().promote("2.4.0", "stable")
    assert world.channels() == {"candidate": ["2.4.0"], "stable": ["2.4.0"]}
    assert tree(world.place / "2.4.0") == before
    assert world.fetch("stable") == "2.4.0"


def test_retention(world):
    world.released("2.1.0", "2.2.0", channel="stable")
    world.released("2.3.0", "2.4.0")
    world.release("2.5.0", bases=("2.1.0",))
    world.publish(keep=1)
    assert world.channels() == {"candidate": ["2.5.0"], "stable": ["2.1.0", "2.2.0"]}
    assert world.index().withdrawn == ("2.3.0", "2.4.0")
    found = {path.name for path in world.place.iterdir()}
    assert found == {"2.1.0", "2.2.0", "2.5.0", "releases.json", "signatures"}


def test_what_retention_had_no_time_to_remove_goes_later(world):
    world.released("2.3.0", "2.4.0")
    saved = tree(world.place / "2.3.0")
    world.release("2.5.0")
    world.publish(keep=1)
    for name, content in saved.items():
        (world.place / "2.3.0").mkdir(exist_ok=True)
        (world.place / "2.3.0" / name).write_bytes(content)
    world.publish()
    assert not (world.place / "2.3.0").exists()
    (world.place / "2.3.0").mkdir()
    world.publish()
    assert not (world.place / "2.3.0").exists()


def test_a_withdrawn_version_may_come_back(world):
    world.released("2.3.0", "2.4.0")
    world.publish(keep=1)
    world.released("2.3.0")
    assert world.index().withdrawn == ()
    assert world.fetch("2.3.0") == "2.3.0"


def test_a_dry_run_tells_and_changes_nothing(world, recorded):
    world.release("2.4.0")
    world.publish(is_dry=True)
    assert not world.place.exists()
    assert "would send 2.4.0/demo-2.4.0.iso: 32000 bytes" in recorded.echoed
    world.publish()
    world.release("2.4.1")
    before = tree(world.folder / "publisher"), tree(world.place)
    recorded.echoed.clear()
    world.publish(is_dry=True, keep=1)
    assert (tree(world.folder / "publisher"), tree(world.place)) == before
    assert recorded.echoed[-2:] == [
        "would: 2.4.1 comes into channel candidate", "would: 2.4.0 goes: 0 MiB",
    ]  # fmt: skip


def test_an_index_that_is_renewed_has_another_serial(world):
    world.released("2.4.0")
    world.publisher().renew()
    assert world.index().serial == 2
    assert world.fetch() == "2.4.0"


def test_plain_tools_can_check_a_place(world, root):
    """What the manual tells to type where nothing of ours is."""
    page = (root / "docs/how-to/publish-a-release.md").read_text(encoding="utf-8")
    [block] = [b for b in page.split("```")[1::2] if "sha256sum -c" in b]
    world.released("2.4.0")
    (world.folder / "place").rename(world.folder / "releases")
    (world.folder / "metalk8s.gpg").write_bytes(world.key.read_bytes())
    environment = {**os.environ, "HOME": str(world.folder), "version": "2.4.0"}

    def status():
        script = block.removeprefix("sh\n")
        argv = ["sh", "-ec", script]
        return subprocess.run(argv, env=environment, capture_output=True, check=False).returncode

    assert status() == 0
    index = world.folder / "releases" / "releases.json"
    index.write_bytes(index.read_bytes() + b" ")
    assert status() != 0


@pytest.mark.parametrize("channel", ["", "beta", "Stable"])
def test_a_channel_that_there_is_not(world, channel):
    world.released("2.4.0")
    with pytest.raises(ConfigError, match="there is no such channel"):
        world.publish(channel)
    with pytest.raises(ConfigError, match="there is no such channel"):
        world.publisher().promote("2.4.0", channel)


def test_a_version_that_is_not_there_is_not_promoted(world):
    world.released("2.4.0")
    with pytest.raises(ConfigError, match=r"'2\.4\.7' is no version that there is"):
        world.publisher().promote("2.4.7", "stable")


class Lossy(Folder):
    """A disk that does not give back what it was given."""

    def send(self, file, name):
        super().send(file, name)
        if name.endswith(self.broken):
            (self.path / name).write_bytes(b"lost")


@pytest.mark.parametrize(
    ("broken", "said"),
    [(".iso", "has not what was sent: demo-2.4.1.iso"), ("releases.json", "another releases.json")],
)
def test_what_does_not_arrive_is_found(world, broken, said):
    world.released("2.4.0")
    before = (world.place / "releases.json").read_bytes()
    publisher = world.publisher()
    lossy = Lossy(world.place)
    lossy.broken = broken
    world.release("2.4.1")
    with pytest.raises(ChecksumError, match=said):
        type(publisher)(lossy, publisher.trust, publisher.signer, "demo").publish(
            world.build, read(world), "candidate"
        )
    if broken == ".iso":
        assert (world.place / "releases.json").read_bytes() == before
        world.publish()
        assert world.fetch() == "2.4.1"


def read(world):
    from buildchain.publication import release

    return release.read(world.build, (world.key,))


class Busy(Folder):
    """A place where somebody else publishes meanwhile."""

    def send(self, file, name):
        super().send(file, name)
        if name.startswith("signatures"):
            (self.path / "releases.json").write_bytes(b"by somebody else")


def test_somebody_else_publishes_meanwhile(world):
    world.released("2.4.0")
    publisher = world.publisher()
    with pytest.raises(PlaceError, match="somebody else has changed"):
        type(publisher)(Busy(world.place), publisher.trust, publisher.signer, "demo").promote(
            "2.4.0", "stable"
        )
    assert (world.place / "releases.json").read_bytes() == b"by somebody else"


def test_a_place_that_is_too_small(world, tmp_path):
    with pytest.raises(SpaceError, match="MiB are to come"):
        Folder(tmp_path / "small").prepare(1 << 60)


@pytest.mark.parametrize("text", ["", "ftp://host/x", "gopher://u:secret@h/", "a\0b"])
def test_what_is_no_place(text, tmp_path):
    for find in (address.source, address.target):
        with pytest.raises(ConfigError) as caught:
            find(text, tmp_path)
        assert "secret" not in caught.value.friendly()
