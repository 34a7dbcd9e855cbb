"""The form of a signature: one OpenPGP packet, and the text that GnuPG writes around it.

Answers come from any version of GnuPG with any configuration. What is kept of them is the packet,
and its armour is made here, so that a comment in somebody's ``gpg.conf`` does not change the
medium. Source: RFC 4880, chapters 4.2 (packets), 6 (armour) and 7 (cleartext).
"""

from __future__ import annotations

import base64
import binascii

BEGIN, END = b"-----BEGIN PGP SIGNATURE-----\n", b"-----END PGP SIGNATURE-----\n"
CLEAR = b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"
SIGNATURE = 2  # tag of the packet
LINE_LENGTH = 64  # characters of armour
CRC_INIT, CRC_POLYNOMIAL = 0xB704CE, 0x1864CFB


def crc24(data: bytes) -> int:
    """Return the checksum of armour (RFC 4880, 6.1)."""
    crc = CRC_INIT
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= CRC_POLYNOMIAL
    return crc


def armor(packet: bytes) -> bytes:
    """Return a packet as GnuPG writes it with ``--armor``."""
    text = base64.b64encode(packet)
    lines = [text[i : i + LINE_LENGTH] for i in range(0, len(text), LINE_LENGTH)]
    checksum = b"=" + base64.b64encode(crc24(packet).to_bytes(3, "big"))
    return BEGIN + b"\n" + b"".join(line + b"\n" for line in (*lines, checksum)) + END


def unarmor(text: bytes) -> bytes:
    """Return the packet in the last armour of a text; its checksum is gpgv's to check.

    :raises ValueError: there is none.
    """
    text = text.replace(b"\r\n", b"\n")
    _, begin, rest = text.rpartition(BEGIN)
    body, end, after = rest.partition(END.rstrip())
    # Headers end with an empty line, which is the first when there are none.
    _, blank, encoded = (b"\n" + body).partition(b"\n\n")
    if not (begin and end and blank) or after.strip():
        raise ValueError("no armour")
    lines = [line for line in encoded.split() if not line.startswith(b"=")]
    try:
        return base64.b64decode(b"".join(lines), validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error


def extract(answer: bytes) -> bytes:
    """Return the signature of an answer, whatever form that has.

    :raises ValueError: it holds something else, or more.
    """
    packet = unarmor(answer) if BEGIN.rstrip() in answer else answer
    if not _is_one_signature(packet):
        raise ValueError("not one signature")
    return packet


def _is_one_signature(packet: bytes) -> bool:
    """Tell whether a packet of GnuPG's (old format, RFC 4880 4.2.1) is all there is."""
    if not packet or packet[0] & 0xFC != 0x80 | SIGNATURE << 2 or packet[0] & 3 == 3:
        return False
    digits = 1 << (packet[0] & 3)
    return len(packet) == 1 + digits + int.from_bytes(packet[1 : 1 + digits], "big")


def form(kind: str, packet: bytes, content: bytes) -> bytes:
    """Return the signature file that GnuPG would have written.

    :param kind: as :func:`buildchain.signatures.gpg.argv_for_signature` names them.
    :param content: what was signed.
    """
    if kind == "detached":
        return packet
    if kind == "armored":
        return armor(packet)
    end = b"" if content.endswith(b"\n") else b"\n"
    return CLEAR + _escaped(content) + end + armor(packet)


def _escaped(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(b"- " + line if line.startswith((b"-", b"From ")) else line for line in lines)
