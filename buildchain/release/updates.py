"""The update packs of a release: from older ones to its ISO, under the ISO's name in the release.

Programs: ``gpg``, ``gpgv``. On disk: ``<project>-<version>-from-<older version>.update``. A pack
has lists of its own for the ISO: that of the release has the digest of the pack, and cannot be in
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from buildchain.core.layout import Layout
from buildchain.core.receipt import write_whole
from buildchain.medium import block_list, iso
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from buildchain.store.blobs import link
from buildchain.updates import make, pack
from buildchain.updates.make import Image, Wish


def name(stem: str, base: str) -> str:
    """Return the name of a pack.

    :param stem: project and version of the release.
    :param base: version that it starts from.
    """
    return f"{stem}-from-{base}{pack.SUFFIX}"


def write(
    layout: Layout, stem: str, bases: Iterable[Image], signer: Signer, folder: Path, *, epoch: int
) -> None:
    """Write a pack for each older release.

    :param epoch: date of the signatures, seconds since 1970.
    :raises ContentError: an ISO is not what its list of blocks says.
    """
    keyrings = signing.keyrings(layout)
    with layout.scratch("updates-") as scratch:
        target = make.read(_named(layout, stem, Path(scratch)), keyrings)
        checksums = target.path.with_name(iso.CHECKSUMS)
        write_whole(checksums, iso.checksum_lines({target.path.name: target.sha256}))
        signature = checksums.with_name(f"{checksums.name}.sig")
        signer.sign(checksums, signature, epoch=epoch, by_all=True)
        for base in bases:
            output = folder / name(stem, base.version)
            make.write(base, target, output, Wish(), keyrings=keyrings, signer=signer, epoch=epoch)


def _named(layout: Layout, stem: str, folder: Path) -> Path:
    """Link the ISO of the build and its list of blocks under their names in the release."""
    image, blocks = folder / f"{stem}.iso", block_list.path_of(layout.iso)
    listed = block_list.path_of(image)
    for source, there in (
        (layout.iso, image),
        (blocks, listed),
        (Path(f"{blocks}.sig"), Path(f"{listed}.sig")),
    ):
        link(source, there)
    return image
