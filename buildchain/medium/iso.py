"""The medium: product.txt, the tree of the ISO, its checksums and signatures, the image.

Programs: ``mkisofs``, ``gpg``. On disk: ``_build/root`` (hard links, nothing else than what was
declared), ``_build/<project>.iso``, and beside it ``SHA256SUM`` with ``SHA256SUM.sig``.
"""

from __future__ import annotations

import datetime
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildchain.core import events, listing, process, receipt
from buildchain.core.errors import ContentError
from buildchain.core.files import replaced
from buildchain.core.layout import Layout
from buildchain.core.listing import Entry
from buildchain.core.parts import Part, placement
from buildchain.core.receipt import Made, write_whole
from buildchain.project.model import Version
from buildchain.signatures import gpg, signing
from buildchain.signatures.signing import Signer
from buildchain.store.blobs import link

PERCENT = re.compile(r"(\d+(?:\.\d+)?)% done")

CHECKSUMS = "SHA256SUM"
VOLUME_ID_LENGTH = 32  # ISO 9660, bytes
NOT_AS_SIGNED = "What verify.sh says above is not as it was signed: build it again, ./doit.sh iso."


@dataclass(frozen=True)
class Medium:
    """A tree and the image made of it; the checksum of the image is beside it.

    :param name: of the product, as its volume id begins.
    """

    name: str
    version: Version
    root: Path
    image: Path

    @property
    def checksums(self) -> Path:
        return self.image.with_name(CHECKSUMS)


def product(name: str, version: Version, build: str, commit: str, *, development_key: bool) -> str:
    """Return ``product.txt`` (spec 12.2.3): no host name, no wall clock.

    :param build: version of the build, which says the commit where that is no release.
    """
    development = bool(version.suffix) or commit.endswith("-dirty") or development_key
    fields = {
        "NAME": name,
        "VERSION": version.full,
        "SHORT_VERSION": version.short,
        "BUILD_VERSION": build,
        "GIT": commit,
        "DEVELOPMENT_RELEASE": "1" if development else "0",
        "DEVELOPMENT_KEY": "1" if development_key else "0",
        "ARCHIVE_LAYOUT_VERSION": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in fields.items())


def write_product(layout: Layout, text: str) -> Made:
    """Write ``product.txt``."""
    write_whole(layout.product, text)
    return Made((layout.product,))


def populate(
    layout: Layout, medium: Medium, parts: Iterable[Part], signer: Signer, epoch: int
) -> Made:
    """Make the tree of a medium out of declared outputs, with a signed list of every file.

    :raises ContentError: two parts want the same path.
    """
    placed: dict[str, str] = {}
    # Equal files are one on the medium. That is for their content to say: what is linked in the
    # build root, and what no more, depends on which steps were executed last.
    once: dict[tuple[str, int], Path] = {}
    with replaced(medium.root) as fresh:
        for target, output in sorted(placement(layout, parts).items()):
            mode = 0o755 if output.mode & 0o100 else 0o644
            if equal := once.get((output.sha256, mode)):
                link(equal, fresh / target)
            else:
                alone = (output.sha256, mode ^ 0o111) not in once
                _place(layout.build / output.path, fresh / target, mode, alone=alone)
                once[output.sha256, mode] = fresh / target
            placed[target] = output.sha256
        checksums = fresh / CHECKSUMS
        write_whole(checksums, checksum_lines(placed))
        signature = _sign(signer, checksums, epoch)
        placed |= {path.name: receipt.sha256(path) for path in (checksums, signature)}
        for folder in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
            # Modes are part of the medium, the caller's umask is not.
            folder.chmod(0o755)
        manifest = fresh / listing.NAME
        write_whole(manifest, manifest_text(medium, fresh, placed))
        _sign(signer, manifest, epoch)
    root = medium.root
    return Made((root,), digests={root / name: digest for name, digest in placed.items()})


def _sign(signer: Signer, file: Path, epoch: int) -> Path:
    """Sign what stands for a medium, by every key."""
    signature = file.with_name(f"{file.name}.sig")
    return signer.sign(file, signature, epoch=epoch, by_all=True)


def _place(source: Path, target: Path, mode: int, *, alone: bool) -> None:
    """Link a file; modes are part of the medium, so a foreign umask must not leak in.

    :param alone: no link to the file may stand on the medium with another mode.
    """
    if alone:
        link(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if stat.S_IMODE(target.stat().st_mode) != mode:
        target.chmod(mode)


def checksum_lines(digests: Mapping[str, str]) -> str:
    """Return the text of a file for ``sha256sum -c``, sorted by name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def manifest_text(medium: Medium, root: Path, digests: Mapping[str, str]) -> str:
    """Return the list of everything on a medium, see :mod:`buildchain.core.listing`.

    :raises ContentError: a path cannot be listed on a line.
    """
    entries = []
    for path in root.rglob("*"):
        name, status = path.relative_to(root).as_posix(), path.stat()
        is_folder = path.is_dir()
        entries.append(
            Entry(
                name,
                listing.NO_DIGEST if is_folder else digests[name],
                listing.FOLDER if is_folder else listing.FILE,
                status.st_mode & 0o7777,
                0 if is_folder else status.st_size,
            )
        )
    return listing.text({"name": medium.name, "version": medium.version.full}, entries)


def verify(medium: Medium, keys: Sequence[Path]) -> None:
    """Check tree and image of a medium as who receives them does.

    :raises ContentError: there is none.
    :raises CommandError: they are not what was signed.
    """
    script = medium.root / "verify.sh"
    missing = [str(path) for path in (script, medium.image) if not path.is_file()]
    if missing:
        raise ContentError(
            f"there is no {' and no '.join(missing)} to verify",
            solution="Build it with ./doit.sh iso; a medium from elsewhere has its own verify.sh.",
        )
    for target in (medium.root, medium.image):
        given = [word for key in keys for word in ("--key", key)]
        argv = ["sh", script, *given, "--signatures", str(len(keys)), target]
        process.run(argv, echo=True, solution=NOT_AS_SIGNED)


def volume_id(name: str, version: Version) -> str:
    """Return the volume id, ``<project> <version>``.

    :raises ContentError: it is longer than ISO 9660 allows.
    """
    text = f"{name} {version.full}"
    if len(text) > VOLUME_ID_LENGTH:
        raise ContentError(
            f"volume id {text!r} has more than {VOLUME_ID_LENGTH} characters",
            solution="Choose a shorter PROJECT_NAME.",
        )
    return text


def build(medium: Medium, binary: str, volume: str, epoch: int) -> Made:
    """Write the image beside the previous one, compare it with the tree, then replace."""
    version = process.run([binary, "--version"])
    reproducible = is_reproducible(version)
    if not reproducible:
        events.note(f"{binary} records the clock: this ISO cannot be reproduced; use xorrisofs")
    medium.image.parent.mkdir(parents=True, exist_ok=True)
    part = medium.image.with_name(f".{medium.image.name}.part")
    part.unlink(missing_ok=True)

    def on_line(line: str) -> None:
        percent = parse_progress(line)
        if percent is not None:
            events.progress("writing the ISO", int(percent), 100, "%")

    argv = argv_for_iso(
        binary, medium.root, part, volume_id=volume, epoch=epoch, reproducible=reproducible
    )
    try:
        process.run(argv, env={"SOURCE_DATE_EPOCH": str(epoch)}, on_line=on_line)
        compare(part, medium.root)
        part.replace(medium.image)
    finally:
        part.unlink(missing_ok=True)
    return Made((medium.image,))


def compare(image: Path, root: Path) -> None:
    """Check with a second implementation that every file of the tree is on the image, full size.

    :raises ContentError: naming the first files that are not.
    """
    import pycdlib

    expected = {
        f"/{file.relative_to(root).as_posix()}": file.stat().st_size
        for file in receipt.files([root])
    }
    reader = pycdlib.PyCdlib()
    reader.open(str(image))
    try:
        actual = {}
        for folder, _, _ in reader.walk(rr_path="/"):
            for record in reader.list_children(rr_path=folder):
                if record.is_file():
                    name = record.rock_ridge.name().decode()
                    actual[f"{folder.rstrip('/')}/{name}"] = _length(record)
    finally:
        reader.close()
    wrong = sorted(set(expected.items()) ^ set(actual.items()))
    if wrong:
        raise ContentError(
            f"{image.name} does not match its tree: {', '.join(n for n, _ in wrong[:5])}"
        )


def _length(record: Any) -> int:
    """Return the size of a file; one of more than 4 GiB has a record for each part."""
    size = 0
    while record is not None:
        size += record.get_data_length()
        record = record.data_continuation
    return size


def digest(layout: Layout, medium: Medium, built: Path, signer: Signer, epoch: int) -> Made:
    """Write ``SHA256SUM`` of the image and its signature, and check it as its user will.

    :param built: receipt of the step that made the image.
    """
    checksums = medium.checksums
    sha256 = receipt.read(built).outputs[0].sha256
    write_whole(checksums, checksum_lines({medium.image.name: sha256}))
    signature = _sign(signer, checksums, epoch)
    process.run(gpg.argv_for_verification(signing.keyrings(layout), signature, checksums))
    return Made((checksums, signature))


def is_reproducible(version: str) -> bool:
    """Tell from ``--version`` whether this mkisofs can leave the clock out."""
    return "xorriso" in version.lower()


def argv_for_iso(
    binary: str, root: Path, output: Path, *, volume_id: str, epoch: int, reproducible: bool
) -> list[str | Path]:
    """Write the image of a tree.

    :param epoch: date of the volume and, where the tool can, of every file.
    """
    moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    # Access and change times cannot be set on files, so the image's own are set instead.
    stamp = f"{moment:%Y%m%d%H%M%S}00"
    dates = ["--set_all_file_dates", stamp, f"--modification-date={stamp}"]
    # It looks only this often (seconds) whether the image is written; by itself every half second.
    patience = ["--", "-pacifier", "interval=0.1"]
    return [binary, "-output", output, "-R", "-J", "-joliet-long", "-l", "-V", volume_id,
            "-uid", "0", "-gid", "0", "-iso-level", "3", "-input-charset", "utf-8",
            "-output-charset", "utf-8", *(dates if reproducible else []), root,
            *(patience if reproducible else [])]  # fmt: skip


def parse_progress(line: str) -> float | None:
    """Return the percentage a line of output tells, if any."""
    match = PERCENT.search(line)
    return float(match[1]) if match else None
