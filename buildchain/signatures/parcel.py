"""The small tars that travel between the machines.

What comes back was on somebody else's machine and on a stick: nothing of it is written anywhere
before all of it was read and judged.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from buildchain.core.errors import SigningError

LARGEST = 64 << 20  # bytes of a file; MANIFEST of a medium has a line for each of its files
MOST = 10_000  # members


def pack(output: Path, members: Mapping[str, bytes], programs: tuple[str, ...] = ()) -> None:
    """Write a tar, whole; the same members give the same bytes.

    :param programs: members that can be executed.
    """
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as archive:
            for name, content in sorted(members.items()):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                member.mode = 0o755 if name in programs else 0o644
                archive.addfile(member, io.BytesIO(content))
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def unpack(path: Path) -> dict[str, bytes]:
    """Return the files of a tar by their names.

    :raises SigningError: it is none, is cut off, or has members that no such tar has.
    """
    found: dict[str, bytes] = {}
    strange: list[str] = []
    try:
        with tarfile.open(path, "r:") as archive:
            for number, member in enumerate(archive):
                if number >= MOST:
                    raise _unreadable(path, f"it has more than {MOST} members")
                if complaint := _complaint(member, found):
                    strange.append(f"{member.name!r} {complaint}")
                elif member.isreg():
                    found[_plain(member.name)] = _content(archive, member)
    except (OSError, tarfile.TarError) as error:
        raise _unreadable(path, str(error)) from error
    if strange:
        raise SigningError(
            f"{path} has members that do not belong there: {'; '.join(strange)}",
            solution="Find out who packed it. Import what sign.sh or ./doit.sh sign has written.",
        )
    return found


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    assert stream is not None
    return stream.read()


def _unreadable(path: Path, reason: str) -> SigningError:
    return SigningError(
        f"{path} cannot be read as a tar: {reason}",
        solution="Copy it again from where it was made.",
    )


def _plain(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _complaint(member: tarfile.TarInfo, found: Mapping[str, bytes]) -> str:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts:
        return "leads elsewhere"
    if not (member.isreg() or member.isdir()) or member.issparse():
        return "is neither a file nor a folder"
    if member.size > LARGEST:
        return f"is larger than {LARGEST >> 20} MiB"
    if _plain(member.name) in found:
        return "is there twice"
    return ""
