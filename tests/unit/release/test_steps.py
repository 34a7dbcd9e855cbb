"""What the release looks at before and after the build, without one."""

import types

import pytest
from doit.cmdparse import CmdOption, CmdParse, CmdParseError
from hypothesis import example, given
from hypothesis import strategies as st

from buildchain.core.errors import ContentError, LockError
from buildchain.release import steps
from buildchain.release.steps import Options
from tests.unit.release.test_gate import GOOD

WORDS = ("--dry-run", "--dry", "--d", "--previous", "--previous=a.iso", "--prev", "--once", "a.iso",
         "-n", "--", "iso", "--dry-run=1", "--previous=", "--update-from=b.iso", "--update-from",
         "--update", "--key=k.gpg", "--k")  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=4))
@example(["--previous", "--dry-run"])
@example(["--dry"])
def test_options_are_read_as_doit_reads_them(words):
    """Else a dry run could build, or a build be compared with nothing."""
    parser = CmdParse([CmdOption(dict(parameter)) for parameter in steps.PARAMETERS])
    found = steps.options_of(["-n", "4", "release", *words])
    try:
        values, _ = parser.parse(list(words))
    except CmdParseError:
        assert found.is_dry, "nothing is built when doit refuses the words, or should it not"
        return
    lists = (tuple(values[name]) for name in ("update_from", "key"))
    assert found == Options(bool(values["dry_run"]), values["previous"], *lists)


def test_without_a_release_there_are_no_options():
    assert steps.options_of(["diff", "--dry-run"]) == Options()


@pytest.fixture
def built(layout):
    """Return a context whose build is of the release."""
    (layout.build / "lock").mkdir()
    (layout.build / "lock/replaced.txt").touch()
    layout.product.write_text("NAME=Demo\nVERSION=2.4.0\nBUILD_VERSION=2.4.0\n")
    return types.SimpleNamespace(layout=layout)


def test_a_build_of_the_release(built):
    steps._prove_built(built, GOOD)


@pytest.mark.parametrize("line", ["BUILD_VERSION=2.4.0-dev.9+gabc", "BUILD_VERSION=2.4.1", "X=1"])
def test_a_build_of_another_commit(built, line):
    built.layout.product.write_text(f"VERSION=2.4.0\n{line}\n")
    with pytest.raises(ContentError, match=r"expected 2\.4\.0: the checkout changed"):
        steps._prove_built(built, GOOD)


def test_a_build_of_packages_that_are_not_locked(built):
    (built.layout.build / "lock/replaced.txt").write_text("node: bash 5.2-1 -> 5.2-2\n")
    with pytest.raises(LockError, match="not locked") as caught:
        steps._prove_built(built, GOOD)
    assert "bash 5.2-1 -> 5.2-2" in caught.value.details


def test_a_key_that_cannot_sign(layout, tmp_path, monkeypatch, require):
    require("gpg")
    (tmp_path / "gnupg").mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(tmp_path / "gnupg"))

    def problem(key):
        config = types.SimpleNamespace(signing_key=key)
        return steps._key_problem(types.SimpleNamespace(layout=layout, config=config))

    assert problem("AB" * 20) == f"no secret key {'AB' * 20} in {tmp_path / 'gnupg'}"
    assert problem("") == "", "that there is none is another reason"


def test_a_release_before_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    (tmp_path / "x.iso").write_text("no ISO")
    for name, words in (("none.iso", "No such file"), ("x.iso", "no ISO image")):
        previous = steps._previous(name)
        assert previous.path == name
        assert words in previous.problem
    (tmp_path / "tree").mkdir()
    assert "has no MANIFEST" in steps._previous("tree").problem
