import subprocess

import pytest

from buildchain import receipt
from buildchain.actions import iso, signing
from buildchain.actions.iso import Medium, Part
from buildchain.errors import SigningError
from buildchain.model import Version
from buildchain.receipt import Made
from buildchain.tools import gpg
from tests.unit.test_actions_iso import EPOCH, make


def test_development_key_is_made_once_and_kept_private(keyed, recorded):
    assert keyed.development_key.stat().st_mode & 0o777 == 0o600
    before = keyed.development_key.read_bytes()
    with signing.signer(keyed, "") as one, signing.signer(keyed, "") as two:
        assert one.is_development
        assert one.fingerprint == two.fingerprint
        assert len(one.fingerprint) == 40
        assert one.home != two.home
    assert not one.home.exists()
    assert keyed.development_key.read_bytes() == before
    assert [p.name for p in keyed.development_key.parent.iterdir()] == ["development.key"]


@pytest.mark.parametrize("kind", ["detached", "armored", "clear"])
def test_signatures_hold_and_are_the_same_each_time(keyed, tmp_path, require, kind):
    require("gpgv")
    file = tmp_path / "file"
    file.write_text("text\n")
    with signing.signer(keyed, "") as key:
        keyring, armored = key.export(tmp_path / "keys", "demo")
        signature = key.sign(file, tmp_path / "one", epoch=EPOCH, kind=kind)
    with signing.signer(keyed, "") as key:
        again = key.sign(file, tmp_path / "two", epoch=EPOCH, kind=kind)
    assert signature.read_bytes() == again.read_bytes()
    assert armored.read_text().startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
    argv = ["gpgv", "--keyring", keyring, signature, *([] if kind == "clear" else [file])]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    (tmp_path / "file").write_text("other\n")
    if kind != "clear":
        assert subprocess.run(argv, capture_output=True, check=False).returncode != 0


def test_exported_public_key(keyed):
    made = signing.export_public_key(keyed, "")
    assert [path.name for path in made.paths] == ["metalk8s.gpg", "metalk8s.asc"]
    assert made.facts["development"] is True
    first = [path.read_bytes() for path in made.paths]
    assert [path.read_bytes() for path in signing.export_public_key(keyed, "").paths] == first


def test_release_key_that_is_not_there(layout, monkeypatch, tmp_path, require):
    require("gpg")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    with (
        pytest.raises(SigningError, match=f"no secret key {'AB' * 20} in {home}") as caught,
        signing.signer(layout, "AB" * 20),
    ):
        pass
    assert "SIGNING_KEY" in caught.value.solution


def test_release_key_of_the_user(keyed, monkeypatch, tmp_path, require):
    gpg = require("gpg")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    with signing.signer(keyed, "") as key:
        fingerprint = key.fingerprint
    subprocess.run([gpg, "--homedir", home, "--batch", "--quiet", "--import",
                    keyed.development_key], check=True)  # fmt: skip
    monkeypatch.setenv("GNUPGHOME", str(home))
    try:
        with signing.signer(keyed, fingerprint) as key:
            assert not key.is_development
            assert key.home == home
            (tmp_path / "f").write_text("x")
            key.sign(tmp_path / "f", tmp_path / "f.sig", epoch=EPOCH)
        assert (tmp_path / "f.sig").stat().st_size > 100
        assert home.exists(), "the user's home is not ours to remove"
        assert signing.export_public_key(keyed, fingerprint).facts["development"] is False
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.fixture
def two_keys(monkeypatch, tmp_path, require):
    """Return the fingerprints of two release keys in the user's GnuPG home."""
    gpg_binary = require("gpg")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    for name in ("New", "Old"):
        (home / "parameters").write_text(
            gpg.key_parameters().replace("MetalK8s development", name).replace("3072", "1024")
        )
        argv = [gpg_binary, "--batch", "--quiet", "--gen-key", home / "parameters"]
        subprocess.run(argv, check=True, capture_output=True)
    listed = subprocess.run(
        [gpg_binary, "--list-secret-keys", "--with-colons"], check=True, capture_output=True
    ).stdout.decode()
    yield [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")]
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


def test_several_keys_sign_the_medium(keyed, two_keys, root):
    layout, keys = keyed, " ".join(two_keys)
    medium = Medium("Demo", Version(2, 8, 0, ""), layout.build / "tree", layout.iso)
    exported = layout.receipt("_iso_key")
    receipt.write(exported, layout.build, signing.export_public_key(layout, keys))
    parts = [Part(exported, layout.keys, "keys")]
    verifier = make(layout, "_v", {"verify.sh": (root / "salt/scripts/verify.sh").read_text()})
    parts.append(Part(verifier, layout.build / "verify.sh", "verify.sh"))
    layout.iso.write_bytes(b"\0" * 40000)
    receipt.write(layout.receipt("_iso_build"), layout.build, Made((layout.iso,)))
    with signing.signer(layout, keys) as signer:
        iso.populate(layout, medium, parts, signer, EPOCH)
        iso.digest(layout, medium, layout.receipt("_iso_build"), signer, EPOCH)
    rings = signing.keyrings(layout)
    assert len(rings) == 2
    iso.verify(medium, rings)
    for given, wanted, status in ((rings, 2, 0), (rings[1:], 1, 0), (rings[:1], 2, 11)):
        options = [word for ring in given for word in ("--key", ring)]
        argv = ["sh", medium.root / "verify.sh", *options, "--signatures", str(wanted)]
        done = subprocess.run([*argv, medium.root], check=False, capture_output=True)
        assert done.returncode == status, done.stdout + done.stderr


def test_a_key_introduced_by_the_one_it_replaces(keyed, two_keys, tmp_path):
    new, old = two_keys
    introduction = tmp_path / "introduction.sig"
    key = signing.export_public_key(keyed, new).paths[0]
    argv = ["gpg", "--batch", "--local-user", old, "--detach-sign", "--output", introduction, key]
    subprocess.run(argv, check=True, capture_output=True)
    made = signing.export_public_key(keyed, new, introduction)
    assert [path.name for path in made.paths][-1] == "metalk8s.gpg.sig"
    assert made.paths[-1].read_bytes() == introduction.read_bytes()
    with pytest.raises(SigningError, match="introduces another key than the first") as caught:
        signing.export_public_key(keyed, old, introduction)
    assert "--detach-sign" in caught.value.solution


def test_what_keys_of_the_last_build_left_is_gone(keyed, two_keys):
    signing.export_public_key(keyed, " ".join(two_keys))
    signing.export_public_key(keyed, two_keys[0])
    assert {path.name for path in keyed.keys.iterdir()} == {"metalk8s.gpg", "metalk8s.asc"}


def test_every_key_that_is_not_there_is_named(keyed, two_keys):
    wrong = ["AB" * 20, "CD" * 20]
    with (
        pytest.raises(SigningError, match=f"no secret key {wrong[0]}, {wrong[1]} in"),
        signing.signer(keyed, " ".join([two_keys[0], *wrong])),
    ):
        pass


def test_a_key_that_cannot_sign(fake_program, tmp_path):
    fake_program("gpg", output="gpg: signing failed: No pinentry\n", status=2)
    key = signing.Signer(tmp_path, "AB", is_development=False)
    with pytest.raises(SigningError, match="key AB cannot sign") as caught:
        key.sign(tmp_path / "f", tmp_path / "o", epoch=EPOCH)
    assert "No pinentry" in caught.value.details
    assert not (tmp_path / "o").exists()


def test_rpms_are_signed_in_place(fake_program, tmp_path):
    fake_program("rpmsign")
    key = signing.Signer(tmp_path, "AB", is_development=True)
    key.sign_rpms([tmp_path / "a.rpm"], epoch=EPOCH)
    (argv,) = fake_program.calls("rpmsign")
    assert argv[0] == "--addsign"
    assert argv[-1] == str(tmp_path / "a.rpm")


def test_replaced_development_key_is_noticed(keyed):
    from buildchain import receipt

    made = signing.export_public_key(keyed, "")
    path = keyed.receipt("_iso_key")
    receipt.write(path, keyed.build, made)
    assert signing.is_exported_key_current(keyed, "", path)
    keyed.development_key.touch()
    assert not signing.is_exported_key_current(keyed, "", path)
    keyed.development_key.unlink()
    assert not signing.is_exported_key_current(keyed, "", path)
    assert signing.is_exported_key_current(keyed, "AB" * 20, path), "gpg is asked when it signs"
