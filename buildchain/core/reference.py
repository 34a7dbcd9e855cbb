"""Names of container images: ``registry[:port]/path[:tag][@sha256:<64 hex digits>]``.

Grammar: OCI distribution specification, "Pulling manifests". The registry is never guessed: a name
without one means something else on each machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 255  # characters of a repository's path
_HOST = r"(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?)(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
TAG = re.compile(_TAG)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PATTERN = re.compile(
    rf"(?P<registry>{_HOST})/(?P<repository>{REPOSITORY.pattern})"
    rf"(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{DIGEST.pattern}))?"
)


@dataclass(frozen=True)
class Reference:
    """A parsed name; ``tag`` and ``digest`` may be empty."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"


def parse(text: str) -> Reference:
    """Read a name.

    :raises ValueError: it is none; the text says what is expected.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or not _is_host(match["registry"]) or len(match["repository"]) > LONGEST:
        raise ValueError("registry[:port]/path[:tag][@sha256:<64 hex digits>], path in lower case")
    return Reference(
        match["registry"], match["repository"], match["tag"] or "", match["digest"] or ""
    )


def _is_host(name: str) -> bool:
    """Tell a host from the first part of a path, as all clients do."""
    return "." in name or ":" in name or name == "localhost"
