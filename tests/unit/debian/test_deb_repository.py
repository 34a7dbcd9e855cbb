"""Argument lists of apt-ftparchive."""

import pytest

from buildchain.debian.deb_repository import argv_for_packages, argv_for_release


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            argv_for_packages("pool"),
            ["apt-ftparchive", "-q", "packages", "pool"],
        ),
        (
            argv_for_release("dists/s", suite="s", architecture="amd64", label="L",
                                        epoch=1700000000),
            ["apt-ftparchive", "-q",
             "-o", "APT::FTPArchive::Release::Origin=L",
             "-o", "APT::FTPArchive::Release::Label=L",
             "-o", "APT::FTPArchive::Release::Suite=s",
             "-o", "APT::FTPArchive::Release::Codename=s",
             "-o", "APT::FTPArchive::Release::Architectures=amd64",
             "-o", "APT::FTPArchive::Release::Components=main",
             "-o", "APT::FTPArchive::Release::Date=Tue, 14 Nov 2023 22:13:20 UTC",
             "-o", "APT::FTPArchive::Release::MD5=false",
             "-o", "APT::FTPArchive::Release::SHA1=false",
             "-o", "APT::FTPArchive::Release::SHA512=false",
             "release", "dists/s"],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected
