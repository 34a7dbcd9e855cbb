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
        places = {"clear": "InRelease", "armored": "Release.gpg"}
        outputs = {kind: release.with_name(name) for kind, name in places.items()}
        signer.sign_forms(release, outputs, epoch=epoch)
    return folder


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
    process.run(repository.argv_for_createrepo(folder, epoch=epoch))
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
