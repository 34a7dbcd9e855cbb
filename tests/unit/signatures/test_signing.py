import datetime
import re
import subprocess

import pytest

from buildchain.core import receipt
from buildchain.core.errors import SigningError
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.medium import iso
from buildchain.medium.iso import Medium
from buildchain.project.model import Version
from buildchain.signatures import gpg, signing
from tests.unit.medium.test_iso import EPOCH, make


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


NEW = 1795305600  # 2026-11-22, later than EPOCH


@pytest.fixture
def new_keys(monkeypatch, tmp_path, require):
    """Return release keys by name, all made long after what they are to sign."""
    binary = require("gpg")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    base = [binary, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]

    def run(*argv):
        done = subprocess.run([*base, *argv], check=True, capture_output=True, text=True)
        return done.stdout

    keys = {}
    for name, created, usage, subkey in (
        ("new", NEW, "sign", None),
        ("with a new subkey", gpg.DEVELOPMENT_KEY_CREATED, "cert", NEW + 1),
        ("with another new subkey", gpg.DEVELOPMENT_KEY_CREATED, "sign", NEW + 2),
        ("old", gpg.DEVELOPMENT_KEY_CREATED, "sign", None),
    ):
        run("--faked-system-time", f"{created}!", "--quick-gen-key", name, "rsa1024", usage, "0")
        listing = run("--list-secret-keys", "--with-colons", f"={name}")
        keys[name] = gpg.parse_fingerprint(listing)
        if subkey:
            moment = ("--faked-system-time", f"{subkey}!")
            run(*moment, "--quick-add-key", keys[name], "rsa1024", "sign", "0")
    yield keys
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


def date_of(signature):
    argv = ["gpg", "--batch", "--list-packets", signature]
    told = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return sorted({int(date) for date in re.findall(r"created (\d{9,})", told)})


@pytest.mark.parametrize(
    ("names", "by_all", "date"),
    [
        (["old"], False, EPOCH),
        (["new"], False, NEW),
        (["with a new subkey"], False, NEW + 1),
        (["with another new subkey"], False, EPOCH),
        (["old", "new"], False, EPOCH),
        (["old", "new"], True, NEW),
        (["new", "old"], False, NEW),
        (["new", "with a new subkey"], True, NEW + 1),
    ],
)
def test_a_key_newer_than_the_content_signs(layout, new_keys, tmp_path, names, by_all, date):
    """At its own date, the same each time, and in a way that others accept."""
    keys = [new_keys[name] for name in names]
    file = tmp_path / "file"
    file.write_text("text\n")
    made = []
    for name in ("one", "two"):
        with signing.signer(layout, " ".join(keys)) as signer:
            made.append(signer.sign(file, tmp_path / name, epoch=EPOCH, by_all=by_all))
            rings = [signer.export(tmp_path / "ring", "k")[0]]
            rings += signer.export_others(tmp_path / "ring", "k")
    assert made[0].read_bytes() == made[1].read_bytes()
    assert date_of(made[0]) == [date]
    options = [word for ring in rings if ring.suffix == ".gpg" for word in ("--keyring", ring)]
    argv = ["gpgv", *options, made[0], file]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rpms_are_signed_by_a_new_key(layout, new_keys, fake_program, tmp_path):
    fake_program("rpmsign")
    with signing.signer(layout, new_keys["new"]) as signer:
        signer.sign_rpms([tmp_path / "a.rpm"], epoch=EPOCH)
        signer.sign_rpms([tmp_path / "a.rpm"], epoch=NEW + 5)
    dates = [re.findall(r"--faked-system-time (\d+)!", " ".join(argv))
             for argv in fake_program.calls("rpmsign")]  # fmt: skip
    assert dates == [[str(NEW)], [str(NEW + 5)]]


def test_an_expired_key_is_told_with_the_date(layout, new_keys, tmp_path, monkeypatch):
    base = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    moment = ["--faked-system-time", f"{EPOCH - 10 * 86400}!"]
    argv = [*base, *moment, "--quick-gen-key", "short", "rsa1024", "sign", "1d"]
    subprocess.run(argv, check=True, capture_output=True)
    listing = ["gpg", "--batch", "--list-secret-keys", "--with-colons", "=short"]
    told = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    (tmp_path / "file").write_text("x")
    with (
        signing.signer(layout, gpg.parse_fingerprint(told)) as signer,
        pytest.raises(SigningError, match="cannot sign") as caught,
    ):
        signer.sign(tmp_path / "file", tmp_path / "sig", epoch=EPOCH)
    day = datetime.datetime.fromtimestamp(EPOCH, datetime.UTC).date()
    assert f"dated {day} here, when it had expired or was revoked" in caught.value.solution


def records(*rows):
    return "".join(
        f"{kind}:{validity}:2048:1:ID:{date}:::u:::{can}:::+:::23::0:\nfpr:::::::::F{date}:\n"
        for kind, validity, date, can in rows
    )


@pytest.mark.parametrize(
    ("rows", "date"),
    [
        ([], 0),
        ([("sec", "u", 5, "scSC")], 5),
        ([("sec", "u", 5, "cSC"), ("ssb", "u", 7, "s")], 7),
        ([("sec", "u", 5, "cSC"), ("ssb", "u", 9, "s"), ("ssb", "u", 7, "s")], 7),
        ([("sec", "u", 5, "cSC"), ("ssb", "r", 6, "s"), ("ssb", "u", 7, "s")], 7),
        ([("sec", "u", 5, "cSC"), ("ssb", "u", 4, "s")], 5),
        ([("sec", "u", 5, "cSCE"), ("ssb", "u", 6, "e")], 0),
        ([("sec", "u", 5, "scESC"), ("ssb", "u", 6, "e")], 5),
    ],
)
def test_the_first_date_of_a_key(rows, date):
    assert gpg.parse_first_date(records(*rows)) == date


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
    from buildchain.core import receipt

    made = signing.export_public_key(keyed, "")
    path = keyed.receipt("_iso_key")
    receipt.write(path, keyed.build, made)
    assert signing.is_exported_key_current(keyed, "", path)
    keyed.development_key.touch()
    assert not signing.is_exported_key_current(keyed, "", path)
    keyed.development_key.unlink()
    assert not signing.is_exported_key_current(keyed, "", path)
    assert signing.is_exported_key_current(keyed, "AB" * 20, path), "gpg is asked when it signs"
