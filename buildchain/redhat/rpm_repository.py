"""RPM repositories, signed: made new beside the old one, then put in its place.

Programs: ``createrepo_c``, ``rpmsign``. On disk: ``repodata/``; dates are given, so equal packages
give equal metadata. What is not in the given set of packages is not in the repository.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from buildchain.core import process
from buildchain.core.files import replaced
from buildchain.signatures.signing import Signer


def make_rpm_repositories(
    folders: Sequence[Path], signed: Iterable[Path], signer: Signer, *, epoch: int
) -> tuple[Path, ...]:
    """Make RPM repositories of the same signed packages, and sign their metadata.

    The repositories share packages and metadata as hard links.
    """
    with contextlib.ExitStack() as stack:
        first, *others = [stack.enter_context(replaced(folder)) for folder in folders]
        for package in signed:
            os.link(package, first / package.name)
        index_rpms(first, signer, epoch=epoch)
        for other in others:
            shutil.copytree(first, other, copy_function=os.link, dirs_exist_ok=True)
    return tuple(folders)


def index_rpms(folder: Path, signer: Signer, *, epoch: int) -> None:
    """Make a folder of packages a repository."""
    process.run(argv_for_createrepo(folder, epoch=epoch))
    metadata = folder / "repodata" / "repomd.xml"
    signer.sign(metadata, metadata.with_name("repomd.xml.asc"), epoch=epoch, kind="armored")


def sign_copies(folder: Path, packages: Iterable[Path], signer: Signer, *, epoch: int) -> Path:
    """Fill a folder with signed copies of RPMs; the originals stay as they are."""
    with replaced(folder) as fresh:
        copies = [Path(shutil.copy(package, fresh)) for package in sorted(packages)]
        signer.sign_rpms(copies, epoch=epoch)
        for copy in copies:
            # createrepo_c records when a file was changed.
            os.utime(copy, (epoch, epoch))
    return folder


def argv_for_createrepo(folder: Path, *, epoch: int) -> list[str | Path]:
    """Write the RPM metadata of a folder."""
    return ["createrepo_c", "--quiet", "--no-database", "--checksum=sha256", "--workers=1",
            f"--revision={epoch}", "--set-timestamp-to-revision", folder]  # fmt: skip
