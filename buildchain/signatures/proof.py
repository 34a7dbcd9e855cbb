"""The proof of an answer: these bytes, this key, this date, this digest and nothing more.

Program: ``gpgv``, whose status lines say it (GnuPG's ``doc/DETAILS``).
"""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from buildchain.core import process
from buildchain.core.errors import CommandError
from buildchain.signatures import gpg, packet
from buildchain.signatures.wanted import Wanted

SHA256 = 8  # hash algorithm, RFC 4880 9.4
# Class of a signature, RFC 4880 5.2.1: of bytes, or of a text.
CLASSES = {"detached": 0x00, "armored": 0x00, "clear": 0x01}


def complaint(wanted: Wanted, content: bytes, signature: bytes, ring: Path) -> str:
    """Return what is wrong with a signature, or an empty string.

    :param ring: public keys, binary.
    """
    with tempfile.TemporaryDirectory(prefix="mk8s-gpgv-") as folder:
        file, signed = Path(folder, "file"), Path(folder, "signature")
        file.write_bytes(content)
        signed.write_bytes(signature)
        try:
            told = process.run(
                gpg.argv_for_status(ring, signed, None if wanted.kind == "clear" else file)
            )
        except CommandError as error:
            return _refusal(error.details)
    return _deviation(wanted, told)


def _refusal(details: str) -> str:
    if "[GNUPG:] NO_PUBKEY" in details or "[GNUPG:] ERRSIG" in details:
        return "is by a key that is none of SIGNING_KEY"
    if "[GNUPG:] BADSIG" in details:
        return "is of other bytes"
    return "is not accepted by gpgv"


def _deviation(wanted: Wanted, told: str) -> str:
    """Compare what gpgv says of a good signature with what was wanted."""
    rows = [line.split()[2:] for line in told.splitlines() if line.startswith("[GNUPG:] VALIDSIG ")]
    if len(rows) != 1:
        return "is not one signature"
    [row] = rows
    date, algorithm, kind, key = int(row[2]), int(row[7]), int(row[8], 16), row[9]
    if key != wanted.key:
        return f"is by {key}"
    if date != wanted.date:
        return f"is dated {_day(date)} ({date}), not {_day(wanted.date)} ({wanted.date})"
    if algorithm != SHA256 or kind != CLASSES[wanted.kind]:
        return "has another digest or class than SHA-256 and the one asked for"
    return ""


def _day(date: int) -> str:
    return f"{datetime.datetime.fromtimestamp(date, datetime.UTC):%Y-%m-%d}"


def accept(wanted: Wanted, content: bytes, answer: bytes, ring: Path) -> tuple[bytes, str]:
    """Return the signature file that an answer comes to, and what is wrong with it."""
    try:
        signature = packet.form(wanted.kind, packet.extract(answer), content)
    except ValueError as error:
        return b"", f"is {error}"
    return signature, complaint(wanted, content, signature, ring)
