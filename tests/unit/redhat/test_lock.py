"""What a locked set of RPMs stands on; the lock itself is tested with the real dnf."""

import dataclasses

import pytest

from buildchain.project.model import RedhatRepository
from buildchain.redhat import lock
from buildchain.redhat.closure import System

RPM = """
kind = argv[argv.index("--queryformat") + 1]
print({provides!r} if "PROVIDE" in kind else {requires!r})
"""
PROVIDES = "demo demo\ndemo-libs demo-libs\n"
REQUIRES = "demo iptables >= 1.8\ndemo demo-libs = 1.0\ndemo systemd  \ndemo rpmlib(X) <= 4\n"


@pytest.fixture
def system(tmp_path):
    folder = tmp_path / "our repository"
    folder.mkdir()
    (folder / "demo.rpm").touch()
    return System("8", (), ("bash", "glibc"), RedhatRepository("ours", folder.as_uri(), tmp_path))


def foundation(fake_program, system, requires=REQUIRES):
    fake_program("rpm", RPM.format(provides=PROVIDES, requires=requires))
    return lock.foundation(system)


@pytest.mark.parametrize(
    ("change", "requires", "is_same"),
    [
        ({"minimal": ("glibc", "bash")}, REQUIRES, True),
        ({"minimal": ("bash",)}, REQUIRES, False),
        ({"release": "9"}, REQUIRES, False),
        ({}, REQUIRES.replace("1.8", "1.9"), False),
        ({}, REQUIRES.replace("demo-libs = 1.0", "demo-libs = 2.0"), True),
        ({}, REQUIRES + "demo socat\n", False),
    ],
)
def test_foundation(fake_program, system, change, requires, is_same):
    before = foundation(fake_program, system)
    after = foundation(fake_program, dataclasses.replace(system, **change), requires)
    assert (before == after) is is_same


def test_foundation_without_packages_of_ours(system, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    nothing = RedhatRepository("ours", empty.as_uri(), tmp_path)
    bare = lock.foundation(dataclasses.replace(system, ours=None))
    assert lock.foundation(dataclasses.replace(system, ours=nothing)) == bare
