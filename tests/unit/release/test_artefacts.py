"""The folder of a release: whole or as before, and checked by gpgv and sha256sum alone."""

import dataclasses
import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from buildchain.core.errors import ContentError
from buildchain.release import artefacts
from buildchain.release.artefacts import Release
from buildchain.signatures import signing
from tests.unit import fakes
from tests.unit.mounted import complete, listed

EPOCH = 1700000000
RELEASE = Release("Demo", "2.4.0", "a" * 40, EPOCH, "# Demo 2.4.0\n", {"accepts": "low", "open": 0})
FILES = {
    "demo-2.4.0-changelog.md": "changelog",
    "demo-2.4.0-documents.tar.gz": "documents",
    "demo-2.4.0-inputs.tar": "inputs",
    "demo-2.4.0-provenance.json": "provenance",
    "demo-2.4.0-provenance.json.sig": "signature",
    "demo-2.4.0-sources.iso": "sources",
    "demo-2.4.0.cdx.json": "sbom",
    "demo-2.4.0.iso": "iso",
    "demo-2.4.0.iso.blocks": "blocks",
    "demo-2.4.0.iso.blocks.sig": "signature",
    "demo-2.4.0.spdx.json": "sbom",
    "metalk8s.gpg": "key",
}
LISTS = {"release.json", "SHA256SUM", "SHA256SUM.sig"}


def build(layout):
    """Leave what a build leaves."""
    for path in (
        *(layout.iso, layout.sources_iso, layout.inputs),
        *(layout.iso.with_name(f"{layout.iso.name}.blocks{end}") for end in ("", ".sig")),
        *(layout.iso_root / "sbom" / name for name in ("spdx.json", "cyclonedx.json")),
        *(layout.build / f"provenance.json{end}" for end in ("", ".sig")),
        *(layout.documents / name for name in ("LICENSE", "docs/README.md", "docs/a/b.md")),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {path.name}\n")
    return layout


@pytest.fixture
def made(keyed, require):
    require("gpg")
    signing.export_public_key(keyed, "")
    return build(keyed)


def assemble(layout, release=RELEASE, key=""):
    with signing.signer(layout, key) as signer:
        return artefacts.assemble(layout, release, signer)


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def verify(folder, keys, elsewhere):
    """Check a release as who receives it does: with two programs and nothing else."""
    there = shutil.copytree(folder, elsewhere)
    rings = " ".join(f"--keyring ./{key}" for key in keys)
    script = f"gpgv {rings} SHA256SUM.sig SHA256SUM && sha256sum --strict -c SHA256SUM"
    path = os.environ["PATH"]
    return subprocess.run(
        ["sh", "-c", script], cwd=there, check=False, capture_output=True, text=True,
        env={"PATH": path, "HOME": "/nonexistent"},
    )  # fmt: skip


def test_the_whole_folder(made, tmp_path, require):
    require("gpgv")
    folder = assemble(made)
    assert folder == made.build / "release"
    assert {path.name for path in folder.iterdir()} == {*FILES, *LISTS}
    result = verify(folder, ["metalk8s.gpg"], tmp_path / "elsewhere")
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.splitlines()) == {f"{n}: OK" for n in {*FILES, "release.json"}}
    names = [line[66:] for line in (folder / "SHA256SUM").read_text().splitlines()]
    assert names == sorted(names)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("file", [*FILES, "release.json"])
def test_a_changed_file_is_found(made, tmp_path, file):
    folder = assemble(made)
    path = folder / file
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    # The ring may be what was changed: it has to come another way.
    shutil.copy(made.keys / "metalk8s.gpg", folder / "ring.gpg")
    result = verify(folder, ["ring.gpg"], tmp_path / "elsewhere")
    assert result.returncode != 0
    assert f"{file}: FAILED" in result.stdout


def test_the_description(made):
    document = json.loads((assemble(made) / "release.json").read_text())
    rows = document.pop("artefacts")
    assert document == {
        "schema": 1,
        "name": "Demo",
        "version": "2.4.0",
        "commit": "a" * 40,
        "date": EPOCH,
        "vulnerabilities": {"accepts": "low", "open": 0},
    }
    assert {row["file"]: row["kind"] for row in rows} == FILES
    iso = next(row for row in rows if row["kind"] == "iso")
    assert iso["size"] == made.iso.stat().st_size
    assert len(iso["sha256"]) == 64


def test_large_files_are_linked(made):
    folder = assemble(made)
    for file, source in (("demo-2.4.0.iso", made.iso), ("demo-2.4.0-inputs.tar", made.inputs)):
        assert (folder / file).samefile(source)


def test_same_inputs_same_bytes(made, tmp_path, monkeypatch):
    one = contents_of(assemble(made))
    other = dataclasses.replace(made, root=tmp_path / "else", build=tmp_path / "else" / "build")
    shutil.copytree(made.build, other.build)
    shutil.rmtree(other.release)
    for path in other.build.rglob("*"):
        os.utime(path, (1, 1))
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    old = os.umask(0o077)
    try:
        assert contents_of(assemble(other)) == one
    finally:
        os.umask(old)


def test_documents(made):
    folder = assemble(made)
    packed = (folder / "demo-2.4.0-documents.tar.gz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        f"demo-2.4.0-documents/{name}" for name in ("LICENSE", "docs/README.md", "docs/a/b.md")
    ]
    known = {(m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname) for m in members}
    assert known == {(EPOCH, 0o644, 0, 0, "", "")}


def test_what_was_not_built(made):
    before = contents_of(assemble(made))
    made.inputs.unlink()
    made.sources_iso.unlink()
    with pytest.raises(ContentError, match="2 files of the release were not built") as caught:
        assemble(made, dataclasses.replace(RELEASE, version="2.4.1"))
    for path in (made.inputs, made.sources_iso):
        assert str(path) in caught.value.reason
    assert contents_of(made.release) == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("call", ["link", "write_whole", "_describe", "_sign"])
def test_an_interrupted_run_leaves_what_was_there(made, monkeypatch, call):
    """Whichever of its calls it dies at."""
    before = contents_of(assemble(made))
    later = dataclasses.replace(RELEASE, version="2.4.1")
    real, calls = getattr(artefacts, call), []

    def dies(*arguments):
        calls.append(arguments)
        if len(calls) == dies.at:
            raise Killed
        return real(*arguments)

    monkeypatch.setattr(artefacts, call, dies)
    for at in range(1, 50):
        dies.at = at
        calls.clear()
        try:
            assemble(made, later)
            break
        except Killed:
            assert contents_of(made.release) == before
    assert len(calls) == at - 1 > 0
    assert "demo-2.4.1.iso" in contents_of(made.release)
    assert list(made.temporary.iterdir()) == []


def test_killed_between_the_two_renames(made):
    before = contents_of(assemble(made))
    made.release.rename(made.build / ".release.old")
    made.inputs.unlink()
    with pytest.raises(ContentError):
        assemble(made)
    assert contents_of(made.release) == before
    shutil.copytree(made.release, made.build / ".release.old")
    assemble(build(made))
    assert contents_of(made.release) == before
    assert not (made.build / ".release.old").exists()


def test_several_keys(made, monkeypatch, tmp_path, require):
    gpg = require("gpg")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    argv = [gpg, "--homedir", home, "--batch", "--quiet"]
    subprocess.run([*argv, "--import", made.development_key], check=True, capture_output=True)
    generate = ["--passphrase", "", "--quick-generate-key", "two", "ed25519", "sign", "never"]
    subprocess.run([*argv, *generate], check=True, capture_output=True)
    shown = subprocess.run(
        [*argv, "--with-colons", "--list-keys"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    keys = [line.split(":")[9] for line in shown if line.startswith("fpr:")]
    monkeypatch.setenv("GNUPGHOME", str(home))
    both = " ".join(keys)
    try:
        introduction = tmp_path / "introduction.sig"
        signing.export_public_key(made, both)
        introduced = [*argv, "--detach-sign", "--output", introduction, made.keys / "metalk8s.gpg"]
        subprocess.run(introduced, check=True, capture_output=True)
        signing.export_public_key(made, both, introduction)
        folder = assemble(made, key=both)
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    second = f"metalk8s-{keys[1][-16:]}.gpg"
    assert {path.name for path in folder.iterdir()} == {
        *FILES, *LISTS, second, "metalk8s.gpg.sig",
    }  # fmt: skip
    assert verify(folder, ["metalk8s.gpg", second], tmp_path / "one").returncode == 0
    assert verify(folder, ["metalk8s.gpg"], tmp_path / "two").returncode != 0, "each has signed"


def medium(root, version, **files):
    """Write the tree of a medium."""
    documents = complete()
    documents |= {path.replace("_", "."): text.encode() for path, text in files.items()}
    for path, content in listed(documents, version=version).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def test_what_is_different_from_the_release_before(made, tmp_path, fake_program):
    mkisofs = fake_program("mkisofs", fakes.mkisofs(), site=True)
    for version, output in (("2.3.0", tmp_path / "old.iso"), ("2.4.0", made.iso)):
        tree = medium(tmp_path / version, version, new_txt=version)
        output.unlink(missing_ok=True)
        argv = [mkisofs, "-V", "X", "-output", output, tree]
        subprocess.run(argv, check=True, capture_output=True)
    release = dataclasses.replace(RELEASE, previous=tmp_path / "old.iso")
    folder = assemble(made, release)
    found = json.loads((folder / "demo-2.4.0-difference.json").read_text())
    assert [change["name"] for change in found["files"]] == ["new.txt"]
    assert "Demo 2.3.0" in (folder / "demo-2.4.0-difference.html").read_text()
    kinds = {row["file"]: row["kind"] for row in read(folder)["artefacts"]}
    assert kinds["demo-2.4.0-difference.html"] == "difference"
    shutil.move(tmp_path / "old.iso", tmp_path / "moved.iso")
    again = assemble(made, dataclasses.replace(release, previous=tmp_path / "moved.iso"))
    assert json.loads((again / "demo-2.4.0-difference.json").read_text()) == found
    assert not any(str(tmp_path).encode() in text for text in contents_of(again).values())


def read(folder):
    return json.loads((folder / "release.json").read_text())


def test_without_a_release_before_it_is_said(made, recorded):
    assemble(made)
    assert "--previous names none" in "\n".join(recorded.notes)
