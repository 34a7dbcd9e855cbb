"""Make the keys of a machine that joins, on that machine, and say their public halves.

Run by its Python with ``LIBRARY FOLDER BITS``, over SSH: the package's library, the folder of the
minion's keys, the length of keys. Private keys stay here. What is there already stays as it is.
"""

from __future__ import annotations

import base64
import os
import pathlib
import sys

CERTIFICATE = pathlib.Path("/etc/metalk8s/pki/salt-minion.crt")


def key(path: pathlib.Path, bits: int, mode: int) -> bytes:
    """Return the public half of a key in PEM; a key that is not there is made."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    if not path.exists():
        made = rsa.generate_private_key(public_exponent=65537, key_size=bits)
        text = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        keep(path, text, mode)
    path.chmod(mode)
    found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    return found.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def keep(path: pathlib.Path, content: bytes, mode: int) -> None:
    """Write a file whole or not at all, and say so."""
    beside = path.with_name(f".{path.name}.metalk8s")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
        os.fchmod(stream.fileno(), mode)
    beside.replace(path)
    say("changed", str(path))


def say(name: str, value: str) -> None:
    """Print a line as the survey has them."""
    sys.stdout.write(f"{name}={value}\n")


def main(folder: pathlib.Path, certificate: pathlib.Path, bits: int) -> None:
    """Make what is missing, and say what the bootstrap machine needs."""
    minion = key(folder / "minion.pem", bits, 0o400)
    public = folder / "minion.pub"
    if not public.is_file() or public.read_bytes().strip() != minion.strip():
        keep(public, minion, 0o644)
    transport = key(certificate.with_suffix(".key"), bits, 0o600)
    there = certificate.read_bytes() if certificate.is_file() else b""
    for name, content in (("minion", minion), ("transport", transport), ("certificate", there)):
        say(name, base64.b64encode(content).decode("ascii"))
    say("end", "keys")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4]))
