"""Argument lists for the metadata of package repositories.

Programs: ``apt-ftparchive``, ``createrepo_c``, ``gzip`` through Python. On disk: ``dists/<suite>``
with ``InRelease``, or ``repodata/``. Dates are given, so equal packages give equal metadata.
"""

from __future__ import annotations

import email.utils
from pathlib import Path

COMPONENT = "main"


def argv_for_packages(pool: str) -> list[str]:
    """Print the ``Packages`` index of a folder, relative to the working directory."""
    return ["apt-ftparchive", "-q", "packages", pool]


def argv_for_release(
    folder: str, *, suite: str, architecture: str, label: str, epoch: int
) -> list[str]:
    """Print the ``Release`` file of a distribution folder."""
    fields = {
        "Origin": label,
        "Label": label,
        "Suite": suite,
        "Codename": suite,
        "Architectures": architecture,
        "Components": COMPONENT,
        "Date": email.utils.formatdate(epoch, usegmt=True).replace("GMT", "UTC"),
    }
    options = [
        word
        for key, value in fields.items()
        for word in ("-o", f"APT::FTPArchive::Release::{key}={value}")
    ]
    # Weak hashes help nobody; SHA256 is what apt checks.
    weak = [
        word
        for name in ("MD5", "SHA1", "SHA512")
        for word in ("-o", f"APT::FTPArchive::Release::{name}=false")
    ]
    return ["apt-ftparchive", "-q", *options, *weak, "release", folder]


def argv_for_createrepo(folder: Path, *, epoch: int) -> list[str | Path]:
    """Write the RPM metadata of a folder."""
    return ["createrepo_c", "--quiet", "--no-database", "--checksum=sha256", "--workers=1",
            f"--revision={epoch}", "--set-timestamp-to-revision", folder]  # fmt: skip
