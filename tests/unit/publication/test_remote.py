"""Real rsync: to its daemon, which it starts itself, and through an ``ssh`` that stays here."""

import os
import shutil

import pytest

from buildchain.core.errors import ConfigError, ContentError, PlaceError
from buildchain.publication import address
from tests.unit.publication.world import tree

ISO = "demo-2.4.0.iso"
# What ssh does, without a network: run the command in a shell on the other side.
SSH = """
words = argv[:]
while words[0] == "-o":
    del words[:2]
if words[0] == "-l":
    del words[:2]
if words[0] != "server":
    sys.exit("ssh: Could not resolve hostname %s" % words[0])
os.execvp("sh", ["sh", "-c", " ".join(words[1:])])
"""


@pytest.fixture
def ssh(world, fake_program, require, monkeypatch):
    require("rsync")
    fake_program("ssh", SSH)
    world.to = world.source = f"me@server:{world.place}"


@pytest.fixture
def daemon(world, require, monkeypatch, tmp_path):
    world.place.mkdir()
    user = "uid = 0\ngid = 0" if os.geteuid() == 0 else ""
    (tmp_path / "secrets").write_text("me:hunter2\n")
    (tmp_path / "secrets").chmod(0o600)
    (tmp_path / "rsyncd.conf").write_text(
        f"use chroot = no\n{user}\n[shelf]\npath = {world.folder}\nread only = no\n"
        f"[closed]\npath = {world.folder}\n[guarded]\npath = {world.folder}\nread only = no\n"
        f"auth users = me\nsecrets file = {tmp_path / 'secrets'}\n"
    )
    program = f"{require('rsync')} --daemon --config={tmp_path / 'rsyncd.conf'}"
    monkeypatch.setenv("RSYNC_CONNECT_PROG", program)
    world.to = world.source = "rsync://server/shelf/place"


@pytest.fixture(params=["ssh", "daemon"])
def remote(request, world):
    request.getfixturevalue(request.param)
    return world


def test_publish_promote_retain_and_fetch(remote):
    remote.release("2.4.0")
    remote.publish()
    assert tree(remote.place / "2.4.0") == tree(remote.build)
    remote.publish()
    assert remote.index().serial == 1, "nothing changed"
    remote.publisher().promote("2.4.0", "stable")
    assert remote.fetch("stable") == "2.4.0"
    assert tree(remote.got) == tree(remote.place / "2.4.0")
    remote.released("2.4.1")
    remote.release("2.4.2")
    remote.publish("stable", keep=1)
    assert tree(remote.place / "2.4.0") == {}
    assert remote.index().withdrawn == ("2.4.0",)
    assert len(list((remote.place / "signatures").iterdir())) == 2


def test_what_is_damaged_or_half_there_is_sent_and_nothing_else(remote):
    remote.released("2.4.0")
    folder = remote.place / "2.4.0"
    kept = (folder / "release.json").stat().st_ino
    changelog = folder / "demo-2.4.0-changelog.md"
    times = changelog.stat()
    changelog.write_bytes(changelog.read_bytes().replace(b"2", b"3"))
    os.utime(changelog, ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / ".rsync-partial").mkdir()
    content = (folder / ISO).read_bytes()
    (folder / ISO).unlink()
    (folder / ".rsync-partial" / ISO).write_bytes(content[:9999])
    (folder / "strange").write_text("x")
    remote.publish()
    assert tree(remote.build).items() <= tree(folder).items()
    assert (folder / "release.json").stat().st_ino == kept
    assert not (folder / ".rsync-partial" / ISO).exists()


def test_modes_do_not_depend_on_who_publishes(remote):
    remote.release("2.4.0")
    (remote.build / ISO).chmod(0o600)
    remote.publish()
    assert (remote.place / "2.4.0" / ISO).stat().st_mode & 0o777 == 0o644


def test_another_release_of_the_same_version_is_refused(remote):
    remote.released("2.4.0")
    before = tree(remote.place)
    remote.release("2.4.0", **{ISO: b"other"})
    with pytest.raises(ContentError, match=r"has another 2\.4\.0"):
        remote.publish()
    assert tree(remote.place) == before


def test_what_arrives_damaged_is_found(ssh, world, fake_program, require):
    """The server's disk changes what was written, each time."""
    real, fake = require("rsync"), fake_program.folder / "rsync"
    fake.write_text(
        f'#!/bin/sh\n"{real}" "$@" || exit\ncase " $* " in *" --server "* | *--dry-run*) ;;\n'
        f"*.iso\\ *) printf x >>{world.place}/2.4.0/{ISO} ;;\nesac\n"
    )
    fake.chmod(0o755)
    world.release("2.4.0")
    with pytest.raises(Exception, match=f"has not what was sent: {ISO}"):
        world.publish()
    assert not (world.place / "releases.json").exists()
    fake.unlink()
    world.publish()
    assert world.fetch() == "2.4.0"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("rsync://server/none/place", "Unknown module 'none'"),
        ("rsync://server/closed/place", "read only"),
        ("rsync://me@server/guarded/place", "auth failed"),
    ],
)
def test_a_daemon_that_does_not_let_us(daemon, world, place, said):
    world.release("2.4.0")
    world.to = place
    with pytest.raises(PlaceError) as caught:
        world.publish()
    assert said in caught.value.details
    assert "Password:" not in caught.value.details, "nobody is asked"
    assert not world.place.exists() or tree(world.place) == {}


def test_passwords_come_from_the_environment_and_are_never_told(
    daemon, world, monkeypatch, recorded
):
    world.release("2.4.0")
    world.to = "rsync://me@server/guarded/place"
    monkeypatch.setenv("RSYNC_PASSWORD", "hunter3")
    with pytest.raises(PlaceError, match="rsync did not succeed") as caught:
        world.publish()
    assert "auth failed" in caught.value.details
    monkeypatch.setenv("RSYNC_PASSWORD", "hunter2")
    world.publish()
    assert tree(world.place / "2.4.0") == tree(world.build)
    assert "hunter" not in caught.value.friendly() + "".join(recorded.lines)


def test_what_is_not_there_is_not_held(remote):
    remote.released("2.4.0")
    target = remote.publisher().target
    file = remote.build / ISO
    assert target.holds(f"2.4.0/{ISO}", file, "")
    assert not target.holds("2.4.0/gone", file, "")
    assert not target.holds("9.9.9/gone", file, "")


def test_a_host_that_is_not_there(ssh, world):
    world.release("2.4.0")
    world.to = "nowhere:/x"
    with pytest.raises(PlaceError) as caught:
        world.publish()
    assert "Could not resolve hostname nowhere" in caught.value.details


def test_rsync_that_is_not_there(world, monkeypatch, fake_program):
    world.release("2.4.0")
    world.to = "server:/x"
    for name in ("gpg", "gpgv", "gpg-agent"):
        (fake_program.folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(fake_program.folder))
    with pytest.raises(Exception, match="the program rsync is not there") as caught:
        world.publish()
    assert "rsync" in caught.value.solution


@pytest.mark.parametrize(
    "text",
    [
        "rsync://me:hunter2@server/module",
        "rsync://server",
        "rsync://-oProxyCommand=x/module",
        "-oProxyCommand=hunter2:/x",
        "me:hunter2@server:/x\n",
        "server::module/x",
    ],
)
def test_what_is_no_server(text, tmp_path):
    with pytest.raises(ConfigError) as caught:
        address.target(text, tmp_path)
    assert "hunter2" not in caught.value.friendly()


def test_a_folder_with_a_colon(tmp_path):
    assert address.target("./a:b", tmp_path).name == str(tmp_path / "a:b")
