"""Who signed an index, and that it does not go back.

Programs: ``gpgv``, and what :mod:`buildchain.signatures.signing` calls. On disk, in
``CACHE_ROOT/publication``: ``<digest of a place's name>.json``, the serial number and digest of the
newest index that was seen there.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import CommandError, ConfigError, SigningError
from buildchain.core.receipt import write_whole
from buildchain.publication import index
from buildchain.publication.index import Index
from buildchain.publication.place import Absent, Place
from buildchain.signatures import gpg
from buildchain.signatures.signing import Signer

SIGNATURES = "signatures"
LARGEST_SIGNATURE = 1 << 20  # bytes


@dataclass(frozen=True)
class Trust:
    """What this machine believes.

    :param keyrings: binary public keys; an index and a release have to be signed by them alone.
    :param memory: folder that remembers which indexes were seen.
    """

    keyrings: tuple[Path, ...]
    memory: Path

    def read(self, place: Place) -> tuple[Index, bytes] | None:
        """Return the index of a place and its bytes, ``None`` when it has none and never had.

        :raises SigningError: nobody we know signed it, or it is older than one seen before.
        """
        try:
            content = place.read(index.NAME, index.LARGEST)
        except Absent:
            self._check_memory(place, 0, "")
            return None
        digest = hashlib.sha256(content).hexdigest()
        self._check_signature(place, content, digest)
        try:
            found = index.parse(content)
        except ValueError as error:
            raise SigningError(
                f"{index.NAME} of {place.name} is signed, but damaged: {error}",
                solution="Ask who publishes there; a newer ./doit.sh may be needed to read it.",
            ) from error
        self._check_memory(place, found.serial, digest)
        return found, content

    def remember(self, place: Place, found: Index, content: bytes) -> None:
        """Keep which index was seen: an older one is refused from now on."""
        digest = hashlib.sha256(content).hexdigest()
        text = {"place": place.name, "serial": found.serial, "sha256": digest}
        write_whole(self._file(place), json.dumps(text, sort_keys=True) + "\n")

    def _file(self, place: Place) -> Path:
        return self.memory / f"{hashlib.sha256(place.name.encode()).hexdigest()[:32]}.json"

    def _check_signature(self, place: Place, content: bytes, digest: str) -> None:
        name = signature_name(digest)
        try:
            signature = place.read(name, LARGEST_SIGNATURE)
        except Absent as error:
            raise SigningError(
                f"{index.NAME} of {place.name} has no signature ({name})",
                solution="It is damaged, or somebody changed it: ask who publishes there.",
            ) from error
        with tempfile.TemporaryDirectory(prefix="mk8s-index-") as folder:
            file, beside = Path(folder) / index.NAME, Path(folder) / "signature"
            file.write_bytes(content)
            beside.write_bytes(signature)
            verify(file, beside, self.keyrings, f"{index.NAME} of {place.name}")

    def _check_memory(self, place: Place, serial: int, digest: str) -> None:
        path = self._file(place)
        try:
            seen = json.loads(path.read_bytes())
            last, known = int(seen["serial"]), str(seen["sha256"])
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is damaged: it says which {index.NAME} was seen last",
                solution="Remove it if you know that the place has the newest one.",
            ) from error
        if serial > last or (serial, digest) == (last, known):
            return
        what = f"has serial {serial}" if serial != last else "is another one"
        if not digest:
            what = "is gone"
        raise SigningError(
            f"{index.NAME} of {place.name} {what}; one with serial {last} was seen there before",
            solution="Somebody put an old one there, and newer releases may be hidden. Ask who "
            f"publishes there; if the place was set up anew on purpose, remove {path}.",
        )


def signature_name(digest: str) -> str:
    """Return where a place has the signature of the index with that digest."""
    return f"{SIGNATURES}/releases-{digest}.sig"


def sign(signer: Signer, content: bytes, date: int) -> bytes:
    """Return a signature of an index by every key of this machine.

    :param date: of the signature, seconds since 1970.
    """
    with tempfile.TemporaryDirectory(prefix="mk8s-index-") as folder:
        file = Path(folder) / index.NAME
        file.write_bytes(content)
        return signer.sign(file, Path(folder) / "sig", epoch=date, by_all=True).read_bytes()


def verify(file: Path, signature: Path, keyrings: Sequence[Path], what: str = "") -> None:
    """Check a detached signature.

    :param what: how to call the file in an error.
    :raises SigningError: it does not hold, or is by another key.
    """
    try:
        # A ring without a slash would be looked for in the user's GnuPG home.
        rings = [keyring.absolute() for keyring in keyrings]
        process.run(gpg.argv_for_verification(rings, signature, file))
    except CommandError as error:
        raise SigningError(
            f"{what or file} is not signed by the keys in {', '.join(map(str, keyrings))}",
            details=error.details,
            solution="Name the public keys of who publishes (--key FILE, binary, each one that "
            "signs). If they are the right ones, it was changed: believe nothing of it.",
        ) from error
