import subprocess

import pytest

from buildchain.actions import signing
from buildchain.errors import SigningError

EPOCH = 1700000000


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
