import hashlib
import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core import receipt
from buildchain.core.errors import CommandError, ContentError
from buildchain.core.parts import Part
from buildchain.core.receipt import Made
from buildchain.medium import iso
from buildchain.project.model import Version
from buildchain.signatures import signing
from tests.unit import fakes

EPOCH = 1700000000
RELEASE = Version(2, 8, 0, "")


@pytest.mark.parametrize(
    ("version", "commit", "development_key", "development"),
    [
        (RELEASE, "2.8.0-0-gabc", False, "0"),
        (Version(2, 8, 0, "dev"), "2.8.0-0-gabc", False, "1"),
        (RELEASE, "2.8.0-0-gabc-dirty", False, "1"),
        (RELEASE, "2.8.0-0-gabc", True, "1"),
    ],
)
def test_product(version, commit, development_key, development):
    text = iso.product("MetalK8s", version, "2.8.0-x", commit, development_key=development_key)
    assert text.splitlines() == [
        "NAME=MetalK8s",
        f"VERSION={version.full}",
        "SHORT_VERSION=2.8",
        "BUILD_VERSION=2.8.0-x",
        f"GIT={commit}",
        f"DEVELOPMENT_RELEASE={development}",
        f"DEVELOPMENT_KEY={int(development_key)}",
        "ARCHIVE_LAYOUT_VERSION=1",
    ]


def test_volume_id():
    assert iso.volume_id("MetalK8s", RELEASE) == "MetalK8s 2.8.0"
    with pytest.raises(ContentError, match="more than 32 characters") as caught:
        iso.volume_id("a" * 16, Version(1000, 1000, 1000, "release-candidate"))
    assert "PROJECT_NAME" in caught.value.solution


NAMES = st.from_regex(r"[A-Za-z0-9._ +-]{1,20}", fullmatch=True)


@given(st.dictionaries(NAMES, st.binary(max_size=64).map(lambda b: hashlib.sha256(b).hexdigest())))
def test_checksum_lines_round_trip(digests):
    text = iso.checksum_lines(digests)
    assert {line[66:]: line[:64] for line in text.splitlines()} == digests
    assert [line[66:] for line in text.splitlines()] == sorted(digests)
    assert iso.checksum_lines(dict(reversed(digests.items()))) == text


def test_checksum_lines_are_what_sha256sum_reads(tmp_path):
    for name in ("b", "a b"):
        (tmp_path / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("b", "a b")}
    (tmp_path / "SUM").write_text(iso.checksum_lines(digests))
    subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "SUM"], cwd=tmp_path, check=True)


def medium(layout):
    return iso.Medium("Demo", RELEASE, layout.iso_root, layout.iso)


def make(layout, step, files, modes=None):
    """Make outputs of a step with their receipt."""
    for name, text in files.items():
        receipt.write_whole(layout.build / name, text, (modes or {}).get(name, 0o644))
    path = layout.receipt(step)
    receipt.write(path, layout.build, Made(tuple(layout.build / name for name in files)))
    return path


def tree(root):
    return {
        path.relative_to(root).as_posix(): f"{path.stat().st_mode & 0o777:o}"
        for path in receipt.files([root])
    }


def test_populate_takes_what_was_declared_and_nothing_else(keyed, recorded):
    layout = keyed
    one = make(layout, "_one", {"images/a/1/m.json": "m", "images/a/1/blob": "b", "other/x": "x"})
    two = make(layout, "_two", {"product.txt": "p"})
    three = make(
        layout, "_three", {"salt/setup.sh": "s", "salt/state": "t"},
        {"salt/setup.sh": 0o700, "salt/state": 0o600},
    )  # fmt: skip
    (layout.build / "images/a/1/stale").write_text("never built by this run")
    (layout.iso_root / "old").mkdir(parents=True)
    with signing.signer(layout, "") as signer:
        made = iso.populate(
            layout,
            medium(layout),
            [
                Part(one, layout.images, "images"),
                Part(two, layout.product, "product.txt"),
                Part(three, layout.build / "salt", "."),
            ],
            signer,
            EPOCH,
        )
    assert tree(layout.iso_root) == {
        "MANIFEST": "644",
        "MANIFEST.sig": "644",
        "SHA256SUM": "644",
        "SHA256SUM.sig": "644",
        "images/a/1/blob": "644",
        "images/a/1/m.json": "644",
        "product.txt": "644",
        "setup.sh": "755",
        "state": "644",
    }
    subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "SHA256SUM"],
                   cwd=layout.iso_root, check=True)  # fmt: skip
    assert (layout.iso_root / "product.txt").samefile(layout.product)
    assert made.paths == (layout.iso_root,)
    for path, digest in made.digests.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_content_decides_what_is_linked(keyed):
    """Not what was linked before it came here: with one mode it is one file, with two it is two."""
    layout = keyed
    files = {"salt/a": "same", "salt/b": "same", "salt/run": "same", "salt/c": "other"}
    step = make(layout, "_one", files, {"salt/run": 0o755, "salt/b": 0o600})
    (layout.build / "salt/run").unlink()
    (layout.build / "salt/run").hardlink_to(layout.build / "salt/a")
    with signing.signer(layout, "") as signer:
        parts = [Part(step, layout.build / "salt", ".")]
        iso.populate(layout, medium(layout), parts, signer, EPOCH)
    root = layout.iso_root
    assert (root / "a").samefile(root / "b")
    assert not (root / "a").samefile(root / "run")
    modes = tree(root)
    assert [modes[name] for name in ("a", "b", "c", "run")] == ["644", "644", "644", "755"]


def test_modes_on_the_medium_do_not_depend_on_the_umask(keyed):
    part = Part(make(keyed, "_two", {"salt/a/b": "p"}), keyed.build / "salt", "salt")
    modes = []
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            with signing.signer(keyed, "") as signer:
                iso.populate(keyed, medium(keyed), [part], signer, EPOCH)
        finally:
            os.umask(before)
        paths = sorted(keyed.iso_root.rglob("*"))
        modes.append([f"{path.name} {path.stat().st_mode & 0o777:o}" for path in paths])
    assert modes[0] == modes[1]


def test_two_files_for_one_place(keyed):
    one = make(keyed, "_one", {"a/x": "1"})
    two = make(keyed, "_two", {"b/x": "2"})
    with (
        signing.signer(keyed, "") as signer,
        pytest.raises(ContentError, match="two files claim the path x on the ISO"),
    ):
        iso.populate(
            keyed,
            medium(keyed),
            [Part(one, keyed.build / "a", "."), Part(two, keyed.build / "b", ".")],
            signer,
            EPOCH,
        )
    assert not keyed.iso_root.exists()


@pytest.fixture
def rooted(layout):
    """Return a layout with a small ISO tree."""
    for name in ("product.txt", "images/a/1/manifest.json", "a folder/Ünïcode.txt"):
        receipt.write_whole(layout.iso_root / name, name * 10)
    return layout


def build(layout):
    return iso.build(medium(layout), "xorrisofs", "Demo 1.0", EPOCH)


def test_build(rooted, fake_program, recorded):
    fake_program("xorrisofs", fakes.mkisofs(), site=True)
    made = build(rooted)
    assert made.paths == (rooted.iso,)
    assert rooted.iso.stat().st_size > 30_000
    (_, call) = fake_program.records("xorrisofs")
    assert "--set_all_file_dates" in call["argv"]
    assert call["env"]["SOURCE_DATE_EPOCH"] == str(EPOCH)
    assert [(p.subject, p.done, p.total) for p in recorded.progress] == [
        ("writing the ISO", 50, 100)
    ]
    assert [p.name for p in rooted.build.iterdir() if p.name.startswith(".")] == []


def test_a_tool_that_records_the_clock_is_told(rooted, fake_program, recorded):
    fake_program("xorrisofs", fakes.mkisofs(version="genisoimage 1.1.11"), site=True)
    build(rooted)
    assert "--set_all_file_dates" not in fake_program.calls("xorrisofs")[-1]
    assert any("cannot be reproduced" in note for note in recorded.notes)


def test_a_file_that_is_not_on_the_image(rooted, fake_program):
    fake_program("xorrisofs", fakes.mkisofs(damage="product.txt"), site=True)
    rooted.iso.write_text("the previous ISO")
    with pytest.raises(ContentError, match=r"does not match its tree: /product\.txt"):
        build(rooted)
    assert rooted.iso.read_text() == "the previous ISO"
    assert [p.name for p in rooted.build.iterdir() if p.name.startswith(".")] == []


def test_a_tool_that_fails_leaves_the_previous_iso(rooted, fake_program):
    fake_program("xorrisofs", "if '--version' not in argv: sys.exit(3)")
    rooted.iso.write_text("the previous ISO")
    with pytest.raises(CommandError):
        build(rooted)
    assert rooted.iso.read_text() == "the previous ISO"


def test_digest_is_checked_as_the_user_will(keyed, require):
    require("gpgv")
    signing.export_public_key(keyed, "")
    keyed.iso.write_text("iso")
    receipt.write(keyed.receipt("_iso_build"), keyed.build, Made((keyed.iso,)))
    with signing.signer(keyed, "") as signer:
        made = iso.digest(keyed, medium(keyed), keyed.receipt("_iso_build"), signer, EPOCH)
    checksums, signature = made.paths
    assert checksums.read_text() == f"{hashlib.sha256(b'iso').hexdigest()}  demo.iso\n"
    subprocess.run(["gpgv", "--keyring", keyed.keys / "metalk8s.gpg", signature, checksums],
                   check=True, capture_output=True)  # fmt: skip


def test_digest_with_a_foreign_public_key(keyed, require, tmp_path):
    require("gpgv")
    signing.export_public_key(keyed, "")
    keyed.iso.write_text("iso")
    receipt.write(keyed.receipt("_iso_build"), keyed.build, Made((keyed.iso,)))
    shutil.copy(keyed.iso, keyed.keys / "metalk8s.gpg")
    with signing.signer(keyed, "") as signer, pytest.raises(CommandError, match="gpgv failed"):
        iso.digest(keyed, medium(keyed), keyed.receipt("_iso_build"), signer, EPOCH)


def test_write_product(layout):
    assert iso.write_product(layout, "x\n").paths == (layout.product,)
    assert layout.product.read_text() == "x\n"
