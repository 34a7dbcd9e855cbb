"""What is wanted of who has the key: a signature of some bytes, by one key, as of a date.

In a table, one line each: ``<SHA-256> <kind> <date> <fingerprint> <what it is>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from buildchain.core.errors import SigningError

LINE = re.compile(
    r"([0-9a-f]{64}) (detached|armored|clear) (0|[1-9][0-9]{0,9}) ([0-9A-F]{40}) "
    r"([^\x00-\x1f\x7f-\x9f\u2028\u2029]+)"
)


@dataclass(frozen=True)
class Wanted:
    """One signature.

    :param sha256: of the bytes to sign.
    :param kind: as :func:`buildchain.signatures.gpg.argv_for_signature` names them.
    :param date: of the signature, seconds since 1970.
    :param key: fingerprint of the primary key.
    :param what: for who reads the table; no part of what it is.
    """

    sha256: str
    kind: str
    date: int
    key: str
    what: str

    @property
    def manner(self) -> str:
        """How it is to be signed, whatever the bytes are."""
        return f"{self.kind}.{self.date}.{self.key}"

    @property
    def identity(self) -> str:
        """The name of the file with the signature."""
        return f"{self.sha256}.{self.manner}"

    @property
    def line(self) -> str:
        return f"{self.sha256} {self.kind} {self.date} {self.key} {self.what}"


def parse(line: str) -> Wanted:
    """Read a line of a table.

    :raises SigningError: it is none.
    """
    found = LINE.fullmatch(line)
    if found is None:
        raise SigningError(
            f"{line!r} asks for no signature",
            solution="Write the request again, ./doit.sh sign_request, and carry it unchanged.",
        )
    sha256, kind, date, key, what = found.groups()
    return Wanted(sha256, kind, int(date), key, what)
