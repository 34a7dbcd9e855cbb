"""What comes out with the key elsewhere is what comes out with the key at hand."""

import dataclasses
import stat

import pytest

from buildchain.core.errors import SigningError, WaitingError
from buildchain.redhat import rpm_repository
from buildchain.signatures import elsewhere, signing
from buildchain.signatures.folder import Folder
from tests.integration import stub_rpms
from tests.integration.stub_rpms import Stub
from tests.unit.signatures.conftest import EPOCH, SINCE


def answer(office, layout, change=lambda wanted: wanted, digest="SHA256"):
    """Sign what is wanted, as anybody would with gpg."""
    folder, found = Folder(layout.signatures), {}
    for real in folder.wanted():
        wanted, file = change(real), layout.build / "file"
        file.write_bytes(folder.content(real) if wanted.sha256 == real.sha256 else b"other")
        kind = "--clear-sign" if wanted.kind == "clear" else "--detach-sign"
        output = file.with_name("output")
        output.unlink(missing_ok=True)
        office.gpg("--faked-system-time", f"{wanted.date}!", "--digest-algo", digest,
                   "--local-user", wanted.key, "--output", output, kind, file)  # fmt: skip
        found[real.identity] = output.read_bytes()
    folder.add(found)
    return found


def at_hand(monkeypatch, office, layout):
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    return dataclasses.replace(layout, public_keys=None)


@pytest.mark.parametrize(
    ("kind", "by_all", "epoch"),
    [
        ("detached", False, EPOCH), ("detached", True, EPOCH), ("armored", False, EPOCH),
        ("clear", False, EPOCH), ("detached", True, 1),
    ],
)  # fmt: skip
def test_a_file(away, office, tmp_path, monkeypatch, kind, by_all, epoch):
    keys = " ".join(office.keys[:2])
    file = tmp_path / "file"
    file.write_text("Origin: x\n- dash\n")
    with signing.signer(away, keys) as key:
        assert not key.is_development
        with pytest.raises(WaitingError, match="made elsewhere and not here yet: file") as caught:
            key.sign(file, tmp_path / "far", epoch=epoch, kind=kind, by_all=by_all)
    assert not (tmp_path / "far").exists()
    wanted = Folder(away.signatures).wanted()
    assert {one.key for one in wanted} == set(office.keys[: 1 + by_all])
    assert {one.date for one in wanted} == {max(epoch, SINCE)}, "ADR 14"
    assert set(caught.value.wanted) == {one.identity for one in wanted}
    answer(office, away)
    with signing.signer(away, keys) as key:
        far = key.sign(file, tmp_path / "far", epoch=epoch, kind=kind, by_all=by_all)
    with signing.signer(at_hand(monkeypatch, office, away), keys) as key:
        near = key.sign(file, tmp_path / "near", epoch=epoch, kind=kind, by_all=by_all)
    assert far.read_bytes() == near.read_bytes()
    assert stat.S_IMODE(far.stat().st_mode) == 0o644


def test_packages(away, office, tmp_path, monkeypatch, require):
    require("rpmsign")
    stubs = [Stub("one"), Stub("two", requires=("one",))]
    rpms = stub_rpms.build(tmp_path / "unsigned", stubs)
    first = office.keys[0]
    for number in (1, 2):
        with signing.signer(away, first) as key:
            if number == 1:
                with pytest.raises(WaitingError, match=r"2 signatures are .*one-.*two-"):
                    rpm_repository.sign_copies(tmp_path / "far", rpms, key, epoch=EPOCH)
                assert not (tmp_path / "far").exists()
                answer(office, away)
            else:
                rpm_repository.sign_copies(tmp_path / "far", rpms, key, epoch=EPOCH)
    with signing.signer(at_hand(monkeypatch, office, away), first) as key:
        rpm_repository.sign_copies(tmp_path / "near", rpms, key, epoch=EPOCH)
    for rpm in rpms:
        far = (tmp_path / "far" / rpm.name).read_bytes()
        assert far == (tmp_path / "near" / rpm.name).read_bytes()
        assert far != rpm.read_bytes()


def test_what_is_no_package(away, office, tmp_path, require):
    require("rpmsign")
    (tmp_path / "x.rpm").write_text("x")
    with (
        signing.signer(away, office.keys[0]) as key,
        pytest.raises(SigningError, match=r"rpmsign signs nothing of x\.rpm"),
    ):
        key.sign_rpms([tmp_path / "x.rpm"], epoch=EPOCH)


def test_rpmsign_that_does_not_take_the_answer(away, office, tmp_path, fake_program):
    body = "import os, pathlib\nscratch = pathlib.Path(os.environ['SCRATCH'])\n"
    fake_program("rpmsign", body + "(scratch / 'header').write_text('h')\nsys.exit(3)")
    for error in (WaitingError, SigningError):
        with signing.signer(away, office.keys[0]) as key, pytest.raises(error) as caught:
            key.sign_rpms([tmp_path / "x.rpm"], epoch=EPOCH)
        answer(office, away)
    assert "x.rpm cannot be signed" in str(caught.value)


def other(**changes):
    return lambda wanted: dataclasses.replace(wanted, **changes)


def test_another_digest(away, office, tmp_path):
    file = tmp_path / "file"
    file.write_text("x\n")
    for error in (WaitingError, SigningError):
        with signing.signer(away, office.keys[0]) as key, pytest.raises(error) as caught:
            key.sign(file, tmp_path / "far", epoch=EPOCH)
        answer(office, away, digest="SHA512")
    assert "has another digest or class than SHA-256" in caught.value.reason


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda office: other(sha256="0" * 64), "is of other bytes"),
        (lambda office: other(key=office.keys[1]), "is by {1}"),
        (lambda office: other(key=office.keys[2]), "is by a key that is none of SIGNING_KEY"),
        (lambda office: other(date=EPOCH - 1), "is dated 2025-06-15 (1749999999), not 2025-06-15"),
        (lambda office: other(kind="clear"), "is of other bytes"),
    ],
)
def test_an_answer_that_does_not_hold(away, office, tmp_path, change, problem):
    file = tmp_path / "file"
    file.write_text("x\n")
    for error in (WaitingError, SigningError):
        keys = " ".join(office.keys[:2])
        with signing.signer(away, keys) as key, pytest.raises(error) as caught:
            key.sign(file, tmp_path / "far", epoch=EPOCH)
        answer(office, away, change(office))
    assert problem.format(*office.keys) in caught.value.reason
    assert not (tmp_path / "far").exists()


def test_nonsense_among_the_answers(away, office, tmp_path):
    file = tmp_path / "file"
    file.write_text("x\n")
    with signing.signer(away, office.keys[0]) as key:
        with pytest.raises(WaitingError):
            key.sign(file, tmp_path / "far", epoch=EPOCH)
        [wanted] = Folder(away.signatures).wanted()
        Folder(away.signatures).add({wanted.identity: b"nonsense"})
        with pytest.raises(SigningError, match="is not one signature"):
            key.sign(file, tmp_path / "far", epoch=EPOCH)


def test_keys_that_are_not_in_the_file(away, office, tmp_path):
    with (
        pytest.raises(SigningError, match=f"no public key {office.keys[2]} in ") as caught,
        signing.signer(away, " ".join(office.keys)),
    ):
        pass
    assert "gpg --export" in caught.value.solution
    away.public_keys.write_text("nonsense")
    with pytest.raises(SigningError, match="holds no public keys"):
        signing.signer(away, office.keys[0]).__enter__()


def test_public_halves_come_out_as_with_the_key_at_hand(away, office, monkeypatch):
    keys = " ".join(office.keys[:2])
    made = [path.read_bytes() for path in signing.export_public_key(away, keys).paths]
    near = at_hand(monkeypatch, office, away)
    assert made == [path.read_bytes() for path in signing.export_public_key(near, keys).paths]


def test_what_stays_here_asks_nobody(away, keyed, office):
    with signing.local_signer(away, office.keys[0]) as key:
        assert key.is_development
    with signing.local_signer(keyed, "") as key:
        assert key.is_development


def test_a_batch_is_kept_once_and_a_killed_one_is_none(tmp_path):
    folder = Folder(tmp_path)
    (folder.answers / ".part").mkdir(parents=True)
    (folder.answers / ".part" / "old").write_text("half")
    for _ in range(2):
        folder.add({"a": b"1", "b": b"2"})
    [batch] = folder.answers.iterdir()
    assert {path.name for path in batch.iterdir()} == {"a", "b"}


def test_script_is_where_it_is_called():
    assert elsewhere.ANSWER_RPM.is_file()


def test_an_old_key_introduces_the_new_one(away, office, tmp_path):
    """Its public half has to be in the file too: nothing else here could check it."""
    new, old = office.keys[0], office.keys[2]
    [key, *_] = signing.export_public_key(away, new).paths
    introduction = tmp_path / "introduction.sig"
    words = ("--local-user", old, "--detach-sign", "--output", introduction, key)
    office.gpg("--faked-system-time", f"{EPOCH}!", *words)
    with pytest.raises(SigningError, match="introduces another key"):
        signing.export_public_key(away, new, introduction)
    office.export(away.public_keys, *office.keys)
    made = signing.export_public_key(away, new, introduction).paths
    assert made[-1].read_bytes() == introduction.read_bytes()


@pytest.mark.parametrize(
    ("body", "problem"),
    [("sys.exit(2)", "is not accepted by gpgv"), ("", "is not one signature")],
)
def test_gpgv_that_says_something_else(away, office, tmp_path, fake_program, body, problem):
    file = tmp_path / "file"
    file.write_text("x\n")
    for error in (WaitingError, SigningError):
        with signing.signer(away, office.keys[0]) as key, pytest.raises(error) as caught:
            key.sign(file, tmp_path / "far", epoch=EPOCH)
        answer(office, away)
        fake_program("gpgv", body)
    assert problem in caught.value.reason


@pytest.mark.parametrize(
    ("place", "label"),
    [
        (".root.new/MANIFEST", "root/MANIFEST"),
        ("sources/.root.new/SHA256SUM", "sources/root/SHA256SUM"),
        ("SHA256SUM", "SHA256SUM"),
        ("tmp/inputs-x1y2/index", "index"),
        ("../elsewhere/file", "file"),
    ],
)
def test_what_the_table_says(away, tmp_path, place, label):
    asked = elsewhere.Elsewhere(Folder(away.signatures), tmp_path)
    assert asked.label((away.build / place).resolve()) == label
