"""`./doit.sh release` on the product's own graph, with every outside program faked."""

import gc
import json
import shutil
import subprocess
import warnings

import pytest

from buildchain.project import config
from tests.unit import engine_api
from tests.unit.test_increments import Elsewhere

LOCK = "buildchain/pins/default/debian.lock"
TABLE = "buildchain/pins/vulnerabilities.toml"
# Builds as the first build did, or not quite.
SECOND = """#!/bin/sh
mkdir _build && cp -r {build}/root {build}/metalk8s.iso _build
{command}
"""


class Releasing(Elsewhere):
    """A machine whose checkout is tagged and clean, with a release key, and a clone of it."""

    key = ""

    def copy(self, root):
        super().copy(root)
        for path in root.glob("requirements*"):
            shutil.copy2(path, self.checkout)

    def prepare(self, home):
        """Lock what the fake archive has, as a maintainer would; what was built says what it is."""
        self.gnupg, self.key = home, fingerprint_of(home)
        self.lock = self._lock_of_the_archive()

    def _lock_of_the_archive(self):
        built = json.loads((self.build / "lock/debian.lock").read_text())
        ours, base = json.loads((self.checkout / LOCK).read_text()), built["builder"]["on"]
        beds = {name: {**ours[name], "on": base} for name in ("testbed", "testbed-pods")}
        return json.dumps({**built, **beds})

    def restore(self):
        super().restore()
        if self.key:
            self.tag()

    def tag(self):
        """Be what a release needs."""
        (self.checkout / LOCK).write_text(self.lock)
        header, *records = (self.checkout / TABLE).read_text().split("\n[[vulnerability]]\n")
        ours = [record for record in records if 'component = "kubernetes"' in record]
        (self.checkout / TABLE).write_text("\n[[vulnerability]]\n".join([header, *ours]))
        self.edit("VERSION", "VERSION_SUFFIX=dev", "VERSION_SUFFIX=")
        self.edit("CHANGELOG.md", "(in development)", "(2026-12-01)")
        self.tell_git({"--points-at": "2.4.0", "--merged": "2.4.0"})
        self.monkeypatch.setenv("SIGNING_KEY", self.key)
        self.monkeypatch.setenv("GNUPGHOME", str(self.gnupg))
        self.build_elsewhere("true")

    def build_elsewhere(self, command):
        """Say what the second build does when it is done."""
        clone = self.programs.folder / "clone"
        clone.mkdir(exist_ok=True)
        script = clone / "doit.sh"
        script.write_text(SECOND.format(build=self.build, command=command))
        script.chmod(0o755)

    def files(self):
        return {path.name: path.read_bytes() for path in (self.build / "release").iterdir()}


def fingerprint_of(home):
    listed = subprocess.run(
        ["gpg", "--homedir", home, "--batch", "--with-colons", "--list-keys"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return next(line for line in listed.splitlines() if line.startswith("fpr:")).split(":")[9]


@pytest.fixture(scope="module")
def gnupg(tmp_path_factory, development_key):
    """Provide a user's GnuPG home with a key to release with."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    argv = ["gpg", "--homedir", home, "--batch", "--quiet", "--import", development_key]
    subprocess.run(argv, check=True, capture_output=True)
    yield home
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.fixture(scope="module")
def workshop(root, tmp_path_factory, programs_class, development_key, gnupg):
    """Make a release once for all tests."""
    folder = tmp_path_factory.mktemp("machine")
    with engine_api.serving() as engine, pytest.MonkeyPatch.context() as monkeypatch:
        machine = Releasing(root, folder, programs_class(folder / "bin"), engine, monkeypatch)
        (machine.cache / "keys").mkdir()
        shutil.copy2(development_key, machine.cache / "keys")
        for option in config.OPTIONS:
            monkeypatch.delenv(option.name, raising=False)
        machine.plug_in(monkeypatch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            assert machine.run("_lock_record").status == 0
            machine.prepare(gnupg)
            machine.tag()
            machine.first = machine.run("-n", "4", "release")
            gc.collect()
        assert machine.first.status == 0, machine.first.out + machine.first.err
        machine.save()
        yield machine


@pytest.fixture
def made(workshop, monkeypatch, request):
    """Return a machine that has just made a release."""
    request.node.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    workshop.plug_in(monkeypatch)
    workshop.restore()
    return workshop


def test_the_release(made, tmp_path, require):
    require("gpgv")
    files = made.files()
    assert set(files) == {
        *(f"metalk8s-2.4.0{end}" for end in (".iso", "-sources.iso", ".spdx.json", ".cdx.json")),
        *(f"metalk8s-2.4.0-provenance.json{end}" for end in ("", ".sig")),
        *(f"metalk8s-2.4.0.iso.blocks{end}" for end in ("", ".sig")),
        *(f"metalk8s-2.4.0-{what}" for what in ("changelog.md", "inputs.tar", "documents.tar.gz")),
        *("metalk8s.gpg", "release.json", "SHA256SUM", "SHA256SUM.sig"),
    }
    there = shutil.copytree(made.build / "release", tmp_path / "there")
    script = (
        "gpgv --keyring ./metalk8s.gpg SHA256SUM.sig SHA256SUM && sha256sum -c SHA256SUM && "
        "gpgv --keyring ./metalk8s.gpg metalk8s-2.4.0-provenance.json.sig *-provenance.json"
    )
    subprocess.run(["sh", "-c", script], cwd=there, check=True, capture_output=True)
    description = json.loads(files["release.json"])
    assert description["version"] == "2.4.0"
    assert description["date"] == 1700000000
    assert files["metalk8s-2.4.0-changelog.md"].startswith(b"# MetalK8s 2.4.0 (2026-12-01)\n\n- `")
    product = (made.build / "product.txt").read_text().splitlines()
    assert {"VERSION=2.4.0", "BUILD_VERSION=2.4.0", "DEVELOPMENT_KEY=0"} <= set(product)
    assert b'"BUILD_VERSION": "2.4.0"' in files["metalk8s-2.4.0-provenance.json"]
    executed = made.first.executed
    assert executed[0] == "needs", "the gate comes first"
    assert executed[-1] == "2.4.0"
    assert "came out the same, byte for byte" in made.first.out
    assert f"MetalK8s 2.4.0 is in {made.build}/release" in made.first.out


def test_again_it_is_the_same(made):
    before = made.files()
    shutil.rmtree(made.build / "release")
    result = made.run("release")
    assert result.status == 0, result.out
    assert made.files() == before
    assert made.engine.builds == [], "what is up to date is not built again here"


def test_it_is_published_and_fetched(made, tmp_path):
    """As candidate, then as stable, without another build; what arrives is what was made."""
    place, got = str(tmp_path / "place"), tmp_path / "got"
    for words in (
        ("publish", "--to", place),
        ("publish", "--to", place, "--promote", "2.4.0", "--channel", "stable"),
        ("fetch", "--from", place, "-o", str(got), "stable"),
    ):
        result = made.run(*words)
        assert result.status == 0, result.out + result.err
    assert {path.name: path.read_bytes() for path in got.iterdir()} == made.files()


def refusals(machine):
    machine.edit("VERSION", "VERSION_SUFFIX=", "VERSION_SUFFIX=dev")
    machine.edit("CHANGELOG.md", "(2026-12-01)", "(in development)")
    machine.tell_git({"--points-at": "v2.4.0", "--merged": "", "status": " M salt/top.sls"})
    machine.monkeypatch.delenv("SIGNING_KEY")
    machine.edit(LOCK, '"floor"', '"ceiling"')
    machine.edit(TABLE, 'accepts = "medium"', 'accepts = "low"')


REASONS = ("VERSION", "checkout", "tag", "CHANGELOG.md", "SIGNING_KEY", "LOCK_POLICY", "locks")


@pytest.mark.parametrize("options", [(), ("--previous", "none.iso"), ("--dry-run",)])
def test_a_refusal_tells_all_and_builds_nothing(made, options):
    refusals(made)
    made.forget_build()
    made.programs.forget()
    calls = len(made.engine.calls)
    # Side by side, as doit would do with plain dependencies of the release.
    result = made.run("-n", "4", "release", *options)
    assert result.status == 1
    for where in (*REASONS, *(["--previous none.iso"] if "--previous" in options else [])):
        assert f"    | {where}: " in result.out, result.out
    assert "CVE-" in result.out
    assert result.out.count("ReleaseError") == 1
    assert len(made.engine.calls) == calls
    started = {path.name for path in made.programs.folder.glob(".*.calls")}
    assert started == {".git.calls"}
    assert not (made.build / "root").exists()
    assert not (made.build / "release").exists()


def test_a_refusal_leaves_the_release_before(made):
    before = made.files()
    made.tell_git({"--points-at": "2.4.1"})
    result = made.run("release")
    assert result.status == 1
    assert "1 reasons against a release 2.4.0" in result.out
    assert "    | tag: the commit has the tags 2.4.1;" in result.out
    assert made.files() == before


def test_a_dry_run_changes_nothing(made):
    def state():
        return {path: path.stat().st_mtime_ns for path in made.build.rglob("*")}

    before = state()
    result = made.run("release", "--dry-run")
    assert result.status == 0, result.out
    assert "Nothing is missing." in result.out
    for name in made.files():
        assert f"    {name}\n" in result.out
    assert state() == before


@pytest.mark.parametrize("options", [("--dry",), ("--previous=", "--dry-run")])
def test_a_dry_run_however_it_is_written(made, options):
    made.forget_build()
    result = made.run("release", *options)
    assert result.status == 0, result.out
    assert "Nothing is missing." in result.out
    assert not made.build.exists()


@pytest.mark.parametrize("options", [("--dry-runs",), ("--previous",), ("--once",)])
def test_unknown_options_build_nothing(made, options):
    made.forget_build()
    result = made.run("release", *options)
    assert result.status != 0
    assert not (made.build / "root").exists()


def test_a_second_build_that_differs(made):
    before = made.files()
    made.build_elsewhere("printf x >> _build/metalk8s.iso; echo x >> _build/root/MANIFEST")
    result = made.run("release")
    assert result.status == 1
    assert "ContentError" in result.out
    assert made.files() == before


def test_a_second_build_that_is_interrupted(made):
    before = made.files()
    made.build_elsewhere("kill -TERM $$")
    result = made.run("release")
    assert result.status == 1
    assert made.files() == before


def test_a_checkout_that_changes_meanwhile(made):
    """Somebody commits while the second build runs: git tells of another tag from then on."""
    before = made.files()
    answers = json.dumps({"--points-at": "", "--merged": "2.4.0"})
    git = made.programs.folder / "git.json"
    made.build_elsewhere(f"echo '{answers}' > {git}")
    result = made.run("release")
    assert result.status == 1
    assert "the commit has no tag of a version" in result.out
    assert made.files() == before


def test_a_release_before_is_compared(made, monkeypatch):
    folder = made.build.parent / "old"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("CALLED_FROM", str(folder))
    shutil.copy(made.build / "metalk8s.iso", folder / "old.iso")
    result = made.run("release", "--previous", "old.iso", "--dry-run")
    assert result.status == 1
    assert "    | --previous old.iso: its version is 2.4.0; expected one older" in result.out
    made.edit("VERSION", "VERSION_PATCH=0", "VERSION_PATCH=1")
    made.edit("CHANGELOG.md", "## 2.4.0", "## 2.4.1 (2026-12-02)\n\n- x\n\n## 2.4.0")
    made.tell_git({"--points-at": "2.4.1", "--merged": "2.4.0\n2.4.1"})
    result = made.run("release", "--previous", "old.iso")
    assert result.status == 0, result.out + result.err
    files = made.files()
    found = json.loads(files["metalk8s-2.4.1-difference.json"])
    assert (found["old"]["version"], found["new"]["version"]) == ("2.4.0", "2.4.1")
    assert b"2.4.1" in files["metalk8s-2.4.1-difference.html"]
    assert "metalk8s-2.4.0.iso" not in files
    assert made.engine.builds == []


def test_update_packs(made, monkeypatch, tmp_path, root, require):
    """Who has the older release and the pack gets the ISO of this one, by the release's script."""
    require("gpgv")
    old = shutil.copytree(made.build / "release", tmp_path / "2.4.0")
    monkeypatch.setenv("CALLED_FROM", str(tmp_path))
    result = made.run("release", "--update-from", "2.4.0", "--dry-run")
    assert "    | --update-from 2.4.0: its version is 2.4.0; expected one older" in result.out
    made.edit("VERSION", "VERSION_PATCH=0", "VERSION_PATCH=1")
    made.edit("CHANGELOG.md", "## 2.4.0", "## 2.4.1 (2026-12-02)\n\n- x\n\n## 2.4.0")
    made.tell_git({"--points-at": "2.4.1", "--merged": "2.4.0\n2.4.1"})
    pack = "metalk8s-2.4.1-from-2.4.0.update"
    result = made.run("release", "--update-from", "2.4.0", "--dry-run")
    assert f"    {pack}\n" in result.out, result.out
    result = made.run("release", "--update-from", "2.4.0")
    assert result.status == 0, result.out + result.err
    files = made.files()
    described = json.loads(files["release.json"])
    assert described["bases"] == ["2.4.0"]
    assert {row["file"] for row in described["artefacts"] if row["kind"] == "update"} == {pack}
    (tmp_path / pack).write_bytes(files[pack])
    script = root / "salt/scripts/apply-update.sh"
    key = old / "metalk8s.gpg"
    subprocess.run(
        ["sh", script, "--key", key, "--from", old / "metalk8s-2.4.0.iso", pack, "new"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "new/metalk8s-2.4.1.iso").read_bytes() == files["metalk8s-2.4.1.iso"]
    place = str(tmp_path / "place")
    assert made.run("publish", "--to", place).status == 0
    index = json.loads((tmp_path / "place/releases.json").read_text())
    assert index["releases"][0]["bases"] == ["2.4.0"]
    fetch = ("fetch", "--from", place, "-o", str(tmp_path / "got"), "--update-from")
    for _ in range(2):
        result = made.run(*fetch, "2.4.0", "candidate")
        assert result.status == 0, result.out + result.err
    got = {path.name: path.read_bytes() for path in (tmp_path / "got").iterdir()}
    assert got == {name: files[name] for name in ("SHA256SUM", "SHA256SUM.sig", pack)}
    result = made.run(*fetch, "2.3.0", "candidate")
    assert "2.4.1 has no update pack from '2.3.0'" in result.out
    (tmp_path / "got" / pack).write_bytes(b"x")
    result = made.run(*fetch, "2.4.0", "candidate")
    assert "got is there, and it is not 2.4.1" in result.out


def test_clean(made):
    result = made.run("clean", "release")
    assert result.status == 0, result.out + result.err
    assert not (made.build / "release").exists()
    assert (made.build / "metalk8s.iso").exists()


def test_help_tells_the_options(made):
    out = made.run("help", "release").out
    assert "--dry-run" in out
    assert "--previous" in out
    assert "--update-from" in out
