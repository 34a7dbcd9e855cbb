"""A file from another machine over HTTPS: whole and what it shall be, or not there at all.

A transfer that was cut off goes on where it was, with the same server or another. Until it is
whole, what came is in ``.<name>.partial`` beside the file.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import pathlib
import re
import ssl
import urllib.request

CHUNK = 1 << 20  # bytes
RESERVE = 1 << 28  # bytes that a transfer leaves free on the disk
SILENCE = 30  # seconds that a server may say nothing
FULL = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC)
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def fetch(path: str, size: int, sha256: str, urls: list[str], authority: str) -> str:
    """Bring a file here from the first server that has it; no name stands for anything else.

    :param sha256: hexadecimal, from whom is trusted: the servers are not.
    :param authority: certificate of the CA that signed those of the servers.
    :return: the URL that the last part came from.
    :raises RuntimeError: there is no room, or no server has it; the text says all reasons.
    """
    target = pathlib.Path(path)
    partial = target.with_name(f".{target.name}.partial")
    if _length(partial) > size:
        partial.unlink()
    _expect_room(partial, size)
    reasons = []
    for url in urls:
        try:
            _complete(partial, size, url, authority)
            _check(partial, sha256)
        except OSError as error:
            if error.errno in FULL:
                # Others need the disk more than half a file.
                partial.unlink(missing_ok=True)
                raise RuntimeError(
                    f"{target.parent} has no room for {target.name}, {size} bytes: {error.strerror}"
                ) from error
            reasons.append(f"{url}: {error}")
        except (http.client.HTTPException, ValueError) as error:
            reasons.append(f"{url}: {error}")
        else:
            _place(partial, target)
            return url
    raise RuntimeError(
        f"{path} cannot be fetched: {'; '.join(reasons) or 'no other machine serves it'}. Check "
        "that one of these machines runs and can be reached, and apply the states again."
    )


def digest(path: str) -> str:
    """Give the SHA-256 of a file, hexadecimal."""
    with pathlib.Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _length(path: pathlib.Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _expect_room(partial: pathlib.Path, size: int) -> None:
    disk = os.statvfs(partial.parent)
    free, wanted = disk.f_bavail * disk.f_frsize, size - _length(partial) + RESERVE
    if free < wanted:
        raise RuntimeError(
            f"{partial.parent} has {free >> 20} MiB free, expected {wanted >> 20} MiB. Make room, "
            "and apply the states again."
        )


def _complete(partial: pathlib.Path, size: int, url: str, authority: str) -> None:
    """Append to a part what it lacks.

    :raises ValueError: the server has another file.
    """
    start = _length(partial)
    if start == size:
        return
    with _opener(authority, f"bytes={start}-").open(url, timeout=SILENCE) as answer:
        start = _start(answer, size)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as stream:
            os.fchmod(stream.fileno(), 0o644)  # whatever the umask
            stream.truncate(start)
            stream.seek(start)
            while start < size and (chunk := answer.read(min(CHUNK, size - start))):
                stream.write(chunk)
                start += len(chunk)
            stream.flush()
            os.fsync(stream.fileno())
    if start < size:
        raise ValueError(f"it ended after {start} of {size} bytes")


def _start(answer: http.client.HTTPResponse, size: int) -> int:
    """Say where what a server sends begins in the file."""
    if answer.status == 206:
        found = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        start, there = map(int, found.groups()) if found else (0, 0)
    else:
        start, there = 0, int(answer.headers.get("Content-Length", 0))
    if there != size:
        raise ValueError(f"it has {there} bytes, expected {size}")
    return start


def _opener(authority: str, wanted: str) -> urllib.request.OpenerDirector:
    own = urllib.request.ProxyHandler({})  # it is a machine of the cluster, whatever the proxies
    context = ssl.create_default_context(cafile=authority)
    opener = urllib.request.build_opener(own, urllib.request.HTTPSHandler(context=context))
    opener.addheaders = [("Range", wanted)]
    return opener


def _check(partial: pathlib.Path, sha256: str) -> None:
    found = digest(str(partial))
    if found != sha256:
        partial.unlink()
        raise ValueError(f"what came has SHA-256 {found}, expected {sha256}; it was thrown away")


def _place(partial: pathlib.Path, target: pathlib.Path) -> None:
    partial.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the name, too, outlives a power cut
    finally:
        os.close(folder)
