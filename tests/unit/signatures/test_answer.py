"""There and back: the request, sign.sh with gpg alone, and what is accepted of what comes back."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import SigningError, WaitingError
from buildchain.signatures import answer, parcel, request, sign, signing
from buildchain.signatures.folder import Folder
from tests.unit.signatures.conftest import EPOCH

TEXTS = {"Release": "clear", "repomd.xml": "armored", "MANIFEST": "detached"}
STEM = "demo-1.0-signing-request"


def ask(layout, keys, folder):
    """Be a build that wants some signatures; return what it got, if it got all."""
    made = {}
    with signing.signer(layout, keys) as key:
        for name, kind in TEXTS.items():
            file = folder / name
            file.write_text(f"{name}\n")
            with contextlib.suppress(WaitingError):
                by_all = kind == "detached"
                key.sign(file, folder / f"{name}.sig", epoch=EPOCH, kind=kind, by_all=by_all)
                made[name] = (folder / f"{name}.sig").read_bytes()
    return made


@pytest.fixture
def asked(away, office, tmp_path):
    """Return a build that waits, its request, and what imports an answer to it."""
    keys = " ".join(office.keys[:2])
    assert ask(away, keys, tmp_path) == {}
    tar = tmp_path / "request.tar"
    request.write(Folder(away.signatures), tar, STEM)

    def accept(*answers):
        with signing.signer(away, keys) as key:
            return answer.accept(key.elsewhere, answers)

    return tar, accept


def sign_sh(tar, folder, home, name="answer.tar", **env):
    """Run sign.sh of a request as machine B does: no checkout, its own gpg."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", tar, "-C", folder], check=True)
    return subprocess.run(
        ["sh", f"{STEM}/sign.sh", name], cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "GNUPGHOME": str(home), **env},
    )  # fmt: skip


@pytest.fixture
def one_home(office, tmp_path):
    """Provide homes that have one of the keys each."""
    with contextlib.ExitStack() as stack:

        def make(key):
            # The agent's socket has a short path.
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
            kill = ["gpgconf", "--homedir", folder, "--kill", "all"]
            stack.callback(lambda: subprocess.run(kill, check=True))
            secret = office.gpg("--export-secret-keys", key)
            argv = ["gpg", "--homedir", folder, "--batch", "--import"]
            subprocess.run(argv, input=secret, check=True, capture_output=True)
            return folder

        yield make


def batches(layout):
    folder = Folder(layout.signatures).answers
    return sorted(folder.rglob("*")) if folder.exists() else []


def test_signed_with_gpg_alone(asked, away, office, tmp_path, monkeypatch):
    tar, accept = asked
    done = sign_sh(tar, tmp_path / "b", office.home)
    assert done.returncode == 0, done.stderr
    assert "MANIFEST, by " in done.stdout
    assert "4 signatures are in " in done.stdout
    assert accept(tmp_path / "b" / "answer.tar") == 4
    keys = " ".join(office.keys[:2])
    far = ask(away, keys, tmp_path)
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    assert far == ask(dataclasses.replace(away, public_keys=None), keys, tmp_path)
    assert len(far) == 3


def test_the_request_is_the_same_each_time(asked, away, tmp_path):
    tar, _ = asked
    request.write(Folder(away.signatures), tmp_path / "again.tar", STEM)
    assert tar.read_bytes() == (tmp_path / "again.tar").read_bytes()
    with tarfile.open(tar) as archive:
        assert {m.name.split("/")[1] for m in archive} == {"table", "files", "sign.sh"}
        assert [m.mode for m in archive if m.name.endswith(".sh")] == [0o755]
        assert all((m.uid, m.gid, m.mtime) == (0, 0, 0) for m in archive)


def test_signed_in_a_checkout(asked, office, tmp_path, monkeypatch):
    tar, accept = asked
    by_script = sign_sh(tar, tmp_path / "b", office.home)
    assert by_script.returncode == 0
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    assert sign.sign(tar, tmp_path / "answer.tar") == 4
    packed = parcel.unpack(tmp_path / "answer.tar")
    assert packed == parcel.unpack(tmp_path / "b" / "answer.tar")
    assert accept(tmp_path / "answer.tar") == 4


def test_each_holder_signs_for_himself(asked, away, office, one_home, tmp_path, monkeypatch):
    tar, accept = asked
    first = sign_sh(tar, tmp_path / "b", one_home(office.keys[0]))
    assert f"left out, the key is not here: {office.keys[1]}" in first.stdout
    monkeypatch.setenv("GNUPGHOME", one_home(office.keys[1]))
    assert sign.sign(tar, tmp_path / "second.tar") == 1
    with pytest.raises(SigningError, match=f"missing: MANIFEST, by {office.keys[1]}"):
        accept(tmp_path / "b" / "answer.tar")
    assert batches(away) == []
    assert accept(tmp_path / "b" / "answer.tar", tmp_path / "second.tar") == 4
    assert len(ask(away, " ".join(office.keys[:2]), tmp_path)) == 3


def test_a_key_that_nobody_has(asked, office, one_home, tmp_path, monkeypatch):
    tar, _ = asked
    home = one_home(office.keys[2])
    done = sign_sh(tar, tmp_path / "b", home)
    assert done.returncode == 1
    assert "none of the keys of the table is here" in done.stderr
    assert not (tmp_path / "b" / "answer.tar").exists()
    monkeypatch.setenv("GNUPGHOME", home)
    with pytest.raises(SigningError, match=r"no secret key .*, .* in"):
        sign.sign(tar, tmp_path / "answer.tar")


def test_gpg_that_does_not_sign(asked, office, tmp_path, monkeypatch, fake_program):
    tar, _ = asked
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    fake_program("gpg", "sys.exit(2 if '--output' in argv else 0)")
    done = sign_sh(tar, tmp_path / "b", office.home)
    assert (done.returncode, "gpg did not sign" in done.stderr) == (1, True)
    with pytest.raises(SigningError, match="cannot sign"):
        sign.sign(tar, tmp_path / "answer.tar")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: next(folder.glob("files/*")).write_text("other"), "is not what the table"),
        (lambda folder: (folder / "table").unlink(), "there is no table"),
        (
            lambda folder: (folder / "table").write_text(
                (folder / "table").read_text().replace(" clear ", " inline ")
            ),
            'asks for "inline"',
        ),
    ],
)
def test_a_request_that_was_changed_on_the_way(asked, office, tmp_path, damage, message):
    tar, _ = asked
    folder = tmp_path / "b"
    sign_sh(tar, folder, office.home, name="first.tar")
    damage(folder / STEM)
    done = subprocess.run(
        ["sh", folder / STEM / "sign.sh", "answer.tar"], cwd=folder, capture_output=True,
        text=True, check=False, env={"PATH": os.environ["PATH"], "GNUPGHOME": str(office.home)},
    )  # fmt: skip
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert not (folder / "answer.tar").exists()
    members = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / STEM).rglob("*")
        if path.is_file() and "signatures" not in path.parts
    }
    parcel.pack(tmp_path / "changed.tar", members)
    with pytest.raises(SigningError, match=r"not what its table says|no request|asks for no"):
        request.read(tmp_path / "changed.tar")


def test_sign_sh_says_how_it_is_called(asked, tmp_path):
    tar, _ = asked
    subprocess.run(["tar", "-xf", tar, "-C", tmp_path], check=True)
    argv = ["sh", tmp_path / STEM / "sign.sh"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, "call it so" in done.stderr) == (1, True)


def first(members):
    return sorted(members)[0]


def without(members):
    return {name: content for name, content in members.items() if name != first(members)}


def swapped(members):
    one, other, *_ = sorted(name for name in members if ".detached." in name)
    return {**members, one: members[other], other: members[one]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without, "nothing was imported; missing: "),
        (lambda m: {**m, "signatures/x": b""}, "nobody asked for 'signatures/x'"),
        (lambda m: {**m, "x": b""}, "nobody asked for 'x'"),
        (lambda m: {**m, first(m): b"nonsense"}, "is not one signature"),
        (lambda m: {**m, first(m): m[first(m)][:-40]}, "is no armour"),
        (swapped, "is by "),
        (lambda _: {}, "missing: MANIFEST"),
    ],
)
def test_an_answer_that_is_not_the_one(asked, away, office, tmp_path, monkeypatch, change, problem):
    tar, accept = asked
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    sign.sign(tar, tmp_path / "good.tar")
    members = parcel.unpack(tmp_path / "good.tar")
    parcel.pack(tmp_path / "bad.tar", change(members))
    with pytest.raises(SigningError) as caught:
        accept(tmp_path / "bad.tar")
    assert problem in caught.value.reason
    assert batches(away) == []
    assert accept(tmp_path / "good.tar") == 4


def signing_with(office, tar, folder, **changes):
    """Answer a request with something else than it asks for."""
    asked, members = request.read(tar), {}
    for one in asked.wanted:
        wanted = dataclasses.replace(one, **changes)
        (folder / "file").write_bytes(asked.files.get(wanted.sha256, b"other"))
        form = {"detached": [], "armored": ["--armor"], "clear": []}[wanted.kind]
        form += ["--clear-sign" if wanted.kind == "clear" else "--detach-sign"]
        office.gpg("--yes", "--faked-system-time", f"{wanted.date}!", "--digest-algo", "SHA256",
                   "--local-user", wanted.key, "--output", folder / "out", *form,
                   folder / "file")  # fmt: skip
        members[f"signatures/{one.identity}"] = (folder / "out").read_bytes()
    parcel.pack(folder / "answer.tar", members)
    return folder / "answer.tar"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"key": 2}, "is by a key that is none of SIGNING_KEY"),
        ({"key": 1}, "is by {1}"),
        ({"date": EPOCH + 1}, "is dated 2025-06-15 (1750000001), not"),
        ({"sha256": "0" * 64}, "is of other bytes"),
    ],
)
def test_signatures_of_something_else(asked, away, office, tmp_path, changes, problem):
    tar, accept = asked
    if "key" in changes:
        changes = {"key": office.keys[changes["key"]]}
    with pytest.raises(SigningError) as caught:
        accept(signing_with(office, tar, tmp_path, **changes))
    assert problem.format(*office.keys) in caught.value.reason
    assert "Release" in caught.value.reason, "all are named"
    assert batches(away) == []


def member(name, kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize(
    ("strange", "problem"),
    [
        (member("/etc/passwd"), "leads elsewhere"),
        (member("signatures/../../x"), "leads elsewhere"),
        (member("signatures/x", tarfile.SYMTYPE, "/etc/passwd"), "neither a file nor a folder"),
        (member("signatures/x", tarfile.LNKTYPE, "signatures/y"), "neither a file nor a folder"),
        (member("signatures/x", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (member("signatures/x", tarfile.CHRTYPE), "neither a file nor a folder"),
    ],
)
def test_strange_members(asked, away, tmp_path, strange, problem):
    _, accept = asked
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(member("signatures", tarfile.DIRTYPE))
        archive.addfile(strange)
    with pytest.raises(SigningError, match=problem) as caught:
        accept(tmp_path / "bad.tar")
    assert repr(strange.name) in caught.value.reason
    assert batches(away) == []


def test_twice_too_large_and_too_many(tmp_path, monkeypatch):
    path = tmp_path / "bad.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a", "./a"):
            archive.addfile(member(name))
    with pytest.raises(SigningError, match="is there twice"):
        parcel.unpack(path)
    big = member("a")
    big.size = parcel.LARGEST + 1
    path.write_bytes(big.tobuf())
    os.truncate(path, 2 * big.size)
    with pytest.raises(SigningError, match="is larger than 64 MiB"):
        parcel.unpack(path)
    with tarfile.open(path, "w") as archive:
        for number in range(parcel.MOST + 1):
            archive.addfile(member(str(number)))
    with pytest.raises(SigningError, match="more than 10000 members"):
        parcel.unpack(path)


@pytest.mark.parametrize("length", [0, 100, 512, 700, 1024, 1500])
def test_an_answer_that_is_cut_off(asked, away, office, tmp_path, monkeypatch, length):
    tar, accept = asked
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    sign.sign(tar, tmp_path / "good.tar")
    (tmp_path / "bad.tar").write_bytes((tmp_path / "good.tar").read_bytes()[:length])
    with pytest.raises(SigningError, match=r"cannot be read as a tar|missing: "):
        accept(tmp_path / "bad.tar")
    assert batches(away) == []


def test_an_answer_that_is_not_there(asked, tmp_path):
    _, accept = asked
    with pytest.raises(SigningError, match="cannot be read as a tar"):
        accept(tmp_path / "none.tar")


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?", fullmatch=True),
                       st.binary(max_size=600), max_size=5))  # fmt: skip
def test_a_parcel_arrives(members):
    with tempfile.TemporaryDirectory() as folder:
        parcel.pack(Path(folder, "a.tar"), members)
        assert parcel.unpack(Path(folder, "a.tar")) == members


@given(st.binary(max_size=2000))
def test_anything_else_is_refused_in_words(data):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.tar").write_bytes(data)
        with contextlib.suppress(SigningError):
            assert isinstance(parcel.unpack(Path(folder, "a.tar")), dict)


def test_nothing_is_wanted(away, office, tmp_path):
    folder = Folder(away.signatures)
    with pytest.raises(SigningError, match="no step waits"):
        request.write(folder, tmp_path / "x.tar", STEM)
    with (
        signing.signer(away, office.keys[0]) as key,
        pytest.raises(SigningError, match="no step waits"),
    ):
        answer.accept(key.elsewhere, [tmp_path / "x.tar"])


KILLED = """
import os, pathlib, sys
from buildchain.signatures import signing
from buildchain.core.layout import Layout
from buildchain.signatures import answer
root, ring, keys, tar = sys.argv[1:]
root = pathlib.Path(root)
layout = Layout(root, root / "build", root / "cache", "demo", pathlib.Path(ring))
with signing.signer(layout, keys) as key:
    answer.accept(key.elsewhere, [pathlib.Path(tar)])
"""


@pytest.mark.parametrize("at", [1, 2, 4])
def test_an_import_that_is_killed_leaves_what_was(
    asked, away, root, office, tmp_path, monkeypatch, fake_program, require, at
):
    tar, accept = asked
    gpgv = require("gpgv")
    Folder(away.signatures).add({"old": b"old"})
    before = batches(away)
    monkeypatch.setenv("GNUPGHOME", str(office.home))
    sign.sign(tar, tmp_path / "good.tar")
    counter = tmp_path / "counter"
    with monkeypatch.context() as patched:
        patched.setenv("TMPDIR", str(tmp_path))
        fake_program(
            "gpgv",
            f"import os, pathlib\ncounter = pathlib.Path({str(counter)!r})\n"
            "number = len(counter.read_text()) if counter.exists() else 0\n"
            "counter.write_text('x' * (number + 1))\n"
            f"if number + 1 == {at}:\n    os.kill(os.getppid(), {int(signal.SIGKILL)})\n"
            f"os.execv({gpgv!r}, ['gpgv', *argv])",
        )
        argv = [sys.executable, "-c", KILLED, away.build.parent, away.public_keys,
                " ".join(office.keys[:2]), tmp_path / "good.tar"]  # fmt: skip
        done = subprocess.run(argv, cwd=root, check=False, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert batches(away) == before
    counter.write_text("x" * 100)
    assert accept(tmp_path / "good.tar") == 4
    assert len(batches(away)) == len(before) + 5
