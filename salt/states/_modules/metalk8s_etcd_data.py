"""What is on this machine of its member of etcd: its data, and how it began.

Read: ``<data>/member/wal/*.wal``, the write-ahead log of etcd 3. Kept: ``RECORD`` (JSON), for the
manifest of the pod.
"""

from __future__ import annotations

import json
import os
import pathlib
import struct
from collections.abc import Iterator
from typing import BinaryIO

RECORD = "/etc/metalk8s/etcd/initial.json"
# Of records in a log: the second one is of the kind that says whose it is.
SECOND, METADATA = 2, 1
LONGEST = 8192  # bytes of a record of that kind, by far


class EtcdDataError(Exception):
    """The data of etcd are not what etcd would have written; the text is a sentence."""


def identity(data: str) -> dict[str, str]:
    """Say whose data are in a folder: ``id`` and ``cluster``, hexadecimal; empty without any.

    Without a write-ahead log, etcd starts as if the folder were empty.

    :raises EtcdDataError: there is something that is no write-ahead log.
    """
    files = sorted(pathlib.Path(data, "member/wal").glob("*.wal"))
    if not files:
        return {}
    try:
        with files[0].open("rb") as stream:
            records = [dict(_fields(_frame(stream))) for _ in range(SECOND)]
        if records[-1][1] != METADATA:
            raise ValueError(f"its second record is of type {records[-1][1]!r}")
        said = dict(_fields(_text(records[-1][3])))
        return {"id": f"{said[1]:x}", "cluster": f"{said[2]:x}"}
    except (OSError, ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        reason = f"{type(error).__name__}: {error}"
        raise EtcdDataError(f"{files[0]} does not say which member wrote it ({reason})") from error


def recorded() -> dict[str, str]:
    """Say how this machine's member began: ``cluster`` and ``state``; empty before that."""
    file = pathlib.Path(RECORD)
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def initial(name: str, url: str) -> dict[str, str]:
    """Say with what the manifest begins the member: what is recorded, or a cluster of its own.

    :param url: at which other members reach it.
    """
    return recorded() or {"cluster": f"{name}={url}", "state": "new"}


def keep(beginning: dict[str, str]) -> None:
    """Record how the member begins, whole or not at all."""
    path = pathlib.Path(RECORD)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as stream:
        os.fchmod(stream.fileno(), 0o644)  # whatever the umask
        json.dump(beginning, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def _frame(stream: BinaryIO) -> bytes:
    """Read a record: eight bytes of length, the highest of which says how many bytes fill it up."""
    (length,) = struct.unpack("<Q", stream.read(8))
    padding = (length >> 56) & 0x7 if length >> 63 else 0
    size = length & ((1 << 56) - 1)
    if not 0 < size <= LONGEST:
        raise ValueError(f"a record of {size} bytes")
    return stream.read(size + padding)[:size]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read numbers and texts of a message as protocol buffers have them."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        value, at = _number(message, at)
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2:
            yield key >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError(f"a field of type {key & 7}")


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the lowest first; give it, and where it ends."""
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1


def _text(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where a text belongs")
    return value
