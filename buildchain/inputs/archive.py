"""All inputs of a build as one archive, for a machine without a network.

Programs: ``gpg``, ``gpgv``. On disk, a tar that is the same for the same inputs and key:
``store/sha256/<first two digits>/<64 digits>`` (packages, sources, Python distributions, manifests
and blobs of images) and ``resolutions/<identity>.json`` (what names of packages meant), as they lie
below ``CACHE_ROOT``. Before them ``INPUTS``, a line ``<SHA-256> <bytes> <name>`` for each, and
``INPUTS.sig``, its signature.

Whoever carries the archive can change it, so three things are believed and nothing else: the
signature of ``INPUTS``, bytes of the SHA-256 that they are called by, and the lock of the checkout.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import CommandError, ContentError, FetchError, SigningError, SpaceError
from buildchain.core.layout import Layout
from buildchain.core.receipt import write_whole
from buildchain.debian import archive
from buildchain.project.model import DebianFile
from buildchain.signatures import gpg
from buildchain.signatures.signing import Signer
from buildchain.store import tarball
from buildchain.store.blobs import Store

INDEX = "INPUTS"
SIGNATURE = "INPUTS.sig"
LINE = re.compile(r"([0-9a-f]{64}) (0|[1-9][0-9]{0,14}) (\S{1,100})")
BLOB = re.compile(r"store/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
RESOLUTION = re.compile(r"resolutions/([0-9a-f]{64})\.json")
SHOWN = 5  # missing inputs
# Bytes of what is read into memory, at most: a list has a line for each of some thousand inputs.
LARGEST_LIST = 8 << 20
LARGEST_SIGNATURE = 64 << 10
MEGA = 1_000_000
AGAIN = "Bring the archive over again; what is good of it was kept."
# Size and SHA-256 of an input, by its name.
Listed = dict[str, tuple[int, str]]


def pack(
    layout: Layout,
    output: Path,
    blobs: Mapping[str, str],
    resolutions: Mapping[Path, bytes],
    signer: Signer,
    epoch: int,
) -> None:
    """Write the archive.

    :param blobs: SHA-256 of each input, with what it is.
    :param resolutions: files below the cache, with their content.
    :param epoch: date of the signature, seconds since 1970.
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
    paths = {_name(layout, store.path(digest)): store.path(digest) for digest in blobs}
    texts = {_name(layout, path): content for path, content in resolutions.items()}
    try:
        with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as archive:
            for name, content in _signed(layout, _index(texts, paths), signer, epoch).items():
                archive.addfile(_entry(name, len(content)), io.BytesIO(content))
            for name, content in sorted(texts.items()):
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


def _index(texts: Mapping[str, bytes], paths: Mapping[str, Path]) -> bytes:
    rows = [(n, len(text), hashlib.sha256(text).hexdigest()) for n, text in texts.items()]
    rows += [(name, path.stat().st_size, path.name) for name, path in paths.items()]
    return "".join(f"{digest} {size} {name}\n" for name, size, digest in sorted(rows)).encode()


def _signed(layout: Layout, index: bytes, signer: Signer, epoch: int) -> dict[str, bytes]:
    with layout.scratch("inputs-") as scratch:
        file = Path(scratch) / INDEX
        file.write_bytes(index)
        signature = signer.sign(file, file.with_name(SIGNATURE), epoch=epoch)
        return {INDEX: index, SIGNATURE: signature.read_bytes()}


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """Return a member without anything of this machine."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def unpack(
    layout: Layout, source: Path, locked: Collection[DebianFile], keyring: Path | None
) -> int:
    """Put the inputs of an archive into the cache; return how many there are.

    :param locked: every package of the lock; a resolution with any other is refused.
    :param keyring: public key of who wrote the archive, binary; ``None`` to do without.
    :raises SigningError: the archive's list is not signed by a key of ``keyring``.
    :raises ContentError: it is no archive of inputs, not all of one, or has more than it says.
    :raises ChecksumError: an input is not what it is called.
    :raises SpaceError: it will not fit.
    """
    try:
        with source.open("rb") as stream:
            members = tarball.members(stream)
            listed = _read_index(layout, source, members, keyring)
            _check_room(layout, listed)
            return _take_all(layout, source, members, listed, frozenset(locked))
    except OSError as error:
        if error.filename is not None and Path(error.filename) != source:
            raise
        raise _refusal(source, error.strerror or str(error)) from error
    except ValueError as error:
        raise _refusal(source, str(error)) from error


def _read_index(
    layout: Layout, source: Path, members: Iterator[tarball.Member], keyring: Path | None
) -> Listed:
    found = []
    for name, most in ((INDEX, LARGEST_LIST), (SIGNATURE, LARGEST_SIGNATURE)):
        member = next(members, None)
        if member is None or member.name != name:
            raise ValueError(f"it does not continue with {name}")
        found.append(member.read(most))
    if keyring is not None:
        _check_signature(layout, source, keyring, *found)
    return _parse_index(found[0].decode())


def _check_signature(
    layout: Layout, source: Path, keyring: Path, index: bytes, signature: bytes
) -> None:
    with layout.scratch("inputs-") as scratch:
        file = Path(scratch) / INDEX
        file.write_bytes(index)
        beside = file.with_name(SIGNATURE)
        beside.write_bytes(signature)
        try:
            # A ring without a slash would be looked for in the user's GnuPG home.
            process.run(gpg.argv_for_verification((keyring.absolute(),), beside, file))
        except CommandError as error:
            raise SigningError(
                f"{source}: its list {INDEX} is not signed by the key in {keyring}",
                details=error.details,
                solution="Name the public key of who wrote the archive (--key FILE, binary, "
                "_build/keys/metalk8s.gpg there). If it is the right one, the archive was "
                "changed on its way: have it brought again.",
            ) from error


def _parse_index(text: str) -> Listed:
    listed: Listed = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        blob = BLOB.fullmatch(match[3]) if match else None
        if match is None or match[3] in listed or (blob and blob[2] != match[1]):
            raise ValueError(f"line {number} of {INDEX} is malformed: {line[:200]!r}")
        if blob is None and not RESOLUTION.fullmatch(match[3]):
            raise ValueError(f"{match[3]} is not an entry of an inputs archive")
        listed[match[3]] = int(match[2]), match[1]
    if not listed:
        raise ValueError(f"{INDEX} is empty")
    return listed


def _check_room(layout: Layout, listed: Listed) -> None:
    store = Store(layout.store)
    total = sum(size for size, digest in listed.values() if not store.has(digest))
    store.partials.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(store.partials).free
    if total > free:
        raise SpaceError(
            f"{total // MEGA} MB of inputs are to come and {store.root} has room for "
            f"{free // MEGA} MB",
            solution="Free some room or set CACHE_ROOT in .env to a larger file system.",
        )


def _take_all(
    layout: Layout,
    source: Path,
    members: Iterator[tarball.Member],
    listed: Listed,
    locked: frozenset[DebianFile],
) -> int:
    left, texts = dict(listed), {}
    for member in members:
        if left.get(member.name, (-1, ""))[0] != member.size:
            raise ValueError(
                f"{member.name} differs from its {INDEX}, is not in it, or comes twice"
            )
        _, digest = left.pop(member.name)
        if resolution := RESOLUTION.fullmatch(member.name):
            texts[resolution[1]] = _resolution(member, digest, locked)
        else:
            origin = f"{source}: {member.name}"
            Store(layout.store).take(member.pieces(), digest, origin=origin, solution=AGAIN)
        done = len(listed) - len(left)
        events.progress(f"unpacking {source.name}", done, len(listed), "inputs")
    if left:
        raise ValueError(f"{len(left)} of {len(listed)} inputs are missing")
    for identity, text in texts.items():
        write_whole(layout.resolution(identity), text)
    return len(listed)


def _resolution(member: tarball.Member, digest: str, locked: frozenset[DebianFile]) -> bytes:
    """Return the text of a resolution that says nothing but what the lock says."""
    text = member.read(LARGEST_LIST)
    if hashlib.sha256(text).hexdigest() != digest:
        raise ValueError(f"{member.name} does not match its {INDEX}")
    strange = [file.name for file in archive.parse_list(text) if file not in locked]
    if strange:
        more = " …" if len(strange) > SHOWN else ""
        raise ValueError(
            f"{member.name} names packages that are not in the lock: "
            f"{', '.join(strange[:SHOWN])}{more}"
        )
    return text


def _refusal(source: Path, what: str) -> ContentError:
    return ContentError(
        f"{source}: {what}",
        solution="Name an archive that ./doit.sh inputs has written for this commit.",
    )
