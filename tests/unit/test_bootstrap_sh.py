"""``bootstrap.sh`` up to where Python takes over: a real signed tree, real gpgv and dpkg-deb."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from metalk8s_bootstrap.subject import RECORD

from buildchain.core import receipt
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.medium import iso
from buildchain.medium.iso import Medium
from buildchain.project.model import Version
from buildchain.signatures import signing
from tests.unit.medium.test_iso import EPOCH, make

SCRIPTS = ("bootstrap.sh", "verify.sh", "metalk8s_bootstrap")
YAML = "opt/metalk8s/salt/lib/python3.11/site-packages/yaml"
KEYS = "KEYS=/etc/metalk8s/keys\n"
CONTROL = """\
Package: metalk8s-salt
Version: 1
Architecture: amd64
Maintainer: a <a@b.invalid>
Description: x
"""


@pytest.fixture
def medium(keyed, root, tmp_path, require):
    """Return a signed medium: our scripts, and a package with PyYAML in it."""
    require("dpkg-deb")
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text(CONTROL)
    shutil.copytree(Path(yaml.__file__).parent, package / YAML, ignore=lambda *_: ["__pycache__"])
    deb = keyed.build / "packages/debian/metalk8s-salt_1_amd64.deb"
    deb.parent.mkdir(parents=True)
    subprocess.run(["dpkg-deb", "--build", package, deb], check=True, capture_output=True)
    files = {
        path.relative_to(root / "salt/scripts").as_posix(): path.read_text()
        for name in SCRIPTS
        for path in [root / "salt/scripts" / name, *(root / "salt/scripts" / name).rglob("*.py")]
        if path.is_file()
    }
    # Keys and what is beside them are the test's.
    assert KEYS in files["bootstrap.sh"]
    files["bootstrap.sh"] = files["bootstrap.sh"].replace(KEYS, f"KEYS={tmp_path}/keys\n")
    files["product.txt"] = "NAME=Demo\nVERSION=2.8.0-dev\n"
    files["salt/metalk8s/versions.json"] = '{"packages": {"debian": {}, "redhat": {}}}'
    parameters = root / "salt/states/metalk8s/parameters"
    for name in ("defaults.yaml", "os_family/debian.yaml", "os_family/redhat.yaml"):
        files[f"salt/metalk8s/parameters/{name}"] = (parameters / name).read_text()
    files["salt/metalk8s/parameters/ports.yaml"] = "{}"
    make(keyed, "_texts", files)
    outputs = [keyed.build / name for name in files]
    made = keyed.receipt("_parts")
    receipt.write(made, keyed.build, Made((*outputs, deb)))
    tree = Medium("Demo", Version(2, 8, 0, "dev"), keyed.build / "tree", keyed.iso)
    with signing.signer(keyed, "") as signer:
        iso.populate(keyed, tree, [Part(made, keyed.build, ".")], signer, EPOCH)
        signer.export(keyed.build / "own", "key")
    return tree


@pytest.fixture
def call(medium, keyed, fake_program, tmp_path):
    """Return a call of the script by somebody who looks like root: status, and what it said."""
    fake_program("id", output="0\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def do(*arguments, key=keyed.build / "own/key.gpg"):
        keys = ["--key", key] if key else []
        environment = {**os.environ, "TMPDIR": str(scratch)}
        argv = ["sh", medium.root / "bootstrap.sh", *keys, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        assert not list(scratch.iterdir()), "what was unpacked is gone"
        return done.returncode, done.stdout + done.stderr

    return do


def test_python_takes_over(call):
    """The medium is fine; this machine is not, whatever it is: it has no configuration."""
    if Path("/etc/metalk8s/bootstrap.yaml").exists():
        pytest.skip("this machine has a bootstrap configuration")
    status, said = call("--check")
    assert status in (20, 21), said
    assert "/etc/metalk8s/bootstrap.yaml: there is no such file" in said
    assert said.endswith("nothing was changed\n")
    assert not Path("/", RECORD).exists()


def test_another_python(call, fake_program):
    """Too old ones are passed over; one of the medium is the last resort, and it has none."""
    for name in ("python3.11", "python3"):
        fake_program(name, status=1)
    status, said = call("--check")
    if Path("/usr/libexec/platform-python").exists():
        pytest.skip("this machine has a platform-python")
    assert status == 20
    assert "has no Python 3.9, and the medium has none that runs here" in said


def test_medium_for_another_system(call, medium):
    (medium.root / "packages/debian/metalk8s-salt_1_amd64.deb").unlink()
    status, said = call("--insecure-without-signature", key=None)
    assert status == 13
    assert "missing    packages/debian/metalk8s-salt_1_amd64.deb" in said


@pytest.mark.parametrize(
    ("name", "change", "status", "words"),
    [
        ("product.txt", "NAME=Evil\n", 12, "changed    product.txt"),
        ("metalk8s_bootstrap/evil.py", "evil", 14, "extra      metalk8s_bootstrap/evil.py"),
        ("MANIFEST", "", 10, "is bad"),
        ("MANIFEST.sig", "", 11, "has 0 signatures"),
    ],
)
def test_a_medium_that_was_changed(call, medium, name, change, status, words):
    """It is refused before anything of it runs; what checks the machine says nothing."""
    (medium.root / name).write_text(change)
    found, said = call()
    assert (found, words in said) == (status, True), said
    assert "cannot be trusted; nothing was changed" in said
    assert "bootstrap.yaml" not in said


def test_no_key(call):
    status, said = call(key=None)
    assert status == 11
    assert "no key to verify the medium with" in said
    status, said = call("--insecure-without-signature", "--check", key=None)
    assert status in (20, 21)
    assert "WARNING: no signature is checked" in said


@pytest.mark.parametrize(
    ("floor", "arguments", "refused"),
    [
        ("", [], False),
        ("", ["--at-least", "2.8.0-dev"], False),
        ("", ["--at-least", "2.8.0"], True),
        ("2.8.0-dev", [], False),
        ("2.7.9", ["--at-least=2.8.1"], True),
        ("2.8.0", [], True),
        ("2.10.0", ["--at-least", "2.7.0"], True),
        ("2.10.0", ["--insecure-without-signature"], True),
        ("2.10.0", ["--allow-older"], False),
        ("2.10.0", ["--allow-older", "--at-least", "2.9.0"], True),
    ],
)
def test_an_older_medium(call, keyed, tmp_path, floor, arguments, refused):
    """The version that was here before counts also when nobody asks."""
    keys = tmp_path / "keys"
    keys.mkdir()
    shutil.copy(keyed.build / "own/key.gpg", keys)
    if floor:
        (keys / "at-least").write_text(f"{floor}\n")
    status, said = call("--check", *arguments, key=None)
    assert (status == 15) == refused, said
    assert ("--allow-older" in said) == refused
    if not refused:
        assert status in (20, 21)
    assert sorted(path.name for path in keys.iterdir()) == ["at-least", "key.gpg"][not floor :]


@pytest.mark.parametrize("content", ["", "\n", "2.4.0; rm -rf /\n", "2.4.0\n2.5.0\n"])
def test_a_floor_that_is_none(call, tmp_path, content):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/at-least").write_text(content)
    status, said = call("--check")
    assert status == 1
    assert "at-least does not hold a version" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-such"], "--no-such is no option"),
        (["--key"], "--key needs a value"),
        (["--at-least"], "--at-least needs a value"),
        (["--key=/no/file"], "--key /no/file: no such file"),
        (["--signatures=none"], "--signatures none: expected a number above 0"),
    ],
)
def test_usage(call, arguments, words):
    status, said = call(*arguments)
    assert status == 1
    assert words in said
    said = call("--help")[1]
    assert "usage: bootstrap.sh" in said
    # The script cannot verify itself.
    assert "gpgv --keyring ./KEY.gpg SHA256SUM.sig SHA256SUM && sha256sum --check SHA256SUM" in said


def test_not_root(call, fake_program):
    fake_program("id", output="1000\n")
    status, said = call()
    assert status == 20
    assert "runs as user 1000, not as root" in said
