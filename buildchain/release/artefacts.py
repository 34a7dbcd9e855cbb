"""The folder of a release: every file under a name with the version, and one signed list of all.

On disk, ``_build/release``: what :func:`planned` names, ``release.json`` that describes them, and
``SHA256SUM`` with ``SHA256SUM.sig``. ``gpgv`` and ``sha256sum`` are enough to check all of it. Same
inputs, same bytes: what is large is linked, nothing says where or when it was put together.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildchain.compare import difference, inventory
from buildchain.core import events, receipt
from buildchain.core.errors import ContentError
from buildchain.core.layout import Layout
from buildchain.core.receipt import write_whole
from buildchain.medium import block_list, contents, iso, provenance
from buildchain.release import updates
from buildchain.signatures import signing
from buildchain.signatures.signing import Signer
from buildchain.store.blobs import link
from buildchain.updates.make import Image

SCHEMA = 1
DESCRIPTION = "release.json"
LISTS = (iso.CHECKSUMS, f"{iso.CHECKSUMS}.sig")
DIFFERENCE = "difference"  # kind of what only a release with one before has
UPDATE = "update"  # kind of what only a release with bases has


@dataclass(frozen=True)
class Release:
    """What is released.

    :param product: name as ``product.txt`` has it.
    :param version: of the release.
    :param commit: digest, in full.
    :param date: of the content, seconds since 1970.
    :param changes: the page of what it changes.
    :param vulnerabilities: what its table accepts, and how many records are open.
    :param previous: ISO of the release before, or ``None``.
    :param bases: older releases that its update packs start from.
    """

    product: str
    version: str
    commit: str
    date: int
    changes: str
    vulnerabilities: Mapping[str, object] = field(default_factory=dict)
    previous: Path | None = None
    bases: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Artefact:
    """A file of a release.

    :param source: file of the build that it is, or ``None``: it is written for the release.
    """

    file: str
    kind: str
    source: Path | None = None


def planned(
    layout: Layout, version: str, keys: str, *, is_compared: bool, bases: Iterable[str] = ()
) -> tuple[Artefact, ...]:
    """Return the files that ``release.json`` lists, sorted.

    :param keys: fingerprints of the keys that sign, the first one first.
    :param is_compared: there is a release before.
    :param bases: versions that update packs start from.
    """
    stem = f"{layout.project}-{version}"
    origin = layout.iso.with_name(provenance.NAME)
    blocks = block_list.path_of(layout.iso)
    rings = [
        signing.STEM,
        *(f"{signing.STEM}-{key[-signing.KEY_ID :]}" for key in keys.split()[1:]),
    ]
    found = [
        Artefact(f"{stem}.iso", "iso", layout.iso),
        Artefact(f"{stem}.iso{block_list.SUFFIX}", "blocks", blocks),
        Artefact(f"{stem}.iso{block_list.SUFFIX}.sig", "signature", Path(f"{blocks}.sig")),
        Artefact(f"{stem}-sources.iso", "sources", layout.sources_iso),
        Artefact(f"{stem}.spdx.json", "sbom", layout.iso_root / "sbom" / "spdx.json"),
        Artefact(f"{stem}.cdx.json", "sbom", layout.iso_root / "sbom" / "cyclonedx.json"),
        Artefact(f"{stem}-{provenance.NAME}", "provenance", origin),
        Artefact(f"{stem}-{provenance.NAME}.sig", "signature", Path(f"{origin}.sig")),
        Artefact(f"{stem}-inputs.tar", "inputs", layout.inputs),
        Artefact(f"{stem}-documents.tar.gz", "documents"),
        Artefact(f"{stem}-changelog.md", "changelog"),
        *(Artefact(f"{ring}.gpg", "key", layout.keys / f"{ring}.gpg") for ring in rings),
    ]
    if is_compared:
        found += [Artefact(f"{stem}-difference.{end}", DIFFERENCE) for end in ("html", "json")]
    found += [Artefact(updates.name(stem, base), UPDATE) for base in bases]
    introduction = layout.keys / f"{signing.STEM}.gpg.sig"
    if introduction.is_file():
        found.append(Artefact(introduction.name, "introduction", introduction))
    return tuple(sorted(found, key=lambda artefact: artefact.file))


def assemble(layout: Layout, release: Release, signer: Signer) -> Path:
    """Make the folder of a release; the one that is there stays until this is whole.

    :raises ContentError: something that the build should have made is missing.
    """
    keys = " ".join((signer.fingerprint, *signer.others))
    plan = planned(
        layout,
        release.version,
        keys,
        is_compared=release.previous is not None,
        bases=[base.version for base in release.bases],
    )
    _old(layout)
    _prove_there(plan)
    with _swapped(layout) as folder:
        for artefact in plan:
            if artefact.source is not None:
                link(artefact.source, folder / artefact.file)
        for name, content in _written(layout, release):
            write_whole(folder / name, content)
        if release.bases:
            stem = f"{layout.project}-{release.version}"
            updates.write(layout, stem, release.bases, signer, folder, epoch=release.date)
        _describe(folder, release, plan)
        _sign(folder, signer, release.date)
    return layout.release


def _prove_there(plan: tuple[Artefact, ...]) -> None:
    missing = [str(a.source) for a in plan if a.source is not None and not a.source.is_file()]
    if missing:
        raise ContentError(
            f"{len(missing)} files of the release were not built: {', '.join(missing)}",
            solution="Run ./doit.sh release, which builds them.",
        )


def _old(layout: Layout) -> Path:
    """Return where the release before lies for a moment; put it back after a run killed then."""
    old = layout.build / ".release.old"
    if old.exists() and not layout.release.exists():
        old.rename(layout.release)
    return old


@contextlib.contextmanager
def _swapped(layout: Layout) -> Iterator[Path]:
    """Provide a new folder that becomes the release when all went well."""
    old = _old(layout)
    with layout.scratch("release-") as scratch:
        fresh = Path(scratch) / layout.release.name
        fresh.mkdir()
        yield fresh
        fresh.chmod(0o755)
        shutil.rmtree(old, ignore_errors=True)
        if layout.release.exists():
            layout.release.rename(old)
        fresh.rename(layout.release)
    shutil.rmtree(old, ignore_errors=True)


def _written(layout: Layout, release: Release) -> Iterator[tuple[str, str | bytes]]:
    """Yield what no step has made, with its name."""
    stem = f"{layout.project}-{release.version}"
    yield f"{stem}-changelog.md", release.changes
    yield f"{stem}-documents.tar.gz", pack(layout.documents, f"{stem}-documents", release.date)
    if release.previous is None:
        events.closing("the release has no difference to one before: --previous names none")
        return
    found = [_inventory(path) for path in (release.previous, layout.iso)]
    compared = difference.compare(*found)
    yield f"{stem}-difference.html", difference.page(compared)
    yield f"{stem}-difference.json", difference.document(compared)


def _inventory(path: Path) -> inventory.Inventory:
    with contents.opened(path) as medium:
        return inventory.read(medium)


def pack(folder: Path, name: str, epoch: int) -> bytes:
    """Return a folder as ``.tar.gz``, the same for the same files and modes.

    :param name: of the folder in the archive.
    :param epoch: date of everything in it, seconds since 1970.
    """
    packed = io.BytesIO()
    # No name and no time in gzip's header.
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in receipt.files([folder]):
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mtime = path.stat().st_size, epoch
            with path.open("rb") as content:
                archive.addfile(entry, content)
    return packed.getvalue()


def _describe(folder: Path, release: Release, plan: tuple[Artefact, ...]) -> None:
    """Write what the release is, for programs."""
    rows = []
    for number, artefact in enumerate(plan, 1):
        events.progress("reading the release", number, len(plan), "files")
        path = folder / artefact.file
        rows.append(
            {
                "file": artefact.file,
                "kind": artefact.kind,
                "size": path.stat().st_size,
                "sha256": receipt.sha256(path),
            }
        )
    document = {
        "schema": SCHEMA,
        "name": release.product,
        "version": release.version,
        "commit": release.commit,
        "date": release.date,
        "vulnerabilities": dict(release.vulnerabilities),
        "artefacts": rows,
        **({"bases": sorted(base.version for base in release.bases)} if release.bases else {}),
    }
    write_whole(folder / DESCRIPTION, json.dumps(document, indent=1, sort_keys=True) + "\n")


def _sign(folder: Path, signer: Signer, epoch: int) -> None:
    """Write the list of everything in the folder, signed by every key."""
    known = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))["artefacts"]
    digests = {row["file"]: row["sha256"] for row in known}
    digests[DESCRIPTION] = receipt.sha256(folder / DESCRIPTION)
    checksums, signature = (folder / name for name in LISTS)
    write_whole(checksums, iso.checksum_lines(digests))
    signer.sign(checksums, signature, epoch=epoch, by_all=True)
