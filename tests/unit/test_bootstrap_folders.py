"""Modes of what a run makes, on machines with other umasks than ours."""

import os
import stat
from pathlib import Path

import pytest
from metalk8s_bootstrap import folders, progress, system

from tests.unit import bootstrap
from tests.unit.test_bootstrap_run import call, fake, machine_programs  # noqa: F401 (fixtures)

MODES = {
    "etc/metalk8s/keys": 0o755,
    "etc/metalk8s/keys/at-least": 0o644,
    "run/metalk8s": 0o755,
    "run/metalk8s/bootstrap.lock": 0o600,
    "run/metalk8s/medium.sources": 0o644,
    "run/metalk8s/salt": 0o755,
    "run/metalk8s/salt/minion": 0o644,
    "run/metalk8s/salt-again": 0o755,
    "run/metalk8s/salt-again/minion": 0o644,
    "srv/scality": 0o755,
    "srv/scality/metalk8s-2.3.0": 0o755,
    "etc/systemd": 0o755,
    "etc/systemd/system": 0o755,
    "etc/systemd/system/srv-scality-metalk8s\\x2d2.3.0.mount": 0o644,
    "var/lib/metalk8s": 0o755,
    "var/lib/metalk8s/bootstrap.version": 0o644,
    "var/lib/metalk8s/verification": 0o755,
    "var/lib/metalk8s/verification/key1.asc": 0o644,
    "var/lib/metalk8s/verification/medium.sh": 0o644,
    "var/lib/metalk8s/verification/verify.sh": 0o644,
    "var/log": 0o755,
    "var/log/metalk8s": 0o755,
    "var/log/metalk8s/bootstrap.log": 0o600,
}


@pytest.fixture(params=[0o077, 0o000, 0o022, 0o027])
def umask(request):
    """Give the machine another umask; afterwards there is the former again."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root):
    return {
        path.relative_to(root).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in root.rglob("*")
        if not path.is_symlink()
    }


def test_a_run(call, fake, umask):  # noqa: F811
    """Every folder and file has the same mode on every machine; programs get a umask of ours."""
    (fake.root / "old.iso").write_bytes(bootstrap.image("Demo 2.3.0"))
    (fake.root / "old.iso").chmod(0o644)
    text = "  - /srv/scality/metalk8s-2.4.0-dev"
    fake.replace("etc/metalk8s/bootstrap.yaml", text, f"{text}\n  - /old.iso")
    # As a former version has left it on such a machine.
    (fake.root / "srv/scality").chmod(0o700)
    before = modes(fake.root)
    status, _, err = call()
    # The medium that systemd would show is not there.
    assert status == 31, err
    assert "2.3.0 although it is mounted" in err
    made = {name: mode for name, mode in modes(fake.root).items() if before.get(name) != mode}
    assert made == {name: MODES[name] for name in made}
    assert {"srv/scality", "srv/scality/metalk8s-2.3.0", "var/lib/metalk8s"} <= made.keys()


def test_a_whole_run(call, fake, machine_programs, umask):  # noqa: F811
    """What the steps after the first leave."""
    before = modes(fake.root)
    assert call()[0] == 0
    made = {name: mode for name, mode in modes(fake.root).items() if before.get(name) != mode}
    # With a digest of the configuration, which may hold a password.
    assert made.pop("var/lib/metalk8s/bootstrap.version") == 0o600
    assert made == {name: MODES[name] for name in made}
    assert {"run/metalk8s/salt/minion", "var/log/metalk8s/bootstrap.log"} <= made.keys()
    assert os.umask(folders.UMASK) == folders.UMASK


def test_parts(umask, tmp_path):
    """Each of them by itself, without the umask that the command sets."""
    with (
        system.locked(tmp_path / "a/b/lock", 0) as lock,
        progress.opened(tmp_path / "c/d/l") as log,
    ):
        on = system.System(tmp_path, progress.Progress(log, 3), lock)
        on.write("/e/f/g", "text", 0o640)
    folders.make(tmp_path / "h/i")
    wanted = {"a/b/lock": 0o600, "c/d/l": 0o600, "e/f/g": 0o640}
    wanted |= dict.fromkeys(("a", "a/b", "c", "c/d", "e", "e/f", "h", "h/i"), 0o755)
    assert modes(tmp_path) == wanted


def test_folders_of_others_stay_as_they_are(umask, tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private").chmod(0o700)
    folders.make(tmp_path / "private/ours")
    folders.make(tmp_path / "private")
    assert modes(tmp_path) == {"private": 0o700, "private/ours": 0o755}
    folders.open_up(tmp_path / "private")
    assert modes(tmp_path)["private"] == 0o755


def test_a_name_is_on_the_disk_before_anything_goes_on(tmp_path, monkeypatch):
    """What the kernel is asked for: the content first, then, renamed, the folder."""
    asked, real = [], os.fsync

    def fsync(descriptor):
        is_named = (tmp_path / "e/unit").exists()
        asked.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), is_named))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with system.locked(tmp_path / "lock", 0) as lock, progress.opened(tmp_path / "log") as log:
        system.System(tmp_path, progress.Progress(log, 3), lock).write("/e/unit", "text")
    assert asked == [(f"{tmp_path}/e/.unit.new", False), (f"{tmp_path}/e", True)]
