"""The request: what is to be signed, and a program that signs it with gpg alone.

A tar with one folder: ``table`` (:mod:`buildchain.signatures.wanted`), ``files/<SHA-256>`` and
``sign.sh``. The answer is a tar with ``signatures/<identity>``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.errors import SigningError
from buildchain.signatures import parcel
from buildchain.signatures import wanted as table
from buildchain.signatures.folder import Folder
from buildchain.signatures.wanted import Wanted

TABLE, FILES, SCRIPT, ANSWERS = "table", "files", "sign.sh", "signatures"
SIGN = Path(__file__).with_name(SCRIPT)


@dataclass(frozen=True)
class Request:
    """What somebody with a key is asked to sign.

    :param files: SHA-256 to content.
    """

    wanted: tuple[Wanted, ...]
    files: Mapping[str, bytes]


def write(folder: Folder, output: Path, stem: str) -> list[Wanted]:
    """Write what the last run wanted, and return it.

    :param stem: name of the folder in the tar.
    :raises SigningError: nothing is wanted.
    """
    wanted = folder.wanted()
    if not wanted:
        raise SigningError(
            "no step waits for a signature",
            solution="Build first, with SIGNING_PUBLIC_KEY; a build says what it waits for.",
        )
    members = {f"{FILES}/{one.sha256}": folder.content(one) for one in wanted}
    members[TABLE] = "".join(f"{one.line}\n" for one in wanted).encode()
    members[SCRIPT] = SIGN.read_bytes()
    renamed = {f"{stem}/{name}": content for name, content in members.items()}
    parcel.pack(output, renamed, programs=(f"{stem}/{SCRIPT}",))
    return wanted


def read(path: Path) -> Request:
    """Read a request.

    :raises SigningError: it is none, or its files are not those of its table.
    """
    members = {name.partition("/")[2]: content for name, content in parcel.unpack(path).items()}
    if TABLE not in members:
        raise SigningError(
            f"{path} is no request for signatures",
            solution="Name what ./doit.sh sign_request has written.",
        )
    text = members[TABLE].decode("utf-8", "replace")
    wanted = tuple(map(table.parse, text.split("\n")[:-1]))
    prefix = f"{FILES}/"
    files = {n.removeprefix(prefix): c for n, c in members.items() if n.startswith(prefix)}
    wrong = sorted(
        {
            one.what
            for one in wanted
            if hashlib.sha256(files.get(one.sha256, b"")).hexdigest() != one.sha256
        }
    )
    if wrong:
        raise SigningError(
            f"files of {path} are not what its table says: {', '.join(wrong)}",
            solution="Write the request again, ./doit.sh sign_request, and carry it unchanged.",
        )
    return Request(wanted, files)
