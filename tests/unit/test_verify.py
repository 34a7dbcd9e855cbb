"""``verify.sh`` as it lies on the medium: real gpgv, real trees, one damage at a time."""

import os
import subprocess

import pytest

from buildchain.core import receipt
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.medium import iso
from buildchain.medium.iso import Medium
from buildchain.project.model import Version
from buildchain.signatures import signing
from tests.unit.medium.test_iso import EPOCH, make

FILES = {
    "product.txt": "NAME=Demo\n",
    "images/a b/1/blob": "blob" * 1000,
    "images/empty": "",
    "salt/top.sls": "base: {}\n",
}
BAD_SIGNATURE, UNKNOWN_KEY, CHANGED, MISSING, EXTRA, TOO_OLD = range(10, 16)


@pytest.fixture
def medium(keyed, root):
    """Return a signed tree with its image beside it."""
    layout = keyed
    path = make(layout, "_parts", FILES)
    tree = Medium("Demo", Version(2, 8, 0, "dev"), layout.build / "tree", layout.iso)
    with signing.signer(layout, "") as signer:
        iso.populate(layout, tree, [Part(path, layout.build, ".")], signer, EPOCH)
        signer.export(layout.build / "own", "key")
        volume = b"Demo 2.8.0-dev".ljust(32)
        layout.iso.write_bytes(b"\0" * (16 * 2048 + 40) + volume + b"\0" * 5000)
        sums = iso.checksum_lines({layout.iso.name: receipt.sha256(layout.iso)})
        tree.checksums.write_text(sums)
        signer.sign(tree.checksums, tree.checksums.with_name("SHA256SUM.sig"), epoch=EPOCH)
    return tree


@pytest.fixture
def verify(medium, keyed, root):
    """Return a call of the script: status, and what it said."""

    def call(*arguments, key=keyed.build / "own" / "key.gpg", target=medium.root, **options):
        keys = ["--key", key] if key else []
        argv = ["sh", root / "salt/scripts/verify.sh", *keys, *arguments, target]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
        return done.returncode, done.stdout + done.stderr

    return call


def test_all_is_well(verify, medium, keyed):
    status, said = verify()
    assert status == 0, said
    assert "good: 1 of 1 wanted" in said
    # The files, and SHA256SUM with its signature.
    assert f"{len(FILES) + 2} are what was signed" in said
    assert verify("--quiet") == (0, "")
    assert verify(key=keyed.build / "own" / "key.asc")[0] == 0, "armored"
    assert verify("--jobs", "3", "--signatures=1")[0] == 0
    status, said = verify(target=medium.image)
    assert (status, "is what was signed" in said) == (0, True), said


def test_manifest(medium):
    lines = (medium.root / "MANIFEST").read_text().splitlines()
    assert lines[:2] == ["#name=Demo", "#version=2.8.0-dev"]
    rows = {line.split(" ", 4)[4]: line.split(" ", 4)[:4] for line in lines[2:]}
    assert rows["images/a b"] == ["-", "d", "0755", "0"]
    assert rows["product.txt"][1:] == ["f", "0644", "10"]
    assert list(rows) == sorted(rows)
    assert {"SHA256SUM", "SHA256SUM.sig"} < set(rows)
    assert not any(name.startswith("MANIFEST") for name in rows)


def change(tree):
    (tree / "images/a b/1/blob").write_text("blub" * 1000)


def lose(tree):
    (tree / "salt/top.sls").unlink()


def add(tree):
    (tree / "salt/evil.sls").write_text("evil")


def add_hidden_folder(tree):
    (tree / ".evil").mkdir()


def link(tree):
    (tree / "product.txt").unlink()
    (tree / "product.txt").symlink_to("salt/top.sls")


def be_privileged(tree):
    (tree / "product.txt").chmod(0o4755)


def be_executable(tree):
    (tree / "salt/top.sls").chmod(0o755)


def open_folder(tree):
    (tree / "salt").chmod(0o777)


def swap(tree):
    (tree / "product.txt").rename(tree / "away")
    (tree / "salt/top.sls").rename(tree / "product.txt")
    (tree / "away").rename(tree / "salt/top.sls")


def hard_link(tree):
    (tree / "images/empty").unlink()
    (tree / "images/empty").hardlink_to(tree / "product.txt")


def make_pipe(tree):
    (tree / "product.txt").unlink()
    os.mkfifo(tree / "product.txt")


def flip_a_bit(tree):
    path = tree / "images/a b/1/blob"
    content = bytearray(path.read_bytes())
    content[2000] ^= 4
    path.write_bytes(content)


def add_an_option(tree):
    (tree / "-rf").write_text("evil")


def fill(tree):
    (tree / "images/empty").write_text("x")


def edit_manifest(tree):
    text = (tree / "MANIFEST").read_text().replace("2.8.0-dev", "2.9.0")
    (tree / "MANIFEST").write_text(text)


def lose_manifest(tree):
    (tree / "MANIFEST").unlink()


def lose_signature(tree):
    (tree / "MANIFEST.sig").unlink()


def break_signature(tree):
    (tree / "MANIFEST.sig").write_bytes(b"nonsense")


@pytest.mark.parametrize(
    ("damage", "status", "words"),
    [
        (change, CHANGED, "changed    images/a b/1/blob\n"),
        (lose, MISSING, "missing    salt/top.sls\n"),
        (add, EXTRA, "extra      salt/evil.sls\n"),
        (add_hidden_folder, EXTRA, "extra      .evil\n"),
        (link, CHANGED, "changed    product.txt\n"),
        (be_privileged, CHANGED, "changed    product.txt (mode 4755, signed 644)\n"),
        (be_executable, CHANGED, "changed    salt/top.sls (mode 755, signed 644)\n"),
        (open_folder, CHANGED, "changed    salt (mode 777, signed 755)\n"),
        (swap, CHANGED, "changed    product.txt\nchanged    salt/top.sls\n"),
        (hard_link, CHANGED, "changed    images/empty\n"),
        (make_pipe, CHANGED, "changed    product.txt\n"),
        (flip_a_bit, CHANGED, "changed    images/a b/1/blob\n"),
        (add_an_option, EXTRA, "extra      -rf\n"),
        (fill, CHANGED, "changed    images/empty\n"),
        (edit_manifest, BAD_SIGNATURE, "is bad"),
        (lose_manifest, UNKNOWN_KEY, "holds no MANIFEST"),
        (lose_signature, UNKNOWN_KEY, "is not signed"),
        (break_signature, UNKNOWN_KEY, "has 0 signatures"),
    ],
)
def test_damages(verify, medium, damage, status, words):
    damage(medium.root)
    assert verify()[0] == status, verify()[1]
    assert words in verify()[1]


def test_all_damages_are_listed(verify, medium):
    for damage in (change, lose, add):
        damage(medium.root)
    status, said = verify()
    assert status == CHANGED
    for word in ("changed", "missing", "extra"):
        assert word in said


def test_another_key(verify, keyed, tmp_path):
    other = tmp_path / "other"
    layout = keyed.__class__(keyed.root, other, other / "cache", "demo")
    with signing.signer(layout, "") as signer:
        signer.export(other, "key")
    status, said = verify(key=other / "key.gpg")
    assert status == UNKNOWN_KEY
    assert "0 signatures by the keys given, 1 wanted" in said
    # Both may sign; one signature is not two.
    own = keyed.build / "own" / "key.gpg"
    assert verify("--key", own, key=other / "key.gpg")[0] == 0
    assert verify("--key", own, "--signatures", "2", key=other / "key.gpg")[0] == UNKNOWN_KEY


def test_two_of_two_and_a_new_key(verify, medium, keyed, tmp_path):
    other = tmp_path / "other"
    layout = keyed.__class__(keyed.root, other, other / "cache", "demo")
    manifest = medium.root / "MANIFEST"
    with signing.signer(layout, "") as second:
        second.export(other, "key")
        second.sign(manifest, other / "second.sig", epoch=EPOCH)
    first = (medium.root / "MANIFEST.sig").read_bytes()
    (medium.root / "MANIFEST.sig").write_bytes(first + (other / "second.sig").read_bytes())
    assert verify("--signatures", "2", "--key", other / "key.gpg")[0] == 0
    assert verify("--signatures", "2")[0] == UNKNOWN_KEY


def test_a_key_that_is_introduced_by_the_old_one(keyed, root, tmp_path, verify):
    """The medium is signed by a new key, which the medium brings, signed by the old one."""
    new = keyed.__class__(keyed.root, tmp_path / "new", tmp_path / "new" / "cache", "demo")
    path = make(new, "_parts", FILES)
    (new.build / "keys").mkdir()
    tree = Medium("Demo", Version(3, 0, 0, ""), new.build / "tree", new.iso)
    with signing.signer(new, "") as signer:
        binary, _ = signer.export(new.build / "keys", "metalk8s")
        with signing.signer(keyed, "") as old:
            signature = old.sign(binary, binary.with_name("metalk8s.gpg.sig"), epoch=EPOCH)
        keys = new.receipt("_keys")
        receipt.write(keys, new.build, Made((binary, signature)))
        parts = [Part(path, new.build, "."), Part(keys, new.build, ".")]
        iso.populate(new, tree, parts, signer, EPOCH)
    status, said = verify(target=tree.root)
    assert status == 0, said
    assert "introduces a new key" in said
    signature = tree.root / "keys" / "metalk8s.gpg.sig"
    signature.write_bytes((tree.root / "SHA256SUM.sig").read_bytes())
    assert verify(target=tree.root)[0] == UNKNOWN_KEY


@pytest.mark.parametrize(
    ("wanted", "status"),
    [("2.8.0-dev", 0), ("2.7.9", 0), ("2.8.0", TOO_OLD), ("2.8.1", TOO_OLD), ("2.10.0", TOO_OLD)],
)
def test_versions(verify, medium, wanted, status):
    assert verify("--at-least", wanted)[0] == status
    assert verify("--at-least", wanted, target=medium.image)[0] == status


def test_names_that_lead_elsewhere(verify, medium):
    """Whoever goes on without a signature is not led out of the medium."""
    manifest = medium.root / "MANIFEST"
    (medium.root.parent / "secret").write_text("secret")
    digest = receipt.sha256(medium.root.parent / "secret")
    manifest.write_text(f"{manifest.read_text()}{digest} f 0644 6 ../secret\n")
    assert verify()[0] == BAD_SIGNATURE
    status, said = verify("--insecure-without-signature", key=None)
    assert status == MISSING
    assert "missing    ../secret\n" in said


def revoke(home, fingerprint):
    """Revoke a key of a GnuPG home, and return its public part."""
    path = home / "openpgp-revocs.d" / f"{fingerprint}.rev"
    # GnuPG keeps it from being used by accident.
    certificate = path.read_text().replace(":-----BEGIN", "-----BEGIN")
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    subprocess.run([*gpg, "--import"], input=certificate, text=True, check=True)
    return subprocess.run([*gpg, "--export"], capture_output=True, check=True).stdout


def test_a_revoked_key(verify, medium, tmp_path):
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-gen-key", "Demo", "ed25519", "sign", "never"], check=True)
    manifest = medium.root / "MANIFEST"
    signature = manifest.with_name("MANIFEST.sig")
    signature.unlink()
    argv = [*gpg, "--output", str(signature), "--detach-sign", str(manifest)]
    subprocess.run(argv, check=True)
    signature.chmod(0o644)
    good = subprocess.run([*gpg, "--export"], capture_output=True, check=True).stdout
    (tmp_path / "good.gpg").write_bytes(good)
    assert verify(key=tmp_path / "good.gpg")[0] == 0
    [certificate] = (home / "openpgp-revocs.d").iterdir()
    (tmp_path / "revoked.gpg").write_bytes(revoke(home, certificate.stem))
    status, said = verify(key=tmp_path / "revoked.gpg")
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    assert status == UNKNOWN_KEY
    assert "0 signatures by the keys given, 1 wanted" in said


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 128]) + content[1:],
        lambda content: content[:-2048],
        lambda content: content + b"\0",
        lambda content: b"",
    ],
    ids=["last bit", "first bit", "truncated", "appended", "empty"],
)
def test_a_changed_image(verify, medium, spoil):
    medium.image.write_bytes(spoil(medium.image.read_bytes()))
    status, said = verify(target=medium.image)
    assert status == CHANGED
    assert "was changed" in said
    medium.checksums.write_text("")
    assert verify(target=medium.image)[0] == BAD_SIGNATURE
    medium.checksums.unlink()
    assert verify(target=medium.image)[0] == UNKNOWN_KEY


def test_without_a_signature_is_loud(verify, medium):
    lose_signature(medium.root)
    status, said = verify("--insecure-without-signature", key=None)
    assert status == 0
    assert "WARNING: no signature is checked" in said
    change(medium.root)
    assert verify("--insecure-without-signature", key=None)[0] == CHANGED


def test_a_key_from_the_medium_is_warned_of(verify, medium, keyed):
    (medium.root / "key.gpg").write_bytes((keyed.build / "own" / "key.gpg").read_bytes())
    status, said = verify(key=medium.root / "key.gpg")
    assert status == EXTRA
    assert "is on the medium: it proves nothing" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no key"),
        (["--key"], "is no file that can be read"),
        (["--key", "/nowhere"], "is no file that can be read"),
        (["--signatures", "0"], "expected a number above 0"),
        (["--jobs", "many"], "expected a number above 0"),
        (["--nonsense"], "is no option"),
        (["elsewhere"], "only one medium"),
        (["--key=/dev/null", "--"], "is no file that can be read"),
    ],
)
def test_bad_usage(verify, arguments, words):
    status, said = verify(*arguments, key=None)
    assert status == 1
    assert words in said
    assert "usage" in verify("--help", key=None)[1]


@pytest.mark.parametrize("content", [b"", b"-----BEGIN SOMETHING-----\n"])
def test_a_bad_key_file(verify, tmp_path, content):
    (tmp_path / "bad.gpg").write_bytes(content)
    assert verify(key=tmp_path / "bad.gpg")[0] == 1


TOOLS = ("awk", "base64", "basename", "cat", "cut", "dd", "dirname", "find", "grep", "head",
         "id", "mkfifo", "mktemp", "od", "rm", "sed", "sh", "sort", "tr", "wc",
         "xargs")  # fmt: skip


@pytest.fixture
def tools(tmp_path):
    """Return a folder with the least that a machine has."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(f"/usr/bin/{tool}")
    return folder


@pytest.mark.parametrize("hasher", ["sha256sum", "openssl"])
def test_either_hasher_will_do(verify, medium, tools, hasher):
    for tool in (hasher, "gpgv"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    environment = {**os.environ, "PATH": str(tools)}
    assert verify(env=environment)[0] == 0
    assert verify(env=environment, target=medium.image)[0] == 0
    swap(medium.root)
    assert verify(env=environment)[0] == CHANGED


def test_no_hasher(verify, tools):
    (tools / "gpgv").symlink_to("/usr/bin/gpgv")
    status, said = verify(env={**os.environ, "PATH": str(tools)})
    assert status == 1
    assert "'sha256sum' is not installed" in said


def test_missing_gpgv(verify, tools):
    (tools / "sha256sum").symlink_to("/usr/bin/sha256sum")
    status, said = verify(env={**os.environ, "PATH": str(tools)})
    assert status == 1
    assert "'gpgv' is not installed" in said
