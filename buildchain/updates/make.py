"""Make an update pack of two ISOs that were signed, and prove that it does what it says.

Programs: ``gpg``, ``gpgv``. On disk: the pack (:mod:`buildchain.updates.pack`), whole or not at
all.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from buildchain.core import events
from buildchain.core.errors import ConfigError, ContentError
from buildchain.medium import block_list, iso
from buildchain.publication import index, trust
from buildchain.signatures.signing import Signer
from buildchain.updates import pack, recipe
from buildchain.updates.pack import Listed, Manifest, Portion

_FACT = re.compile(r"#([a-z0-9]+)=(.*)")


@dataclass(frozen=True)
class Image:
    """An ISO whose list of blocks was signed; sizes in bytes."""

    path: Path
    version: str
    sha256: str
    size: int
    portion: int


@dataclass(frozen=True)
class Wish:
    """What a pack is to be.

    :param floor: version below which nobody may go by it; empty: that of the old ISO.
    :param shortest: sectors, see :func:`buildchain.updates.recipe.copies`.
    """

    floor: str = ""
    shortest: int = recipe.SHORTEST


def find(name: Path) -> Path:
    """Return the ISO that a path names: itself, or the one in the folder of a release.

    :raises ConfigError: there is none, or several.
    """
    if name.is_file():
        return name
    found = sorted(name.glob(f"*.iso{block_list.SUFFIX}")) if name.is_dir() else []
    if len(found) != 1:
        raise ConfigError(
            f"{name} is no ISO, and no folder with one ISO and its {block_list.SUFFIX}",
            solution="Name two ISO files, or folders of releases: update_pack -o PACK FROM TO.",
        )
    return found[0].with_suffix("")


def read(path: Path, keyrings: Sequence[Path]) -> Image:
    """Return what the signed list of its blocks says of an ISO.

    :raises ContentError: there is no list, or it says nothing.
    :raises SigningError: it is not signed by the keys.
    """
    listed = block_list.path_of(path)
    _prove_there(path, listed, _signature(listed))
    trust.verify(listed, _signature(listed), keyrings)
    lines = listed.read_text(encoding="utf-8").splitlines()
    facts = {match[1]: match[2] for line in lines if (match := _FACT.fullmatch(line))}
    try:
        version = facts["volume"].rpartition(" ")[2]
        numbers = (int(facts["size"]), int(facts["portion"]))
        return Image(path, version, facts["sha256"], *numbers)
    except (KeyError, ValueError) as error:
        raise ContentError(
            f"{listed} is no list of an ISO's blocks ({error})",
            solution="Get it again from where the ISO came from.",
        ) from error


def _prove_there(*paths: Path) -> None:
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise ContentError(
            f"there is no {', no '.join(missing)}",
            solution="An ISO needs its signed lists beside it, as ./doit.sh iso and release leave "
            "them.",
        )


def _signature(file: Path) -> Path:
    return file.with_name(f"{file.name}.sig")


def write(
    base: Image,
    target: Image,
    output: Path,
    wish: Wish,
    *,
    keyrings: Sequence[Path],
    signer: Signer,
    epoch: int,
) -> Manifest:
    """Write the pack that makes one ISO out of another.

    :param epoch: date of its signature, seconds since 1970.
    :raises ContentError: an ISO is not what its list says, or the new one has no checksum.
    :raises ConfigError: the new one is older than the floor.
    """
    floor = wish.floor or base.version
    if index.order(target.version) < index.order(floor):
        raise ConfigError(
            f"{target.path.name} is version {target.version}, older than the floor, {floor}",
            solution="Exchange the two; or, if machines may really go back, name the version that "
            f"they may go back to: --floor {target.version}.",
        )
    lists = _lists(target, keyrings)
    found = recipe.copies(_sectors(base), _sectors(target), wish.shortest)
    output.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(output) as folder:
        data, part = folder / "data", folder / "pack"
        with data.open("wb") as stream:
            manifest = _data(base, target, floor, lists, found, stream)
        content = manifest.text.encode()
        signature = _sign(signer, content, folder, epoch)
        with part.open("wb") as stream, data.open("rb") as source:
            stream.write(pack.head(content, signature) + content + signature)
            shutil.copyfileobj(source, stream, 1 << 20)
        _prove(base, target, part)
        part.chmod(0o644)
        part.replace(output)
    return manifest


@contextlib.contextmanager
def _scratch(output: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
        yield Path(folder)


def _lists(target: Image, keyrings: Sequence[Path]) -> list[Path]:
    """Return the lists beside the new ISO, signatures verified."""
    sums = target.path.with_name(iso.CHECKSUMS)
    blocks = block_list.path_of(target.path)
    _prove_there(sums, _signature(sums))
    trust.verify(sums, _signature(sums), keyrings)
    wanted = [f"{target.sha256} {mark}{target.path.name}" for mark in " *"]
    if not set(wanted) & {*sums.read_text(encoding="utf-8").splitlines()}:
        raise ContentError(
            f"{sums} does not say of {target.path.name} what {blocks.name} says",
            solution="They are of two builds: get both again from where the ISO came from.",
        )
    return [sums, _signature(sums), blocks, _signature(blocks)]


def _sectors(image: Image) -> list[bytes]:
    events.note(f"reading {image.path}")
    with image.path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != image.sha256:
        raise ContentError(
            f"{image.path} is not what its list of blocks says: SHA-256 {found}, "
            f"signed {image.sha256}",
            solution="Repair it: verify.sh --repair, or get it again.",
        )
    return recipe.digests(image.path)


def _data(
    base: Image,
    target: Image,
    floor: str,
    lists: Sequence[Path],
    found: Sequence[recipe.Copy],
    stream: IO[bytes],
) -> Manifest:
    """Write the data of a pack; return its manifest."""
    whole, size = hashlib.sha256(), 0

    def put(content: bytes) -> int:
        nonlocal size
        whole.update(content)
        size += stream.write(content)
        return len(content)

    listed = []
    for file in lists:
        content = file.read_bytes()
        listed.append(Listed(file.name, hashlib.sha256(content).hexdigest(), put(content)))
    portions = []
    with target.path.open("rb") as image:
        for number, pieces in enumerate(recipe.portions(found, target.size, target.portion)):
            events.progress("packing", number * target.portion >> 20, target.size >> 20, "MiB")
            stored, form = pack.store(_literal(image, pieces))
            portions.append(Portion(tuple(pieces), put(stored), form))
    facts: dict[str, str | int] = {
        "name": target.path.name, "from": base.version, "to": target.version, "floor": floor,
        "base": base.sha256, "base-size": base.size, "target": target.sha256, "size": target.size,
        "portion": target.portion, "data": whole.hexdigest(), "data-size": size,
    }  # fmt: skip
    return Manifest(facts, tuple(listed), tuple(portions))


def _literal(image: IO[bytes], pieces: Sequence[recipe.Piece]) -> bytes:
    """Return what of a portion the old ISO has not, from where the image is read now."""
    taken = []
    for piece in pieces:
        if piece.base is None:
            taken.append(image.read(piece.length))
        else:
            image.seek(piece.length, 1)
    return b"".join(taken)


def _sign(signer: Signer, content: bytes, folder: Path, epoch: int) -> bytes:
    text = folder / pack.MANIFEST
    text.write_text(pack.signed_text(content), encoding="ascii")
    return signer.sign(text, folder / "signature", epoch=epoch, by_all=True).read_bytes()


def _prove(base: Image, target: Image, made: Path) -> None:
    whole = hashlib.sha256()
    for portion in pack.rebuild(base.path, made):
        whole.update(portion)
    if whole.hexdigest() != target.sha256:
        raise ContentError(
            f"the pack does not make {target.path.name} out of {base.path.name}",
            solution="Did something write to them meanwhile? Run the same again.",
        )
