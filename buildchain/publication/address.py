"""What people write for a place: ``--to`` and ``--from``."""

from __future__ import annotations

import re
from pathlib import Path

from buildchain.core.errors import ConfigError
from buildchain.publication import bucket, remote
from buildchain.publication.folder import Folder
from buildchain.publication.place import Place, Target
from buildchain.publication.web import Web

SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
KINDS = (
    "a folder, s3://bucket/prefix, [user@]host:/path, rsync://host/module/path, or "
    "http[s]://host/path to fetch from"
)


def source(text: str, here: Path) -> Place:
    """Return the place that releases are fetched from.

    :param here: where relative folders start.
    :raises ConfigError: it is none; a password in it is not repeated.
    """
    return Web(text) if text.startswith(("http://", "https://")) else _find(text, here)


def target(text: str, here: Path) -> Target:
    """Return the place that releases are published to.

    :raises ConfigError: it is none, or one that cannot be written to.
    """
    if text.startswith(("http://", "https://")):
        raise ConfigError(
            "nothing can be published through a web server's own protocol",
            solution="Name where the server has its files: a folder, or host:/path.",
        )
    return _find(text, here)


def _find(text: str, here: Path) -> Target:
    if text.startswith("s3://"):
        return bucket.Bucket(text)
    if text.startswith("rsync://") or (not SCHEME.match(text) and remote.is_remote(text)):
        return remote.Remote(text)
    if not text or SCHEME.match(text) or "\0" in text:
        raise ConfigError("no place that is known", solution=f"Name {KINDS}.")
    return Folder(here / Path(text).expanduser())
