import hashlib

import pytest

from buildchain.core.errors import CommandError, ContentError
from buildchain.project.model import RedhatFile
from buildchain.repositories import closures

UNMET = """\
Some packages could not be installed.
The following packages have unmet dependencies:
 kubelet : Depends: iptables but it is not installable
           Depends: mount (>= 2) but it is not going to be installed
E: Unable to correct problems, you have held broken packages.
"""


def check(layout, tmp_path):
    return closures.check_debian(
        layout, tmp_path / "repository", tmp_path / "key.gpg", "bookworm",
        {"node": ["kubelet"], "master": ["kubelet", "kubectl"]},
    )  # fmt: skip


def test_debian(layout, archive, tmp_path):
    check(layout, tmp_path)
    update, *solved = archive.programs.calls("apt-get")
    assert update[-1] == "update"
    assert [argv[argv.index("install") + 1 :] for argv in solved] == [
        ["kubelet"],
        ["kubelet", "kubectl"],
    ]
    assert list(layout.temporary.iterdir()) == []


def test_what_is_missing_is_named_once(layout, archive, tmp_path):
    archive.set("unmet", UNMET)
    with pytest.raises(ContentError) as caught:
        check(layout, tmp_path)
    assert str(tmp_path / "repository") in caught.value.reason
    for words in (
        "kubelet Depends: iptables but it is not installable (for node, master)",
        "kubelet Depends: mount (>= 2) but it is not going to be installed",
    ):
        assert caught.value.reason.count(words) == 1
    assert "profile.toml" in caught.value.solution


def test_a_package_that_does_not_exist(layout, archive, tmp_path):
    archive.set("unmet", "E: Unable to locate package kubelet\n")
    with pytest.raises(ContentError, match="Unable to locate package kubelet"):
        check(layout, tmp_path)


def test_a_repository_that_apt_refuses(layout, archive, tmp_path):
    archive.set("update", "1")
    with pytest.raises(ContentError, match="APT refuses the repository"):
        check(layout, tmp_path)


def test_any_other_failure_stays_what_it_is(layout, archive, tmp_path):
    archive.set("unmet", "E: The cache is broken\n")
    with pytest.raises(CommandError, match="apt-get"):
        check(layout, tmp_path)


RPM = """
kind = argv[argv.index("--queryformat") + 1]
print({provides!r} if "PROVIDE" in kind else {requires!r})
"""


@pytest.mark.parametrize(
    ("requires", "problem"),
    [
        (
            "demo glibc\ndemo libc.so.6(GLIBC_2.2)(64bit)\ndemo demo-libs\n"
            "demo rpmlib(CompressedFileNames)\n",
            "",
        ),
        ("demo iptables\n", "demo needs iptables"),
        ("demo (a if b)\n", "demo needs (a if b)"),
    ],
)
def test_redhat(fake_program, tmp_path, requires, problem):
    provides = "demo demo\ndemo-libs demo-libs\n"
    fake_program("rpm", RPM.format(provides=provides, requires=requires))
    sets = {"node": ["demo"]}
    minimal = ["glibc", "libc.so.6"]
    if not problem:
        closures.check_redhat(tmp_path, minimal, sets)
        return
    with pytest.raises(ContentError) as caught:
        closures.check_redhat(tmp_path, minimal, sets)
    assert problem in caught.value.reason


def test_redhat_roles_name_packages_that_exist(fake_program, tmp_path):
    fake_program("rpm", RPM.format(provides="demo demo\n", requires=""))
    with pytest.raises(ContentError, match=r"no package gone \(for node, infra\)"):
        closures.check_redhat(tmp_path, [], {"node": ["gone"], "infra": ["demo", "gone"]})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"sos", ""),
        (None, r"no package sos \(sos-4-1\.noarch\.rpm\) \(for every set\)"),
        (b"other", r"sos-4-1\.noarch\.rpm is not the package that was locked"),
    ],
)
def test_a_locked_set_of_redhat(fake_program, tmp_path, content, problem):
    fake_program("rpm", RPM.format(provides="demo demo\nsos sos\n", requires=""))
    digest = hashlib.sha256(b"sos").hexdigest()
    file = RedhatFile(
        "sos", 0, "4", "1", "noarch", "sos-4-1.noarch.rpm", 3, digest, "BaseOS"
    )  # fmt: skip
    if content is not None:
        (tmp_path / file.file).write_bytes(content)
    sets = {"node": ["demo", "sos"]}
    if not problem:
        closures.check_redhat_closure(tmp_path, [file], sets)
        with pytest.raises(ContentError, match=r"no package gone \(for infra\)"):
            closures.check_redhat_closure(tmp_path, [file], {"infra": ["gone"]})
        return
    with pytest.raises(ContentError, match=problem):
        closures.check_redhat_closure(tmp_path, [file], sets)
