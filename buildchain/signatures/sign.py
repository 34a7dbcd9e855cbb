"""Signing a request where there is a checkout.

Programs: ``gpg``. A key on a smart card is gpg-agent's business, as in every build.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from buildchain.core import events, process
from buildchain.core.errors import CommandError, SigningError
from buildchain.signatures import gpg, parcel, request
from buildchain.signatures.wanted import Wanted


def sign(path: Path, output: Path) -> int:
    """Sign what is for keys of this user, and write the answer; return how many signatures.

    :raises SigningError: the request is none, or a key of it cannot be used.
    """
    asked = request.read(path)
    home = Path(os.environ.get("GNUPGHOME") or "~/.gnupg").expanduser()
    here = {key for key in {one.key for one in asked.wanted} if _has(home, key)}
    left = sorted({one.key for one in asked.wanted} - here)
    if not here:
        raise SigningError(
            f"no secret key {', '.join(left)} in {home}",
            solution="Sign it where the key is, or name that folder in GNUPGHOME.",
        )
    signed = {
        f"{request.ANSWERS}/{one.identity}": _signature(home, one, asked.files[one.sha256])
        for one in asked.wanted
        if one.key in here
    }
    for key in left:
        events.closing(f"left out, the key is not here: {key}")
    parcel.pack(output, signed)
    return len(signed)


def _has(home: Path, key: str) -> bool:
    try:
        process.run([*gpg.argv_for_listing(home), key])
    except CommandError:
        return False
    return True


def _signature(home: Path, wanted: Wanted, content: bytes) -> bytes:
    events.note(f"{wanted.what}, by {wanted.key}")
    with tempfile.TemporaryDirectory(prefix="mk8s-sign-") as folder:
        file, output = Path(folder, "file"), Path(folder, "signature")
        file.write_bytes(content)
        argv = gpg.argv_for_signature(
            home, [wanted.key], file, output, epoch=wanted.date, kind=wanted.kind
        )
        try:
            process.run(argv)
        except CommandError as error:
            raise SigningError(
                f"key {wanted.key} cannot sign",
                details=error.details,
                solution="Unlock it in your gpg-agent; a key that had expired at the date of the "
                "request has to be extended.",
            ) from error
        return output.read_bytes()
