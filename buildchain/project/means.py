"""What steps work with: where things are, and what this machine does them by.

**None of it is hashed**, so none of it may decide what comes out:

- ``layout``: a build is the same wherever it stands. What an action leaves is named by its record
  where the name is part of a medium.
- ``binaries``: what they are called here. Versions that count are checked before; where another
  program may give other bytes, its name is in the record (``mkisofs``).
- ``signing_key``: signatures follow the receipt of ``_iso_key``, which names the keys; all that
  signs for others needs it.
- registries: what is pulled is what its digest says, wherever it comes from and whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildchain.core.layout import Layout


@dataclass(frozen=True)
class Means:
    """What steps work with; the fields are those of :class:`buildchain.project.config.Config`."""

    layout: Layout
    binaries: Mapping[str, str]
    signing_key: str = ""
    registry_mirrors: tuple[str, ...] = ()
    plain_http_registries: tuple[str, ...] = ()
    registry_auth_file: Path | None = None

    def binary(self, name: str) -> str:
        """Return the program configured for ``<name>_BIN``."""
        return self.binaries[name]
