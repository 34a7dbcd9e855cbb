"""All inputs of a build as one archive, for a machine without a network.

On disk, a tar that is the same for the same inputs: ``store/sha256/<first two digits>/<64 digits>``
(packages, sources, Python distributions, manifests and blobs of images) and
``resolutions/<identity>.json`` (what names of packages meant), as they lie below ``CACHE_ROOT``.
``INPUTS`` comes first and names them all, since a tar that was cut looks like a shorter one.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from buildchain import events
from buildchain.errors import ChecksumError, ContentError, FetchError
from buildchain.layout import Layout
from buildchain.receipt import CHUNK, write_whole
from buildchain.store.blobs import Store

INDEX = "INPUTS"
BLOB = re.compile(r"store/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
RESOLUTION = re.compile(r"resolutions/([0-9a-f]{64})\.json")
SHOWN = 5  # missing inputs


def pack(
    layout: Layout, output: Path, blobs: Mapping[str, str], resolutions: Mapping[Path, bytes]
) -> None:
    """Write the archive.

    :param blobs: SHA-256 of each input, with what it is.
    :param resolutions: files below the cache, with their content.
    :raises FetchError: an input is not in the store.
    """
    store = Store(layout.store)
    missing = sorted(what for digest, what in blobs.items() if not store.has(digest))
    if missing:
        more = " …" if len(missing) > SHOWN else ""
        raise FetchError(
            f"{len(missing)} inputs are not in {store.root}: {', '.join(missing[:SHOWN])}{more}",
            solution="Run ./doit.sh clean --clean-all and build again with a network, then this.",
        )
    part = output.with_name(f".{output.name}.part")
    try:
        paths = {_name(layout, store.path(digest)): store.path(digest) for digest in blobs}
        texts = {_name(layout, path): content for path, content in resolutions.items()}
        index = "".join(f"{name}\n" for name in sorted((*paths, *texts)))
        with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as archive:
            for name, content in ((INDEX, index.encode()), *sorted(texts.items())):
                archive.addfile(_entry(name, len(content)), io.BytesIO(content))
            for number, (name, path) in enumerate(sorted(paths.items()), 1):
                events.progress(f"writing {output.name}", number, len(paths), "inputs")
                with path.open("rb") as stream:
                    archive.addfile(_entry(name, path.stat().st_size), stream)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _name(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.cache).as_posix()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """Return a member without anything of this machine."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def unpack(layout: Layout, source: Path) -> int:
    """Put the inputs of an archive into the cache; return how many there are.

    Each is verified as it enters, so it does not matter how the archive came here.

    :raises ContentError: it is no archive of inputs, or not all of one.
    :raises ChecksumError: an input is not what it is called.
    """
    count = 0
    expected: set[str] = set()
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise _refusal(source, f"{member.name} is no file")
                with content:
                    if member.name == INDEX:
                        expected = set(content.read().decode().splitlines())
                        continue
                    _take(layout, source, member, content)
                count += 1
                expected.discard(member.name)
                events.progress(f"unpacking {source.name}", count, count + len(expected), "inputs")
    except OSError as error:
        if error.filename is not None and Path(error.filename) != source:
            raise
        raise _refusal(source, error.strerror or str(error)) from error
    except (EOFError, UnicodeDecodeError, tarfile.TarError) as error:
        raise _refusal(source, str(error)) from error
    if expected or not count:
        raise _refusal(source, f"{len(expected)} of {count + len(expected)} inputs are missing")
    return count


def _take(layout: Layout, source: Path, member: tarfile.TarInfo, content: object) -> None:
    assert isinstance(content, io.BufferedReader)
    blob, resolution = BLOB.fullmatch(member.name), RESOLUTION.fullmatch(member.name)
    if resolution:
        write_whole(layout.resolution(resolution[1]), content.read())
    elif blob:
        _take_blob(layout, blob[2], content, f"{source}: {member.name}")
    else:
        raise _refusal(source, f"{member.name} is none of an archive of inputs")


def _take_blob(layout: Layout, digest: str, content: io.BufferedReader, origin: str) -> None:
    target = Store(layout.store).path(digest)
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{digest}.part")
    try:
        with part.open("wb") as stream:
            shutil.copyfileobj(content, stream, CHUNK)
        with part.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
        if actual != digest:
            raise ChecksumError(
                f"{origin}: its SHA-256 is {actual}",
                solution="Bring the archive over again; what is good of it was kept.",
            )
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _refusal(source: Path, what: str) -> ContentError:
    return ContentError(
        f"{source}: {what}", solution="Name an archive that ./doit.sh inputs has written."
    )
