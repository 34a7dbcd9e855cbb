"""Package repositories, signed: made new beside the old one, then put in its place.

Programs: ``apt-ftparchive``, ``createrepo_c``, ``rpmsign``, ``gpg``. What is not in the given set
of packages is not in the repository: nothing stale survives.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from buildchain import process
from buildchain.actions.signing import Signer
from buildchain.receipt import write_whole
from buildchain.store.blobs import link
from buildchain.tools import repository


@contextlib.contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Provide an empty folder that takes the place of ``folder`` when all went well."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


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
        pool = fresh / "pool" / repository.COMPONENT
        for package in packages:
            link(package, pool / package.name)
        index = process.run(repository.argv_for_packages("pool"), cwd=fresh)
        binary = fresh / "dists" / suite / repository.COMPONENT / f"binary-{architecture}"
        write_whole(binary / "Packages", index)
        # mtime and name stay out of the header: equal content, equal bytes.
        write_whole(binary / "Packages.gz", gzip.compress(index.encode(), mtime=0))
        argv = repository.argv_for_release(
            f"dists/{suite}", suite=suite, architecture=architecture, label="MetalK8s", epoch=epoch
        )
        release = fresh / "dists" / suite / "Release"
        write_whole(release, process.run(argv, cwd=fresh))
        signer.sign(release, release.with_name("InRelease"), epoch=epoch, kind="clear")
        signer.sign(release, release.with_name("Release.gpg"), epoch=epoch, kind="armored")
    return folder


def make_rpm_repositories(
    folders: Sequence[Path], packages: Iterable[Path], signer: Signer, *, epoch: int
) -> tuple[Path, ...]:
    """Make signed RPM repositories of the same packages, which are copied and signed once.

    The originals stay as they are; the repositories share their files as hard links.
    """
    with contextlib.ExitStack() as stack:
        first, *others = [stack.enter_context(replaced(folder)) for folder in folders]
        for copy in _sign_copies(first, packages, signer, epoch):
            for other in others:
                link(copy, other / copy.name)
        for fresh in (first, *others):
            process.run(repository.argv_for_createrepo(fresh, epoch=epoch))
            metadata = fresh / "repodata" / "repomd.xml"
            signer.sign(metadata, metadata.with_name("repomd.xml.asc"), epoch=epoch, kind="armored")
    return tuple(folders)


def sign_copies(folder: Path, packages: Iterable[Path], signer: Signer, *, epoch: int) -> Path:
    """Fill a folder with signed copies of RPMs; the originals stay as they are."""
    with replaced(folder) as fresh:
        _sign_copies(fresh, packages, signer, epoch)
    return folder


def _sign_copies(
    folder: Path, packages: Iterable[Path], signer: Signer, epoch: int
) -> tuple[Path, ...]:
    copies = tuple(Path(shutil.copy(package, folder)) for package in sorted(packages))
    signer.sign_rpms(copies, epoch=epoch)
    for copy in copies:
        # createrepo_c records when a file was changed.
        os.utime(copy, (epoch, epoch))
    return copies
