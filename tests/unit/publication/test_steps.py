import pytest

from buildchain.core import roots
from buildchain.core.layout import Layout
from buildchain.project import context
from buildchain.project.config import load
from buildchain.publication import steps
from buildchain.signatures import signing
from tests.unit.publication.world import make_release, tree

VERSION = "2.4.0"


@pytest.fixture
def doit(doit_with_a_key):
    return doit_with_a_key(PROJECT_NAME="Demo")


@pytest.fixture
def built(tmp_path, root, signer, doit):
    """Have a release built, and its public key exported."""
    layout = Layout(root, tmp_path / "build", tmp_path / "cache", "demo")
    signing.export_public_key(layout, "")
    roots.mark(layout.build)
    return make_release(layout.release, VERSION, signer)


def test_publish_promote_renew_and_fetch(doit, built, tmp_path):
    done = doit("publish", "--to", "place", "--dry-run")
    assert done.status == 0, done.err
    assert f"would send {VERSION}/SHA256SUM" in done.out
    assert not (tmp_path / "place").exists()
    for argv in (
        ("publish", "--to", "place"),
        ("publish", "--to", "place", "--promote", VERSION, "--channel", "stable", "--keep", "3"),
        ("publish", "--to", "place", "--renew"),
        ("fetch", "--from", "place", "-o", "got", "--max-age", "1", "stable"),
        ("fetch", "--from", "place", "-o", "other", "--key", "build/keys/metalk8s.gpg", VERSION),
    ):
        done = doit(*argv)
        assert done.status == 0, done.out + done.err
        if "--renew" in argv:
            assert "has serial 3 now" in done.out
    assert tree(tmp_path / "got") == tree(tmp_path / "other") == tree(built)


def asked(doit, tmp_path, *argv):
    """Return what is said of a command line that is refused."""
    done = doit(*argv)
    assert done.status == 1
    assert "What to do: " in done.out + done.err
    return done.out + done.err + (tmp_path / "build" / "build.log").read_text()


def test_what_is_asked_wrongly(doit, tmp_path):
    said = asked(doit, tmp_path, "fetch", "--from", "p", "-o", "g", "stable")
    assert "fetch was not told whose releases these are" in said
    said = asked(doit, tmp_path, "publish", "--to", "ftp://u:hunter2@h/")
    assert "no place that is known" in said
    assert "hunter2" not in said


PUBLISH = {"words": [], "to": "p", "channel": "", "promote": "", "keep": 0, "renew": False,
           "dry_run": False, "key": []}  # fmt: skip
FETCH = {"words": ["stable"], "origin": "p", "output": "g", "at_least": "",
         "update_from": "", "max_age": 0, "key": ["k.gpg"]}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"to": ""}, "publish was not told where to"),
        ({"words": ["more"]}, "publish takes no more"),
        ({"keep": -1}, "--keep -1 is less than 0"),
        ({"promote": "2.4.0"}, "not told into which channel"),
        ({"promote": "2.4.0", "renew": True}, "are two things"),
        ({"key": ["gone.gpg", "k.gpg"]}, "gone.gpg: there is no such file"),
        ({"promote": "2.4.0", "channel": "beta"}, "'2.4.0' is no version that there is"),
    ],
)
def test_what_publish_is_asked_wrongly(keyed, tmp_path, monkeypatch, root, change, said):
    check(steps._publish, keyed, tmp_path, monkeypatch, root, {**PUBLISH, **change}, said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": []}, "fetch gets one version or channel, 0 were named"),
        ({"origin": ""}, "fetch was not told where from"),
        ({"output": ""}, "fetch was not told where to"),
        ({"max_age": -3}, "--max-age -3 is less than 0"),
        ({}, "has no releases.json"),
    ],
)
def test_what_fetch_is_asked_wrongly(keyed, tmp_path, monkeypatch, root, change, said):
    check(steps._fetch, keyed, tmp_path, monkeypatch, root, {**FETCH, **change}, said)


def check(action, layout, folder, monkeypatch, root, options, said):
    monkeypatch.setenv("CALLED_FROM", str(folder))
    (folder / "k.gpg").touch()
    environment = {"CACHE_ROOT": str(layout.cache), "BUILD_ROOT": str(folder / "build")}
    failed = action(context.load(root, environment), **options)
    assert said in failed.message
    assert "What to do: " in failed.message


def test_the_seen_indexes_outlive_the_build_root(root, tmp_path):
    settings = load(root, {"CACHE_ROOT": str(tmp_path / "c"), "BUILD_ROOT": str(tmp_path / "b")})
    layout = Layout(root, settings.build_root, settings.cache_root, "demo")
    layout.publication.mkdir(parents=True)
    assert layout.publication.parent == tmp_path / "c"
    # who only fetches has nothing else in his cache
    assert roots.problems(root, layout.build, layout.cache) == []
