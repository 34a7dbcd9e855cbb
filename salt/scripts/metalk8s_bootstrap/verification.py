"""How a medium was verified, kept on the machine: whatever uses it later verifies it again."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from pathlib import Path

from metalk8s_bootstrap.system import System

# Of verify.sh: anybody may have made the medium, and called it whatever version.
INSECURE = "--insecure-without-signature"
KEY_OPTIONS = ("-k", "--key")
ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
WIDTH = 64  # of the lines of an armor


def keep(
    system: System, generated: str, verifier: Path, arguments: Sequence[str], script: str
) -> None:
    """Write a script that verifies a medium as it was now, by this verifier and these keys.

    :param generated: comment at its beginning.
    :param verifier: verify.sh of the medium.
    :param arguments: of it: keys and how many signatures.
    :param script: path; verifier and keys come into the same folder.
    """
    folder = str(Path(script).parent)
    kept, words = [f"{folder}/{verifier.name}", "--quiet"], iter(arguments)
    system.write(kept[0], verifier.read_text(encoding="utf-8"))
    keys = 0
    for word in words:
        kept.append(word)
        if word in KEY_OPTIONS:
            keys += 1
            kept.append(f"{folder}/key{keys}.asc")
            system.write(kept[-1], armored(Path(next(words)).read_bytes()))
    system.write(script, f'#!/bin/sh\n{generated}exec sh {shlex.join(kept)} "$@"\n')


def armored(key: bytes) -> str:
    """Return a key as a text, as verify.sh reads it (RFC 4880, 6.2; without the checksum)."""
    if ARMOR in key:
        return key.decode("utf-8", "replace")
    text = base64.b64encode(key).decode()
    lines = [text[start : start + WIDTH] for start in range(0, len(text), WIDTH)]
    return "\n".join([ARMOR.decode(), "", *lines, "-----END PGP PUBLIC KEY BLOCK-----", ""])
