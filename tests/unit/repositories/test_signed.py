import gzip

import pytest

from buildchain.core.files import replaced
from buildchain.debian.deb_repository import make_deb_repository
from buildchain.medium import package_index
from buildchain.redhat import rpm_repository
from buildchain.signatures import signing
from tests.unit import fakes

EPOCH = 1700000000


def test_replaced_takes_the_place(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "stale").touch()
    with replaced(folder) as fresh:
        (fresh / "new").touch()
        assert (folder / "stale").exists(), "the old one is there until the new one is whole"
    assert [p.name for p in folder.iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_replaced_keeps_the_old_one_on_failure(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(FileNotFoundError), replaced(folder) as fresh:
        (fresh / "new" / "deep").touch()
    assert [p.name for p in folder.iterdir()] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_replaced_forgets_what_a_killed_run_left(tmp_path):
    (tmp_path / ".x.new" / "deep").mkdir(parents=True)
    with replaced(tmp_path / "x") as fresh:
        assert list(fresh.iterdir()) == []


def test_deb_repository(keyed, fake_program, tmp_path):
    fake_program("apt-ftparchive", fakes.FTPARCHIVE)
    for name in ("b_1.deb", "a_1.deb"):
        (tmp_path / name).write_text(name)
    folder = tmp_path / "repository"
    with signing.signer(keyed, "") as signer:
        result = make_deb_repository(
            folder, [tmp_path / "b_1.deb", tmp_path / "a_1.deb"], signer,
            suite="bookworm", architecture="amd64", epoch=EPOCH,
        )  # fmt: skip
    assert result == folder
    suite = folder / "dists" / "bookworm"
    index = (suite / "main" / "binary-amd64" / "Packages").read_text()
    files = [package.file for package in package_index.parse_packages(index)]
    assert files == ["pool/main/a_1.deb", "pool/main/b_1.deb"]
    packed = (suite / "main" / "binary-amd64" / "Packages.gz").read_bytes()
    assert gzip.decompress(packed).decode() == index
    assert packed[4:8] == b"\0\0\0\0"
    assert "main/binary-amd64/Packages.gz" in (suite / "Release").read_text()
    assert "BEGIN PGP SIGNED MESSAGE" in (suite / "InRelease").read_text()
    assert "BEGIN PGP SIGNATURE" in (suite / "Release.gpg").read_text()
    assert (folder / "pool" / "main" / "a_1.deb").samefile(tmp_path / "a_1.deb")


def test_signed_rpms_and_their_repositories_leave_the_originals_alone(
    keyed, fake_program, tmp_path
):
    fake_program("createrepo_c", fakes.CREATEREPO)
    fake_program("rpmsign", "for p in argv:\n    if p.endswith('.rpm'): open(p, 'a').write('+')")
    (tmp_path / "a.rpm").write_text("a")
    folders = [tmp_path / "el8", tmp_path / "el9"]
    with signing.signer(keyed, "") as signer:
        signed = rpm_repository.sign_copies(
            tmp_path / "signed", [tmp_path / "a.rpm"], signer, epoch=EPOCH
        )
        rpm_repository.make_rpm_repositories(folders, signed.iterdir(), signer, epoch=EPOCH)
    assert (tmp_path / "a.rpm").read_text() == "a"
    for folder in folders:
        assert (folder / "a.rpm").read_text() == "a+"
        [packages] = [
            package_index.parse_primary(path.read_bytes())
            for path in folder.glob("repodata/*primary.xml.gz")
        ]
        assert [package.file for package in packages] == ["a.rpm"]
        assert "SIGNATURE" in (folder / "repodata" / "repomd.xml.asc").read_text()
    assert (folders[0] / "a.rpm").samefile(folders[1] / "a.rpm")
