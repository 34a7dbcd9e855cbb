"""Private keys of this machine, read without the proof that OpenSSL wants of each.

That what is in the file is a sound RSA key takes 50 ms to prove, more than all else that a state
does with one. It is proved where it counts: whoever starts with a key, or signs with it, proves it.
"""

from __future__ import annotations

import pathlib
from typing import Any

BEGIN = "-----BEGIN"


def public(private_key: str) -> str:
    """Give the public half of a key, in PEM.

    :param private_key: path, or PEM.
    :raises ValueError: it is none.
    """
    from cryptography.hazmat.primitives import serialization

    return str(
        _loaded(private_key)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode("ascii")
    )


def bits(private_key: str) -> int:
    """Give the length of an RSA key; 0 for a key of another kind.

    :param private_key: path, or PEM.
    :raises ValueError: it is none.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = _loaded(private_key)
    return int(key.key_size) if isinstance(key, rsa.RSAPrivateKey) else 0


def _loaded(private_key: str) -> Any:
    # Salt's, and not of every Python that reads this file.
    from cryptography.hazmat.primitives import serialization

    is_text = private_key.startswith(BEGIN)
    content = private_key.encode("ascii") if is_text else pathlib.Path(private_key).read_bytes()
    try:
        return serialization.load_pem_private_key(
            content, password=None, unsafe_skip_rsa_key_validation=True
        )
    except TypeError as error:  # it has a password
        raise ValueError(str(error)) from error
