"""Bad ``.env`` files and bad roots: one clear error each, and no file of the checkout changed."""

import re
import shutil
import subprocess

import pytest

from buildchain.core import roots
from tests.conftest import ROOT
from tests.unit.sandbox import Checkout

ERROR = re.compile(r"^(?:\w+Error|doit\.sh: error): .+$", re.MULTILINE)
REMEDY = re.compile(r"^  What to do: .+$", re.MULTILINE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("safe"))


@pytest.fixture
def checkout(shared):
    yield shared
    path = shared.folder / ".env"
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def insist_on_one_error(checkout, before, done, words):
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    assert len(ERROR.findall(done.stdout)) == 1, done.stdout
    assert len(REMEDY.findall(done.stdout)) == 1, done.stdout
    assert words in done.stdout
    assert checkout.state() == before


# Variable, value, words of the error. No row runs more than its settings, whatever was said.
BAD_ROOTS = [
    ("BUILD_ROOT", ".", "the checkout {checkout} lies in it"),
    ("BUILD_ROOT", "{checkout}", "the checkout {checkout} lies in it"),
    ("BUILD_ROOT", "{checkout}/_build/..", "the checkout {checkout} lies in it"),
    ("BUILD_ROOT", "..", "the checkout {checkout} lies in it"),
    ("BUILD_ROOT", "{parent}", "the checkout {checkout} lies in it"),
    ("BUILD_ROOT", "packages", "packages belongs to the checkout"),
    ("BUILD_ROOT", "packages/new", "packages belongs to the checkout"),
    ("BUILD_ROOT", "salt/states/_build", "salt belongs to the checkout"),
    ("BUILD_ROOT", "buildchain/pins/default", "buildchain belongs to the checkout"),
    ("BUILD_ROOT", "tests/out", "tests belongs to the checkout"),
    ("BUILD_ROOT", ".git", ".git belongs to the checkout"),
    ("BUILD_ROOT", ".git/objects/new", ".git belongs to the checkout"),
    ("BUILD_ROOT", ".venv", ".venv belongs to the checkout"),
    ("BUILD_ROOT", "VERSION", "VERSION is a file"),
    ("BUILD_ROOT", "VERSION/below", "VERSION is a file"),
    ("BUILD_ROOT", "{parent}/file", "file is a file"),
    ("BUILD_ROOT", "/dev/null", "/dev/null is a file"),
    ("BUILD_ROOT", "/", "it is the root of the file system"),
    ("BUILD_ROOT", "//", "it is the root of the file system"),
    ("BUILD_ROOT", "~", "it is your home folder"),
    ("BUILD_ROOT", "{parent}/to-home", "it is your home folder"),
    ("BUILD_ROOT", "{parent}/outside", "it has files of others: thesis.txt"),
    ("BUILD_ROOT", "{parent}/to-outside", "it has files of others: thesis.txt"),
    ("BUILD_ROOT", "{parent}/to-packages", "packages belongs to the checkout"),
    ("BUILD_ROOT", "{parent}/to-packages/x", "packages belongs to the checkout"),
    ("BUILD_ROOT", "{parent}/nowhere", "it is a symbolic link that leads nowhere"),
    ("BUILD_ROOT", "{parent}/circle", "it is a symbolic link that leads nowhere"),
    ("BUILD_ROOT", "/usr", "it has files of others"),
    ("BUILD_ROOT", "{parent}/c", "expected another folder than CACHE_ROOT"),
    ("BUILD_ROOT", "{parent}/c/build", "expected a folder outside of CACHE_ROOT"),
    ("BUILD_ROOT", "a:b", "a path without colons"),
    ("BUILD_ROOT", "_build\r", r"BUILD_ROOT=_build\x0d: expected a path without"),
    ("BUILD_ROOT", " ", "expected a value"),
    ("BUILD_ROOT", "~no-such-user/x", "a path whose user exists"),
    ("CACHE_ROOT", ".", "the checkout {checkout} lies in it"),
    ("CACHE_ROOT", "images", "images belongs to the checkout"),
    ("CACHE_ROOT", "/", "it is the root of the file system"),
    ("CACHE_ROOT", "~", "it is your home folder"),
    ("CACHE_ROOT", "{parent}/outside", "it has files of others: thesis.txt"),
    ("CACHE_ROOT", "{parent}/file/x", "file is a file"),
    ("CACHE_ROOT", "{parent}/b/cache", "expected a folder outside of BUILD_ROOT"),
    ("SOURCE_DATE_EPOCH", "0", "from 315532800 (1980) to 4294967295 (2106)"),
    ("SOURCE_DATE_EPOCH", "99999999999", "from 315532800 (1980) to 4294967295 (2106)"),
]


@pytest.mark.parametrize(("variable", "value", "words"), BAD_ROOTS)
def test_a_bad_root(checkout, variable, value, words):
    value = checkout.value(value)
    before = checkout.state()
    # On a tree that takes these values the second would remove what it finds.
    arguments = ["list"] if value.startswith(("/", "~")) else ["clean", "--clean-all"]
    done = checkout.doit(*arguments, **{variable: value})
    insist_on_one_error(checkout, before, done, checkout.value(words))


BAD_FILES = {
    "a misspelt option": ("export BUILD_ROT=x\n", "BUILD_ROT is not an option (did you mean"),
    "no option": ("FOO=1\n", "FOO is not an option"),
    "a bad root": ("export BUILD_ROOT=.\n", "BUILD_ROOT"),
    "two bad lines": ("FOO=1\nBAR=2\n", ".env line 2: BAR is not an option"),
    "an open quote": ("export PROJECT_NAME='x\n", ".env is no shell file"),
    "an open bracket": ("if true; then\n", ".env is no shell file"),
    "a variable that is not set": ("PROJECT_NAME=$NO_SUCH_THING\n", "NO_SUCH_THING"),
    "an end": ("exit 0\n", ".env is no shell file"),
    "a failing end": ("exit 3\n", ".env is no shell file"),
    "spaces around the sign": ("PROJECT_NAME = x\n", ".env is no shell file"),
    "ends of lines of Windows": ("export LOCK_POLICY=strict\r\n", r"LOCK_POLICY=strict\x0d"),
    "a bad value": ("export PROFILE=none\n", "PROFILE=none: expected one of"),
    "a bad date": ("export SOURCE_DATE_EPOCH=yesterday\n", "SOURCE_DATE_EPOCH=yesterday"),
    "no text": ("\x00\x01\x02(", ".env is no shell file"),
    "its own path": ("PATH=/nonexistent\n", "PATH is not an option"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_env_file(checkout, case):
    text, words = BAD_FILES[case]
    (checkout.folder / ".env").write_bytes(text.encode())
    before = checkout.state()
    environment = {"BUILD_ROOT": None} if case == "a bad root" else {}
    done = checkout.doit("clean", "--clean-all", **environment)
    insist_on_one_error(checkout, before, done, words)


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_an_env_file_that_is_none(checkout, kind):
    path = checkout.folder / ".env"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("gone")
    before = checkout.state()
    insist_on_one_error(checkout, before, checkout.doit("list"), ".env is no file")


def test_the_environment_wins_over_the_env_file(checkout):
    """Which is loaded before the environment is made: pip's settings may be there."""
    path = checkout.folder / ".env"
    path.write_text("export PROFILE=none\nexport SOURCE_DATE_EPOCH='x y'\nexport PIP_A=\"q'q\"\n")
    done = checkout.doit("list", PROFILE="default", SOURCE_DATE_EPOCH="1700000000")
    assert done.returncode == 0, done.stdout
    done = checkout.doit("list")
    assert "PROFILE=none: expected" in done.stdout
    assert "SOURCE_DATE_EPOCH=x y: expected" in done.stdout
    # A value with everything that a shell takes for its own survives.
    odd = "a'b\"c $HOME `id` \\ *"
    done = checkout.doit("list", PROFILE=odd, SOURCE_DATE_EPOCH="1700000000")
    assert f"PROFILE={odd}: expected one of" in done.stdout


def test_what_the_env_file_says_reaches_pip(checkout):
    """A first run makes the environment, from where .env says."""
    (checkout.folder / ".env").write_text("export PIP_INDEX_URL=http://127.0.0.1:1/simple\n")
    venv, kept = checkout.folder / ".venv", checkout.folder / "kept"
    venv.rename(kept)
    python = checkout.parent / "python"
    python.write_text(
        '#!/bin/sh\ncase $* in *"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python";;\n'
        '*"-m pip"*) echo "$PIP_INDEX_URL"; exit 1;; esac\n'
    )
    python.chmod(0o755)
    try:
        done = checkout.doit("list", PYTHON=str(python))
    finally:
        shutil.rmtree(venv, ignore_errors=True)
        kept.rename(venv)
        python.unlink()
    assert "http://127.0.0.1:1/simple" in done.stdout
    assert "cannot be installed" in done.stdout


@pytest.fixture
def places(tmp_path):
    checkout = tmp_path / "checkout"
    (checkout / "packages").mkdir(parents=True)
    return checkout, tmp_path / "b", tmp_path / "c"


@pytest.mark.parametrize(
    "names",
    [
        (), ("lost+found",), (".lock", "build.log"), (".metalk8s", "iso"),
        (".doit.json", "receipts/a.json", "images/x"), (".doit.json", "build.log", "reports/x"),
    ],
)  # fmt: skip
def test_build_roots_of_this_and_earlier_versions(places, names):
    checkout, build, cache = places
    for name in names:
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).touch()
    assert roots.problems(checkout, build, cache) == []


@pytest.mark.parametrize("name", ["store/x", "keys/development.key", "go-build/x", "resolutions/x"])
def test_caches_of_this_and_earlier_versions(places, name):
    checkout, build, cache = places
    (cache / name).parent.mkdir(parents=True)
    (cache / name).touch()
    assert roots.problems(checkout, build, cache) == []


@pytest.mark.parametrize("names", [("receipts/2026.pdf",), ("build.log", "x"), (".doit.json", "x")])
def test_folders_that_only_look_like_build_roots(places, names):
    checkout, build, cache = places
    for name in names:
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).touch()
    [problem] = roots.problems(checkout, build, cache)
    assert "files of others" in problem


def test_new_folders_in_the_checkout_and_links_to_good_ones(places, tmp_path):
    checkout, build, cache = places
    build.mkdir()
    (tmp_path / "link").symlink_to(build)
    assert roots.problems(checkout, tmp_path / "link", cache) == []
    assert roots.problems(checkout, checkout / "out" / "b", checkout / "out" / "c") == []
    assert roots.problems(checkout, checkout / "_build", cache) == []


def test_a_link_does_not_hide_that_one_root_is_in_the_other(places, tmp_path):
    checkout, build, _ = places
    build.mkdir()
    (tmp_path / "link").symlink_to(build)
    [problem] = roots.problems(checkout, build, tmp_path / "link" / "cache")
    assert "expected a folder outside of BUILD_ROOT" in problem


def test_both_roots_are_told_of_at_once(places):
    checkout, _, _ = places
    assert len(roots.problems(checkout, checkout, checkout / "packages")) == 2


def test_a_folder_that_cannot_be_read(places, monkeypatch):
    checkout, build, cache = places
    build.mkdir()

    def refuse(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(build), "iterdir", refuse)
    [problem] = roots.problems(checkout, build, cache)
    assert "cannot be read (Permission denied)" in problem


def test_a_build_root_is_marked_once(tmp_path):
    roots.mark(tmp_path)
    assert (tmp_path / roots.MARK).read_text() == roots.SENTENCE
    (tmp_path / roots.MARK).write_text("mine")
    roots.mark(tmp_path)
    assert (tmp_path / roots.MARK).read_text() == "mine"


def test_all_that_is_tracked_is_guarded(require):
    listed = subprocess.run(
        [require("git"), "-C", ROOT, "ls-files", "-z"], check=False, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("no git checkout")
    names = {name.partition("/")[0] for name in listed.stdout.split("\0") if "/" in name}
    assert {*names, ".git", ".venv"} == set(roots.CHECKOUT)
