"""Archives that others could exchange."""

import os

import pytest
from metalk8s_bootstrap import command, ownership

from tests.unit import bootstrap

ISO = "data/isos/a.iso"


@pytest.fixture
def fake(tmp_path):
    made = bootstrap.make(tmp_path / "machine")
    made.write(ISO, "", 0o644).write_bytes(bootstrap.image("Demo 2.4.0-dev"))
    for folder in ("data", "data/isos", "."):
        (made.root / folder).chmod(0o755)
    made.replace("etc/metalk8s/bootstrap.yaml", f"/{bootstrap.PLACE}", f"/{ISO}")
    return made


def found(fake):
    """Return what is wrong, without the mount point that something else is at."""
    _, problems = command.find(fake.machine, fake.medium)
    return [str(problem) for problem in problems if "belongs at" not in problem.what]


def test_an_archive_of_root(fake):
    assert found(fake) == []


@pytest.mark.parametrize(
    ("path", "mode", "words"),
    [
        (ISO, 0o666, "/data/isos/a.iso can be written by others (mode 0666)"),
        (ISO, 0o664, "/data/isos/a.iso can be written by others (mode 0664)"),
        ("data/isos", 0o775, "is in /data/isos, which can be written by others (mode 0775)"),
        ("data", 0o757, "is in /data, which can be written by others (mode 0757)"),
        (".", 0o777, "is in /, which can be written by others (mode 0777)"),
    ],
)
def test_who_may_write(fake, path, mode, words):
    (fake.root / path).chmod(mode)
    (problem,) = found(fake)
    assert "bootstrap.yaml:11: archives[0]: /data/isos/a.iso" in problem
    assert words in problem
    assert "Run: chmod go-w /" in problem


def test_a_sticky_folder(fake):
    """There, nobody can exchange what is root's; a file with the bit is no folder."""
    (fake.root / "data").chmod(0o1777)
    assert found(fake) == []
    (fake.root / ISO).chmod(0o1666)
    assert len(found(fake)) == 1


def test_whose_it_is(fake):
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(fake.root / "data/isos", 65534, 65534)
    os.chown(fake.root / ISO, 65533, 0)
    folder, file = found(fake)
    assert "is in /data/isos, which belongs to user 65534, who can exchange it" in folder
    assert "Run: chown root: /data/isos" in folder
    assert "/data/isos/a.iso belongs to user 65533" in file


def test_links_are_followed(fake):
    """Each folder on the way counts, those of links of links, too."""
    fake.write("open/x", "").unlink()
    (fake.root / "data/link.iso").symlink_to("../open/../open/second.iso")
    (fake.root / "open/second.iso").symlink_to("/data/isos/./a.iso")
    (fake.root / "open").chmod(0o755)
    places = ownership.places(fake.root, "/data/link.iso")
    shown = [path.relative_to(fake.root).as_posix() for path in places]
    assert shown == [".", "data", "open", "open", "data", "data/isos", ISO]
    (fake.root / "open").chmod(0o777)
    (exposure,) = ownership.exposures(fake.root, "/data/link.iso")
    assert exposure[:2] == ("/open", "can be written by others (mode 0777)")


def test_links_that_lead_nowhere(fake):
    """Others say so."""
    (fake.root / "data/loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        list(ownership.places(fake.root, "/data/loop"))
    for path in ("/data/loop", "/data/missing/../../../x"):
        assert list(ownership.exposures(fake.root, path)) == []
