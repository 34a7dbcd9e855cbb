"""An APT repository, signed: made new beside the old one, then put in its place.

Programs: ``apt-ftparchive``, ``gzip`` through Python. On disk: ``dists/<suite>`` with
``InRelease``. Dates are given, so equal packages give equal metadata.
"""

from __future__ import annotations

import email.utils
import gzip
from collections.abc import Iterable
from pathlib import Path

from buildchain.core import process
from buildchain.core.files import replaced
from buildchain.core.receipt import write_whole
from buildchain.signatures.signing import Signer
from buildchain.store.blobs import link

COMPONENT = "main"


def make_deb_repository(
    folder: Path,
    packages: Iterable[Path],
    signer: Signer,
    *,
    suite: str,
    architecture: str,
    epoch: int,
) -> Path:
    """Make a signed APT repository of the given ``.deb`` files."""
    with replaced(folder) as fresh:
        pool = fresh / "pool" / COMPONENT
        for package in packages:
            link(package, pool / package.name)
        index = process.run(argv_for_packages("pool"), cwd=fresh)
        binary = fresh / "dists" / suite / COMPONENT / f"binary-{architecture}"
        write_whole(binary / "Packages", index)
        # mtime and name stay out of the header: equal content, equal bytes.
        write_whole(binary / "Packages.gz", gzip.compress(index.encode(), mtime=0))
        argv = argv_for_release(
            f"dists/{suite}", suite=suite, architecture=architecture, label="MetalK8s", epoch=epoch
        )
        release = fresh / "dists" / suite / "Release"
        write_whole(release, process.run(argv, cwd=fresh))
        places = {"clear": "InRelease", "armored": "Release.gpg"}
        outputs = {kind: release.with_name(name) for kind, name in places.items()}
        signer.sign_forms(release, outputs, epoch=epoch)
    return folder


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
