"""The generated text as a whole, and the options it depends on."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from .archive import render_archive
from .constants import render_constants
from .errors import OptionError
from .grammar import (
    NAME_LENGTH,
    has_placeholder,
    require_name_prefix,
    require_server_root,
)
from .repository import Repository

_HEADER = "# Made by static-container-registry. Include it in a server block of nginx."


class Parts(enum.Enum):
    """Which parts to write; any combination of files works in one server."""

    ALL = "all"
    ARCHIVE = "archive"  # --omit-constants
    CONSTANTS = "constants"  # --only-constants


@dataclass(frozen=True)
class Options:
    """How a tree is to be served.

    ``server_root`` is where nginx sees the tree: an absolute path, or one that starts
    with an nginx variable or a Jinja placeholder. ``name_prefix`` is put before every
    name; it may be, or hold, a placeholder.

    :raises OptionError: a value cannot be written into nginx configuration.
    """

    server_root: str = ""  # needed for everything but Parts.CONSTANTS
    name_prefix: str = ""
    parts: Parts = Parts.ALL

    def __post_init__(self) -> None:
        require_name_prefix(self.name_prefix)
        if self.parts is not Parts.CONSTANTS:
            require_server_root(self.server_root)


def render(repositories: Iterable[Repository], options: Options) -> str:
    """Return nginx configuration for the inside of a ``server`` block.

    The same repositories and options give the same text, in whatever order they come.

    :raises OptionError: a name together with the prefix is longer than clients accept.
    """
    sections = [_HEADER]
    if options.parts is not Parts.CONSTANTS:
        prefix = require_name_prefix(options.name_prefix)
        ordered = tuple(sorted(repositories))
        _require_short_names(ordered, prefix)
        sections.append(render_archive(ordered, prefix, require_server_root(options.server_root)))
    if options.parts is not Parts.ARCHIVE:
        sections.append(render_constants())
    return "\n\n".join(sections) + "\n"


def _require_short_names(repositories: tuple[Repository, ...], prefix: str) -> None:
    if not repositories:
        raise OptionError("there is no image to serve", "pass at least one, or Parts.CONSTANTS")
    long = [
        repository.name
        for repository in repositories
        if not has_placeholder(prefix) and len(prefix) + 1 + len(repository.name) > NAME_LENGTH
    ]
    if long:
        raise OptionError(
            f"names longer than {NAME_LENGTH} characters with the prefix: {', '.join(long)}",
            "choose a shorter --name-prefix",
        )
